"""What a task is that waits for a file."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ...model.spec.tasks.waiting import PokedTask


class FileSensorTask(PokedTask):
    """Waits for a file, or for one that a pattern such as `in/*.csv` fits (Airflow: FileSensor)."""

    activity: ClassVar[str | None] = "tidemill.file_sensor"
    airflow_name: ClassVar[str] = "FileSensor"
    template_fields: ClassVar[tuple[str, ...]] = ("filepath",)
    kind: Literal["file_sensor"] = "file_sensor"
    filepath: Annotated[str, Field(min_length=1)]
    """The path or pattern; a template."""
    fs_conn_id: str | None = None
    """A connection whose extra field `path` is the folder that a relative path begins at."""
