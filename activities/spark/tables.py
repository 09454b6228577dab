"""Which branch of a table an attempt writes to: its own, which readers of the table do not see (Iceberg)."""

from hashlib import sha256

from ...model.base import iso
from ...model.run.attempts import TaskAttempt, task_path
from ...model.run.task_instances import StagedTable
from ...model.spec.tasks.spark import check_table_name
from .place import invalid


def stage_table(attempt: TaskAttempt, table: str | None, replace_where: str | None, number: int) -> StagedTable | None:
    """Return where start *number* of the attempt writes, so that it may become *table*'s; None without a table.

    Fails the task for what is no table's name.
    """
    if table is None:
        return None
    try:
        check_table_name(table)
    except ValueError as error:
        raise invalid(str(error)) from None
    path = task_path(attempt.run.dag_id, attempt.run.run_id, attempt.task.task_id, attempt.map_index)
    family = f"tidemill_{sha256(path.encode()).hexdigest()[:16]}_"
    # By the order of starts: a later one has the task, and is not ended by one that is late.
    execution = sha256(attempt.execution.encode()).hexdigest()[:8]
    branch = f"{family}{execution}_{attempt.try_number:05}_{number:05}"
    return StagedTable(table=table, branch=branch, family=family, replace_where=replace_where or None)


def branch_conf(attempt: TaskAttempt, staged: StagedTable) -> dict[str, str]:
    """Return the conf by which every session of an application writes to the branch, and signs what it writes."""
    signed = {
        f"spark.sql.iceberg.snapshot-property.{name}": value for name, value in signature(attempt, staged).items()
    }
    return {"spark.wap.branch": staged.branch, **signed}


def signature(attempt: TaskAttempt, staged: StagedTable) -> dict[str, str]:
    """Return what is in the summary of each snapshot that the attempt makes."""
    run = attempt.run
    signed = {
        "branch": staged.branch,
        "dag_id": run.dag_id,
        "run_id": run.run_id,
        "task_id": attempt.task.task_id,
        "map_index": str(attempt.map_index),
        "try_number": str(attempt.try_number),
    }
    if attempt.first_execution:
        signed["first_execution"] = attempt.first_execution
    if run.data_interval is not None:
        signed["data_interval_start"] = iso(run.data_interval.start)
        signed["data_interval_end"] = iso(run.data_interval.end)
    return {f"tidemill.{name}": value for name, value in signed.items()}
