"""A DAG as data: what is refused, and how it is said."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support import at, bash, dag, empty
from tidemill.model.errors import InvalidInputError
from tidemill.model.spec.dag import read_dag, with_default_pools
from tidemill.model.spec.params import param_value
from tidemill.model.spec.schema import dag_schema
from tidemill.model.spec.timetables import CronTrigger

WHOLE: dict[str, Any] = {"dag_id": "sales", "schedule": "@daily", "start_date": "2024-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"scheduel": "@daily"}, "scheduel = '@daily': no such field. Did you mean 'schedule'?"),
        ({"schedule": "61 * * * *"}, "cannot read cron expression '61 * * * *'"),
        ({"schedule": "H * * * *"}, "cannot read cron expression 'H * * * *'"),
        ({"schedule": True}, "schedule = True is not understood. Give a cron string"),
        ({"timezone": "Mars/Olympus"}, "unknown time zone 'Mars/Olympus'. Use an IANA name"),
        ({"start_date": "2024-01-01T00:00:00"}, "start_date: 2024-01-01T00:00:00 has no time zone. Write an offset"),
        ({"start_date": 1704067200}, "start_date: 1704067200 is not a date. Write it as ISO 8601"),
        ({"end_date": "2023-01-01T00:00:00Z"}, "end_date 2023-01-01T00:00:00+00:00 is before start_date 2024-01-01"),
        ({"max_active_runs": 0}, "max_active_runs = 0: no run would begin. Give at least 1, or pause the DAG"),
        ({"max_active_runs": -1}, "max_active_runs = -1"),
        ({"dag_id": "a b"}, "dag_id = 'a b'"),
        ({"catchup": True, "start_date": None}, "catchup = True needs a start_date"),
        ({"schedule": "@continuous"}, "max_active_runs = 16 does not go with @continuous. Set max_active_runs to 1"),
        ({"schedule": 0}, "schedule interval must be positive"),
        ({"schedule": ["0 1 * * *", "nonsense"]}, "cannot read cron expression 'nonsense'"),
        ({"tasks": [empty("a"), empty("a")]}, "task_id 'a' is used by 2 tasks. Give each task its own task_id"),
        (
            {"tasks": [empty("a", "b")]},
            "task 'a' names upstream 'b', which is not a task of this DAG. Its tasks are: a",
        ),
        (
            {"tasks": [empty("load", "check"), empty("check", "load")]},
            "task 'load' is downstream of itself (load >> check >> load). Remove one of these edges",
        ),
        ({"tasks": [{"kind": "bush", "task_id": "a"}]}, "unknown kind. Use one of 'empty', 'bash'"),
        ({"tasks": [{"task_id": "a"}]}, "no 'kind' is given. Add one"),
        ({"tasks": [bash("a", "true", retrys=3)]}, "retrys = 3: no such field"),
        ({"tasks": [bash("a", "true", retries=-1)]}, "retries = -1"),
        ({"tasks": [bash("a", "true", trigger_rule="all_sucess")]}, "trigger_rule = 'all_sucess'"),
        ({"tasks": [bash("a", "true", execution_timeout=0)]}, "is not a positive duration"),
        (
            {"tasks": [empty("a"), {"kind": "python", "task_id": "b", "args": [{"$xcom": "a", "key": "x"}]}]},
            "task 'b' uses the result of 'a' without being downstream of it. Add 'a' to its upstream",
        ),
    ],
)
def test_bad_input_gets_one_clear_error(fields: dict[str, Any], told: str) -> None:
    """The error names the field, the value and the remedy."""
    with pytest.raises(InvalidInputError) as error:
        read_dag({**WHOLE, **fields})
    assert told in str(error.value)
    assert "pydantic" not in str(error.value)


def test_every_error_is_told_at_once() -> None:
    with pytest.raises(InvalidInputError, match="has 2 errors"):
        read_dag({**WHOLE, "max_active_runs": -1, "nonsense": 1})


def test_what_is_not_an_object_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="a DAG is a JSON object, not list"):
        read_dag([])


@pytest.mark.parametrize(
    ("schedule", "kind"),
    [
        ("@daily", "cron_interval"),
        ("0 6 * * 1-5", "cron_interval"),
        (3600, "delta_interval"),
        ("@once", "once"),
        (None, "null"),
        (["0 1 * * *", "0 2 * * *"], "multi_cron_trigger"),
        ({"kind": "cron_trigger", "expression": "@daily"}, "cron_trigger"),
    ],
)
def test_a_schedule_can_be_written_in_short(schedule: Any, kind: str) -> None:
    assert read_dag({"dag_id": "d", "schedule": schedule}).schedule.kind == kind


def test_a_setting_gives_bare_schedules_airflow_3s_meaning() -> None:
    assert read_dag({"dag_id": "d", "schedule": "@daily", "schedule_kind": "trigger"}).schedule.kind == "cron_trigger"
    assert read_dag({"dag_id": "d", "schedule": 60, "schedule_kind": "trigger"}).schedule.kind == "delta_trigger"


def test_defaults_are_airflows() -> None:
    spec = dag("d", [bash("a", "true")])
    task = spec.by_id["a"]
    assert (spec.catchup, spec.max_active_runs, spec.max_active_tasks) == (False, 16, 16)
    assert (task.retries, task.retry_delay, task.trigger_rule) == (0, timedelta(minutes=5), "all_success")


def test_a_run_has_the_version_of_its_dag_though_default_pools_are_written_into_it() -> None:
    """Runs of Spark tasks were shown with another version than their DAG's, and cleared "with an older one"."""
    made = read_dag({"dag_id": "a", "tasks": [{"kind": "spark_sql", "task_id": "x", "sql": "select 1"}]})
    of_run = with_default_pools(made)
    assert (of_run.by_id["x"].pool, of_run.version) == ("spark", made.version)
    assert made.version != read_dag({**made.model_dump(mode="json"), "doc_md": "other"}).version


def test_the_version_tells_content_apart_and_nothing_else() -> None:
    first, same = read_dag(WHOLE), read_dag({**WHOLE, "start_date": "2024-01-01T01:00:00+01:00"})
    assert first.version == same.version
    assert first.version != read_dag({**WHOLE, "catchup": True}).version


def test_a_spec_survives_json() -> None:
    spec = read_dag({**WHOLE, "tasks": [bash("a", "true"), empty("b", "a")], "dagrun_timeout": 60})
    assert read_dag(json.loads(spec.model_dump_json())) == spec


def test_the_earliest_date_may_come_from_the_tasks() -> None:
    """Airflow: the DAG's own start_date, else the least of its tasks' (DAG only, task only, mixed)."""
    assert dag("d", [empty("a")], start_date="2024-01-01T00:00:00Z").restriction.earliest == at("2024-01-01")
    own = [empty("a", start_date="2024-03-01T00:00:00Z"), empty("b", start_date="2024-02-01T00:00:00Z"), empty("c")]
    assert dag("d", own).restriction.earliest == at("2024-02-01")
    assert dag("d", own, start_date="2024-02-15T00:00:00Z").restriction.earliest == at("2024-02-15")


ROOT = Path(__file__).parents[2]
WRITTEN = [
    pytest.param(json.loads((ROOT / "examples" / "hello.json").read_text()), id="example"),
    pytest.param({**WHOLE, "schedule": 3600, "dagrun_timeout": 60}, id="seconds"),
    pytest.param({**WHOLE, "schedule": ["@daily", "0 1 * * *"], "dagrun_timeout": "PT1M"}, id="crons"),
    pytest.param({**WHOLE, "schedule": None, "tasks": [bash("a", "true", retry_delay=5)]}, id="null"),
]


def test_the_published_schema_is_the_models() -> None:
    """docs/dag.schema.json is what an editor checks a hand-written DAG against."""
    assert json.loads((ROOT / "docs" / "dag.schema.json").read_text()) == dag_schema()


@pytest.mark.parametrize("document", WRITTEN)
def test_the_schema_accepts_what_is_accepted(document: dict[str, Any]) -> None:
    Draft202012Validator(dag_schema()).validate(document)
    read_dag(document)


def test_the_schema_refuses_what_is_refused() -> None:
    assert list(Draft202012Validator(dag_schema()).iter_errors({**WHOLE, "scheduel": 1}))


def test_a_plain_dict_with_a_schema_key_is_a_plain_param() -> None:
    spec = dag("d", [bash("a", "x")], params={"target": {"schema": "public", "table": "t"}})
    assert param_value(spec.params["target"]) == {"schema": "public", "table": "t"}
    with pytest.raises(InvalidInputError, match=r"params\.n\.schema is no JSON schema"):
        dag("d", [], params={"n": {"value": 1, "schema": {"type": "int"}}})


def test_a_timetable_is_read_in_the_dags_time_zone_unless_it_names_its_own() -> None:
    for schedule in ({"kind": "cron_trigger", "expression": "0 6 * * *"}, CronTrigger(expression="0 6 * * *")):
        assert read_dag({"dag_id": "d", "timezone": "Europe/Berlin", "schedule": schedule}).schedule.timezone == (
            "Europe/Berlin"
        )
    own = CronTrigger(expression="0 6 * * *", timezone="UTC")
    assert read_dag({"dag_id": "d", "timezone": "Europe/Berlin", "schedule": own}).schedule.timezone == "UTC"
