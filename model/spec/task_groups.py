"""Groups of tasks: a name before their task_ids, and perhaps values that they are mapped over together."""

from typing import Annotated

from pydantic import Field

from ..base import Model, OmitDefaults
from ..names import NAME
from .expansion import Expansion


class TaskGroup(OmitDefaults, Model):
    """A group (Airflow: TaskGroup). Its tasks are those whose `group` is its id, or begins with it and a dot."""

    group_id: Annotated[str, Field(pattern=NAME, max_length=250)]
    """Unique among the groups and tasks of the DAG."""
    tooltip: str | None = None
    """Shown with the group in the graph."""
    expand: Expansion | None = None
    """What the group is mapped over; None: it is not mapped."""
