"""Branches, mapped tasks, sensors, setups and callbacks in one small pipeline.

`tidemill dags test examples/patterns.py patterns` runs it here and now; `tidemill dags register` for good.

Every hour a folder is looked at; each file in it is measured, by at most two tasks at once; a report
is written where there was something to report.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tidemill import DAG, BashOperator, CommandNotifier, EmptyOperator, TriggerRule, setup, task, teardown

FOLDER = Path(__file__).parent

with DAG(
    "patterns",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    params={"pattern": "*.json"},
    default_args={"retries": 1, "retry_delay": timedelta(seconds=5)},
    on_failure_callback=CommandNotifier(
        command='echo "$TIDEMILL_DAG_ID $TIDEMILL_RUN_ID failed: $TIDEMILL_REASON" >&2'
    ),
):

    @task.sensor(poke_interval=timedelta(seconds=5), timeout=timedelta(minutes=1), soft_fail=True)
    def any_file(params: Any = None) -> bool:
        return any(FOLDER.glob(params["pattern"]))

    @setup
    def workspace() -> str:
        return str(FOLDER)

    @task
    def files(folder: str, params: Any = None) -> list[str]:
        return sorted(path.name for path in Path(folder).glob(params["pattern"]))

    @task(max_active_tis_per_dagrun=2)
    def measure(folder: str, name: str) -> dict[str, Any]:
        return {"name": name, "bytes": (Path(folder) / name).stat().st_size}

    @task.branch
    def large_or_small(measured: list[dict[str, Any]]) -> str:
        return "report" if sum(one["bytes"] for one in measured) > 100 else "nothing_to_do"

    @teardown
    def tidy_up() -> None:
        print("the workspace is left as it was")

    nothing_to_do = EmptyOperator(task_id="nothing_to_do")
    report = BashOperator(task_id="report", bash_command="echo {{ ti.xcom_pull('files') | length }} files")
    done = EmptyOperator(task_id="done", trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)

    folder = workspace()
    measured = measure.partial(folder=folder).expand(name=files(folder))
    any_file() >> folder
    large_or_small(measured) >> [report, nothing_to_do] >> done
    measured >> tidy_up().as_teardown(setups=folder)
