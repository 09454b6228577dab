"""Values that tasks keep: where they are is the worker's to say, whatever a child asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tidemill.activities.attempts.key_values import ANY_TASK, KeyValues
from tidemill.model.errors import InvalidInputError

OWN = "dag_id=d/run_id=r/task_id=t"


@pytest.fixture
def kept(tmp_path: Path) -> KeyValues:
    return KeyValues((tmp_path / "home" / "xcom" / "_values").as_uri())


def asked(store: str, of: str, **more: Any) -> dict[str, Any]:
    return {"store": store, "of": of, "key": "k", **more}


@pytest.mark.parametrize("of", [{"of": "variables"}, {"of": "asset_uri", "asset": "../../x"}, {"of": "task"}])
def test_a_value_is_kept_read_listed_and_deleted(kept: KeyValues, of: dict[str, str]) -> None:
    kept.answer({"store": "set", "key": "../k", "value": [1], **of}, OWN)
    assert kept.answer({"store": "get", "key": "../k", **of}, OWN) == {"found": True, "value": [1]}
    assert kept.answer({"store": "keys", **of}, OWN) == {"keys": ["../k"]}
    kept.answer({"store": "clear", **of}, OWN)
    assert kept.answer({"store": "get", "key": "../k", **of}, OWN) == {"found": False}


def test_a_task_has_its_own_values_whatever_it_says(kept: KeyValues) -> None:
    kept.answer(asked("set", "task", task="dag_id=other/run_id=r/task_id=t", value=1), OWN)
    assert kept.get(OWN, "k") == {"found": True, "value": 1}
    assert kept.get("dag_id=other/run_id=r/task_id=t", "k") == {"found": False}


@pytest.mark.parametrize("scope", ["../..", "..", "a/../../..", "/etc", "a//b", "", "."])
@pytest.mark.parametrize("store", ["get", "set", "delete", "clear", "keys"])
def test_nothing_outside_is_read_or_written(kept: KeyValues, tmp_path: Path, scope: str, store: str) -> None:
    """Whoever watches triggers speaks for several tasks, and names them."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "k.json").write_text('{"value": "a secret"}')
    with pytest.raises(InvalidInputError, match="no place where values are kept"):
        kept.answer(asked(store, "task", task=scope, value={"role": "admin"}), ANY_TASK)
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["k.json"]


def test_who_parses_a_file_reads_no_value_of_a_task(kept: KeyValues) -> None:
    kept.put(OWN, "k", 1)
    with pytest.raises(InvalidInputError, match="no task is asking"):
        kept.answer(asked("get", "task", task=OWN))


def test_there_are_no_other_values(kept: KeyValues) -> None:
    with pytest.raises(InvalidInputError, match="no values of 'run_starts' are kept"):
        kept.answer(asked("get", "run_starts"), OWN)
