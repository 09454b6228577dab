"""How DAG files write a task that waits for a file."""

from typing import Any

from ...model.authoring.dags import DAG
from ...model.authoring.mapped import Mappable


class FileSensor(Mappable):
    """Waits for a file, or for one that a pattern such as `in/*.csv` fits."""

    def __init__(self, task_id: str, *, filepath: str, dag: DAG | None = None, **options: Any) -> None:
        super().__init__("file_sensor", task_id, {**options, "filepath": filepath}, dag=dag)
