"""Templates and arguments, held against what was written down from the real Airflow 3.3.2 (record_reference.py)."""

import inspect
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tidemill.model.authoring.arguments import ACCEPTED, OF_KINDS
from tidemill.model.authoring.nodes import FIELDS_OF_KINDS
from tidemill.model.authoring.spark_options import SPARK_OPTIONS
from tidemill.model.dropped_arguments import DROPPED

import tidemill
from tidemill import DAG, Param, task

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "airflow" / "reference.json").read_text())
DIFFERENT = {
    "{{ dag_run.run_type }}": "manual",  # Airflow writes the name of the Python enum, which no file wants
    "{{ dag_run.state }}": "running",
    "{{ ti.state }}": "running",
    "{{ task.trigger_rule }}": "all_success",
    "{{ ti.xcom_pull(task_ids='none', default='x') }}": "x",  # Airflow forgets the default here
}
"""Where tidemill gives something else on purpose."""
ONLY_HERE = ("{{ conf }}", "{{ triggering_asset_events }}")  # the last is an object, which has its address


def test_every_template_gives_what_airflow_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in REFERENCE["settings"].items():
        monkeypatch.setenv(name, value)
    found = rendered([*REFERENCE["templates"]])
    wanted = {name: DIFFERENT.get(name, recorded.get("text")) for name, recorded in REFERENCE["templates"].items()}
    other = {name: (found.get(name), want) for name, want in wanted.items() if found.get(name) != want}
    assert {name: got for name, got in other.items() if name not in ONLY_HERE and "run_id }}" not in name} == {}
    assert other.keys() >= {name for name in REFERENCE["templates"] if name in ONLY_HERE or "run_id }}" in name}


def rendered(templates: list[str]) -> dict[str, str]:
    """By template: what a task is given for it, in the DAG that was recorded. Failed ones are left out."""
    found: dict[str, str] = {}
    dag = DAG(
        "templates",
        schedule=timedelta(days=1),
        schedule_kind="trigger",
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        tags=["b", "a"],
        description="what it is",
        params={"number": 5, "text": Param("x", type="string")},
        max_active_runs=3,
        default_args={"owner": "me"},
    )
    with dag:

        @task
        def first(ti: Any = None) -> dict[str, int]:
            ti.xcom_push(key="pushed", value=8)
            return {"number": 7}

        @task
        def none() -> None:
            """Returns nothing."""

        @task(task_id="second", retries=2, retry_delay=timedelta())
        def fill(number: int, text: str) -> None:
            found[templates[number]] = re.sub(r"second__\d+", "second", text)  # there it is one task

        before = [first(), none()]
        for number, template in enumerate(templates):
            before >> fill(number, template)
    dag.test(logical_date=datetime(2026, 1, 2, tzinfo=UTC), conf={"key": "of the conf"})
    return found


@pytest.mark.parametrize("name", [*REFERENCE["arguments"]])
def test_every_argument_of_airflows_is_known(name: str) -> None:
    """It does something, or is accepted with a notice, or is refused with what to write instead."""
    made_by = getattr(tidemill, name)
    whose = {"DAG": "DAG", "TaskGroup": "group"}.get(name, "task")
    known = {*ACCEPTED[whose], *DROPPED[whose], *OF_KINDS, *SPARK_OPTIONS, "dag", "on_kill"}
    known |= {field for fields in FIELDS_OF_KINDS.values() for field in fields}
    for cls in made_by.__mro__[:-1]:
        if "__init__" in vars(cls):
            known |= {*inspect.signature(vars(cls)["__init__"]).parameters}
    from tidemill.model.authoring.other_python import OPTIONS, WITHOUT_EFFECT

    known |= {*OPTIONS, *WITHOUT_EFFECT, "pre_execute", "post_execute", "task_group", "default_args"}
    assert sorted({*REFERENCE["arguments"][name]} - known) == []
