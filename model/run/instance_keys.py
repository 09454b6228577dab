"""What an instance of a task is called within its run: `load`, or `load[3]` where the task is mapped."""

UNMAPPED = -1
"""The map_index of a task that is not mapped (as in Airflow)."""


def instance_key(task_id: str, map_index: int = UNMAPPED) -> str:
    return task_id if map_index == UNMAPPED else f"{task_id}[{map_index}]"


def split_key(key: str) -> tuple[str, int]:
    """task_id and map_index of an instance."""
    if not key.endswith("]"):
        return key, UNMAPPED
    task_id, _, index = key[:-1].rpartition("[")
    return (task_id, int(index)) if index.isdecimal() and task_id else (key, UNMAPPED)
