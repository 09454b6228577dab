"""Groups of tasks: a name before their task_ids, and perhaps values that they are mapped over together."""

from typing import Annotated

from pydantic import Field

from ..base import Brief, Model
from .expansion import Expansion


class TaskGroup(Brief, Model):
    """A group (Airflow: TaskGroup). Its tasks are those whose `group` is its id, or begins with it and a dot."""

    group_id: Annotated[str, Field(pattern=r"^[\w.\-]+$", max_length=250)]
    tooltip: str | None = None
    expand: Expansion | None = None
