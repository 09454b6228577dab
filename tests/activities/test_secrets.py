"""Variables and connections: found where they are kept, masked in what is printed, never in history."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Stack
from temporalio.exceptions import ApplicationError
from tidemill.activities import secrets
from tidemill.activities.attempts.outcomes import outcome_of
from tidemill.activities.dag_files import parse_dag_file
from tidemill.activities.masking import Masker
from tidemill.activities.processes.answers import Failed
from tidemill.activities.secrets import Connection, Variable
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.task_instances import Failure

FILE = Path(__file__).parents[1] / "dags" / "task_shapes.py"
URI = "postgresql://ada:s3cret%2Fword@db.example:5432/sales?api_key=abc123"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    secrets.backends.cache_clear()
    yield
    secrets.backends.cache_clear()


class OfMyOwn:
    """A backend as a user would write one."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def get_variable(self, key: str) -> str | None:
        return f"{self._prefix}-{key}" if key == "mine" else None

    def get_connection(self, conn_id: str) -> str | None:
        return None


def test_a_connection_is_a_uri_or_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", URI)
    found = Connection.get("warehouse")
    assert (found.conn_type, found.host, found.port, found.schema) == ("postgresql", "db.example", 5432, "sales")
    assert (found.login, found.password, found.extra_dejson) == ("ada", "s3cret/word", {"api_key": "abc123"})
    monkeypatch.setenv("TIDEMILL_CONN_LAKE", json.dumps({"conn_type": "s3", "extra": {"region": "eu"}}))
    assert Connection.get("lake").extra_dejson == {"region": "eu"}
    with pytest.raises(InvalidInputError, match=r"connection 'nope' is not set\. Set TIDEMILL_CONN_NOPE to a URI"):
        Connection.get("nope")


def test_a_file_and_a_backend_of_ones_own_are_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({"variables": {"limits": {"a": 1}, "mine": "of the file"}}))
    monkeypatch.setenv("TIDEMILL_SECRETS_FILE", str(path))
    monkeypatch.setenv("TIDEMILL_SECRETS_BACKEND", f"{__name__}:OfMyOwn")
    monkeypatch.setenv("TIDEMILL_SECRETS_BACKEND_KWARGS", '{"prefix": "own"}')
    assert Variable.get("limits", deserialize_json=True) == {"a": 1}
    assert Variable.get("mine") == "own-mine"
    assert Variable.get("nope", default=None) is None
    with pytest.raises(InvalidInputError, match="variable 'nope' is not set"):
        Variable.get("nope")


def test_where_a_name_is_found_is_where_its_value_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({"variables": {"Shadowed": 1, "Own": 2}, "connections": {"Void": "ftp://there"}}))
    monkeypatch.setenv("TIDEMILL_SECRETS_FILE", str(path))
    monkeypatch.setenv("TIDEMILL_VAR_SHADOWED", "of the environment")
    monkeypatch.setenv("AIRFLOW_VAR_EMPTY", "")
    monkeypatch.setenv("AIRFLOW_CONN_VOID", "")
    known = secrets.names_of("variable")
    assert known["Shadowed"] == secrets.place_of("variable", "shadowed") == "TIDEMILL_VAR_SHADOWED"
    assert Variable.get("Shadowed") == Variable.get("shadowed") == "of the environment"
    assert (known["Own"], known["empty"]) == ("TIDEMILL_SECRETS_FILE", "AIRFLOW_VAR_EMPTY")
    assert secrets.place_of("variable", "own") is None  # a file's names are written as they are
    assert Variable.get("empty") == ""
    assert secrets.names_of("connection")["Void"] == "TIDEMILL_SECRETS_FILE"  # an empty one is none
    assert Connection.get("Void").host == "there"


async def test_a_secret_is_in_no_log_no_error_and_no_history(here: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_CONN_WAREHOUSE", URI)
    monkeypatch.setenv("TIDEMILL_VAR_MODE", "work")
    [spec] = [spec for spec in parse_dag_file(FILE).dags if spec.dag_id == "secretive"]
    details = await here.run_once(spec)
    assert here.log_of("secretive", details.run.run_id, "tell").strip() == "the password is ***"
    assert here.log_of("secretive", details.run.run_id, "show").strip() == "work ada"
    handle = here.tidemill.client.get_workflow_handle(details.run.workflow_id)
    assert "s3cret" not in (await handle.fetch_history()).to_json()


async def test_a_secret_is_masked_in_what_a_task_fails_with(here: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_CONN_WAREHOUSE", URI)
    monkeypatch.setenv("TIDEMILL_VAR_MODE", "fail")
    [spec] = [spec for spec in parse_dag_file(FILE).dags if spec.dag_id == "secretive"]
    details = await here.run_once(spec)
    errors = {task.key: task.error for task in details.tasks}
    assert errors["tell"] == "ValueError: cannot log in with ***"
    assert "s3cret" not in here.log_of("secretive", details.run.run_id, "tell")


def test_a_failure_has_no_secret_in_it() -> None:
    """What a child reports goes through the worker's masks before it goes anywhere."""
    masker = Masker()
    masker.add("s3cret")
    failure = {"error_type": "ValueError", "message": "no s3cret", "traceback": ["in s3cret"]}
    with pytest.raises(ApplicationError) as raised:
        outcome_of(Failed(failure=Failure.model_validate(failure)), masker)
    assert "s3cret" not in str(raised.value)
    assert "s3cret" not in str(raised.value.details)


def test_a_backend_is_asked_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A password that was changed in the vault counts a minute later."""
    now, asked = [1000.0], []

    class Vault:
        def get_variable(self, key: str) -> str:
            asked.append(key)
            return f"version {len(asked)}"

    monkeypatch.setattr(secrets.time, "monotonic", lambda: now[0])
    remembering = secrets.CachingBackend(Vault())
    assert [remembering.get_variable("a") for _ in range(3)] == ["version 1"] * 3
    now[0] += secrets.SECRETS_COUNT_FOR_SECONDS - 1
    assert remembering.get_variable("a") == "version 1"
    now[0] += 2
    assert remembering.get_variable("a") == "version 2"
