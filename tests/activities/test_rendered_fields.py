"""What templated fields came to is kept beside the log: of every kind of task, without secrets, and bounded."""

import json
from pathlib import Path
from typing import Any

import pytest
from support import Stack, bash, dag
from tidemill.activities.attempts.beside_log import LARGEST, RENDERED, keep_beside, path_beside
from tidemill.activities.dag_files import each_dag_file
from tidemill.activities.masking import Masker
from tidemill.activities.work.rendered import LONGEST, shown
from tidemill.model.run.views import RunDetails
from tidemill.worker.service.task_logs import TaskLog
from tidemill.worker.settings.reading import Settings

FILE = """
from tidemill import DAG, BaseOperator, task


class Load(BaseOperator):
    template_fields = ("table", "options")

    def __init__(self, *, table, options, other, **kwargs):
        super().__init__(**kwargs)
        self.table, self.options, self.other = table, options, other

    def execute(self, context):
        return None


with DAG("rendered_kinds", schedule=None):
    @task
    def of_function(day, *, more):
        return day

    @task.bash
    def of_command():
        return "echo {{ ds }}"

    of_function("{{ ds }}", more={"nested": ["{{ run_id }}"]})
    of_command()
    Load(task_id="of_operator", table="sales_{{ ds_nodash }}", options={"day": "{{ ds }}"}, other="{{ ds }}")
"""
DAY = {"logical_date": "2026-01-03T00:00:00Z"}


def rendered(here: Stack, details: RunDetails, task_id: str) -> dict[str, Any]:
    [log] = (here.home / "logs").glob(f"dag_id={details.run.dag_id}/**/task_id={task_id}/*.log")
    return TaskLog(Settings(home=here.home), str(log.relative_to(here.home / "logs"))).rendered


async def test_of_commands_without_what_is_secret(here: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_VAR_API_KEY", "s3cret-value")
    command = "true {{ ds }} {{ var.value.api_key }}"
    task = bash("say", command, env={"DAY": "{{ ds }}"})
    details = await here.run_once(dag("rendered_bash", [task]), **DAY)
    assert rendered(here, details, "say") == {"bash_command": "true 2026-01-03 ***", "env": {"DAY": "2026-01-03"}}


async def test_of_functions_and_operators(here: Stack, tmp_path: Path) -> None:
    (tmp_path / "kinds.py").write_text(FILE)
    [parsed] = each_dag_file(tmp_path / "kinds.py")
    assert parsed.error is None, parsed.error
    details = await here.run_once(parsed.dags[0], **DAY)
    assert rendered(here, details, "of_function") == {
        "op_args": ["2026-01-03"],
        "op_kwargs": {"more": {"nested": [details.run.run_id]}},
    }
    assert rendered(here, details, "of_command") == {"bash_command": "echo 2026-01-03"}
    assert rendered(here, details, "of_operator") == {"table": "sales_20260103", "options": {"day": "2026-01-03"}}


def test_what_is_long_is_cut_and_what_is_no_json_is_text() -> None:
    found = shown({"a": "x" * (LONGEST + 1), "b": {"of": {1, 2}}, "c": object(), "d": None, "e": [float("nan")]})
    assert found["a"].startswith("Truncated. It has 4,097 characters")
    assert len(found["a"]) < LONGEST + 100
    assert sorted(found["b"]["of"]) == [1, 2]
    assert found["c"].startswith("<object object")
    assert set(found) == {"a", "b", "c", "e"}
    json.dumps(found)


def test_what_cannot_be_kept_hurts_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "attempt=1.log"
    keep_beside(log, RENDERED, ["no fields"], Masker())
    keep_beside(log, RENDERED, {"a": "x" * LARGEST}, Masker())
    assert not path_beside(log, RENDERED).exists()
    keep_beside(tmp_path / "gone" / "attempt=1.log", RENDERED, {"a": 1}, Masker())
    assert "cannot be written" in caplog.text


def test_what_has_the_name_of_a_secret_is_not_shown() -> None:
    fields = {"env": {"DB_PASSWORD": "x", "DAY": "1"}, "op_kwargs": {"deep": [{"api_key": ["a", "b"]}]}, "token": "t"}
    assert shown(fields) == {
        "env": {"DB_PASSWORD": "***", "DAY": "1"},
        "op_kwargs": {"deep": [{"api_key": "***"}]},
        "token": "***",
    }
