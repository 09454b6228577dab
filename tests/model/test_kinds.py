"""Tables by kind of task are derived from the kinds' models."""

import pytest
from tidemill.api.responses.tasks import operator_of
from tidemill.model.authoring.arguments import CALLS, SHELLS, SPARKS, WAITS
from tidemill.model.spec.tasks import KINDS

import tidemill


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"airflow"}))
def test_each_has_the_name_that_dag_files_call_it_by(kind: str) -> None:
    name = operator_of(kind)
    found = tidemill.task if name.startswith("@task.") else tidemill
    assert hasattr(found, name.removeprefix("@task."))


def test_what_airflow_calls_them() -> None:
    assert operator_of("wait_until") == "DateTimeSensor"
    assert operator_of("airflow", "HttpOperator") == "HttpOperator"


def test_which_share_what() -> None:
    assert {"wait_until", "bash_sensor", "trigger_dag"} <= WAITS
    assert {"pyspark", "spark_sql_function"} == CALLS & SPARKS
    assert {"bash", "bash_function", "bash_sensor"} == SHELLS
