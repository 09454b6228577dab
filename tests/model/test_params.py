"""Schemas of params: what they may refer to, and what is looked at where."""

import json
from pathlib import Path
from typing import Any

import pytest
from tidemill.model.errors import InvalidInputError
from tidemill.model.spec.dag import DagSpec, read_dag
from tidemill.model.spec.params import conf_problem, is_costly, param_problem

ENDLESS = {"type": "string", "pattern": "^(a+)+$"}
NEVER_FITS = "a" * 64 + "!"


def document(schema: dict[str, Any], value: Any = 1, schedule: str | None = None) -> dict[str, Any]:
    return {"dag_id": "d", "schedule": schedule, "params": {"x": {"value": value, "schema": schema}}, "tasks": []}


@pytest.mark.parametrize("where", [{}, {"properties": {"y": 0}}, {"anyOf": [0]}, {"$defs": {"y": 0}}])
@pytest.mark.parametrize("key", ["$ref", "$dynamicRef"])
def test_a_schema_that_leads_out_of_itself_is_refused(key: str, where: dict[str, Any], tmp_path: Path) -> None:
    reference = {key: f"file://{tmp_path}/secrets.json#/nowhere"}
    schema = json.loads(json.dumps(where or 0).replace("0", json.dumps(reference)))
    with pytest.raises(InvalidInputError, match=r"params.x.schema: \$ref '.*' leads out of it, and nothing is fetched"):
        read_dag(document(schema))


def test_a_reference_within_the_schema_is_followed() -> None:
    schema = {"$ref": "#/$defs/small", "$defs": {"small": {"maximum": 3}}}
    param = read_dag(document(schema)).params["x"]
    assert param_problem(param, 2) is None
    assert param_problem(param, 4) == "4 is greater than the maximum of 3"


def test_nothing_is_fetched_for_a_schema_of_a_release_before(tmp_path: Path) -> None:
    """What it says of the file would tell what is in it."""
    file = tmp_path / "secrets.json"
    file.write_text('{"password": "S3CRET"}')
    spec = DagSpec.model_validate(document({"$ref": f"file://{file}#/nowhere"}, schedule="@daily"))
    problem = conf_problem(spec.params, {}, costly=True)
    told = f"its schema refers to 'file://{file}#/nowhere', which is not in it"
    assert problem == f"conf.x = 1 does not fit its param: {told}. Correct the value"


def test_a_schema_that_refers_to_itself_without_end_is_told() -> None:
    assert param_problem({"schema": {"$ref": "#"}}, 1) == "its schema refers to itself without an end"


def test_a_schema_that_is_nested_too_deeply_is_told() -> None:
    schema: dict[str, Any] = {}
    for _ in range(400):
        schema = {"allOf": [schema]}
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        read_dag(document(schema))


@pytest.mark.parametrize(
    "schema",
    [
        ENDLESS,
        {"patternProperties": {"^(a+)+$": {}}},
        {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}] * 2}}, "$ref": "#/$defs/a"},
        {"properties": {"y": {"prefixItems": [{"pattern": "x"}]}}},
        {"$schema": "http://json-schema.org/draft-04/schema#"},
        {"allOf": [{"allOf": [{}], "unevaluatedProperties": True}], "unevaluatedProperties": True},
        {"unevaluatedItems": False},
        {"type": ["array", "string"], "uniqueItems": True},
    ],
)
def test_what_may_take_for_ever_is_looked_at_elsewhere(schema: dict[str, Any]) -> None:
    """Neither where a DAG is read, nor in workflows, which read it again and again."""
    assert is_costly(schema)
    spec = read_dag(document(schema, NEVER_FITS, "@daily"))
    assert conf_problem(spec.params, {"x": NEVER_FITS}, costly=False) is None


def test_what_takes_no_time_is_looked_at_at_once() -> None:
    assert not is_costly({"type": "object", "properties": {"n": {"enum": [1, 2]}}, "format": "date"})
    with pytest.raises(InvalidInputError, match="its default does not fit its schema: 1 is not of type 'string'"):
        read_dag(document({"type": "string"}, schedule="@daily"))
