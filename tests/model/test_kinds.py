"""Tables by kind of task are derived from the kinds' models."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest
from tidemill.activities.names import SPARK_SUFFIX
from tidemill.activities.tasks import WORK
from tidemill.api.responses.tasks import operator_of
from tidemill.model.authoring.arguments import CALLS, SHELLS, SPARKS, WAITS
from tidemill.model.spec.tasks import FOLDERS, KINDS

import tidemill


@pytest.mark.parametrize("kind", sorted(FOLDERS))
def test_a_folder_has_what_a_kind_needs(kind: str) -> None:
    package, model = FOLDERS[kind]
    assert package.rpartition(".")[2] == kind, "a folder is called as its kind"
    assert model.activity is not None
    assert hasattr(import_module(package), model.airflow_name), "its `__init__.py` gives its operator"
    work = inspect.signature(import_module(f"{package}.work").run)
    assert [*work.parameters] == ["job"]


def test_no_two_kinds_have_an_activity_of_one_folder() -> None:
    names = [model.activity for _, model in FOLDERS.values()]
    others = [model.activity for kind, model in KINDS.items() if kind not in FOLDERS]
    assert len(names) == len({*names})
    assert not {*names} & {*others}


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - FOLDERS.keys() - {"airflow"}))
def test_each_has_the_name_that_dag_files_call_it_by(kind: str) -> None:
    name = operator_of(kind)
    found = tidemill.task if name.startswith("@task.") else tidemill
    assert hasattr(found, name.removeprefix("@task."))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_has_an_activity_that_a_worker_does(kind: str) -> None:
    """Each way of working is in one table; else the kind has an activity of its own, or nothing is to be done."""
    name = KINDS[kind].activity
    own = {"tidemill.spark", "tidemill.external_task", "tidemill.trigger_dag"}
    assert name is None or name in {*WORK, *own}


def test_the_queues_that_tasks_go_to_are_those_that_workers_poll() -> None:
    assert {kind.queue_suffix for kind in KINDS.values()} == {"", SPARK_SUFFIX}


def test_what_airflow_calls_them() -> None:
    assert operator_of("wait_until") == "DateTimeSensor"
    assert operator_of("airflow", "HttpOperator") == "HttpOperator"


def test_which_share_what() -> None:
    assert {"wait_until", "bash_sensor", "trigger_dag"} <= WAITS
    assert {"pyspark", "spark_sql_function"} == CALLS & SPARKS
    assert {"bash", "bash_function", "bash_sensor"} == SHELLS


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_its_templates_are_fields_of_its_own(kind: str) -> None:
    assert KINDS[kind].model_fields.keys() >= {*KINDS[kind].template_fields}


def test_a_function_in_a_driver_has_its_arguments_filled_in_and_its_options() -> None:
    written = {"task_id": "t", "args": ["{{ ds }}"], "kwargs": {"a": 1}, "env": {"b": "{{ ts }}"}}
    task = KINDS["pyspark"].model_validate({**written, "spark": {"name": "{{ run_id }}"}})
    found = task.templated()
    assert all(value in found for value in (("{{ ds }}",), {"a": 1}, {"b": "{{ ts }}"}, "{{ run_id }}"))


def test_each_is_named_where_dags_are_written_as_json() -> None:
    text = (Path(__file__).parents[2] / "docs" / "authoring.md").read_text()
    [paragraph] = re.findall(r"^Kinds: (.*?)\. All fields", text, re.MULTILINE | re.DOTALL)
    assert {*re.findall(r"`(\w+)`", paragraph)} == KINDS.keys() - {"airflow"}
