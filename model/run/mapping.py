"""Mapped tasks: over which values a task is run, and what each of its instances is given."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import product, zip_longest
from math import prod
from typing import Any

from ..spec.expansion import Expansion
from ..spec.references import CONCAT, FILL, MAPPED, RETURN_VALUE, STORED, ZIP, is_stored, is_xcom_reference, replace
from .task_instances import TaskInstance

MAX_MAP_LENGTH = 10_000
"""How many instances one task may be mapped to (Airflow: core.max_map_length)."""

Lookup = Callable[[dict[str, Any]], Any]
"""Finds the result that a reference names."""


class NotMappableError(ValueError):
    """What a task is to be mapped over is no list or dict, or too long."""


def instances(expansion: Expansion, lookup: Lookup) -> list[dict[str, Any]]:
    """The arguments of each instance, in the order of their map_index. Raises NotMappableError."""
    if expansion.each is not None:
        found = _values("expand_kwargs", expansion.each, lookup)
        for one in found:
            if not isinstance(one, dict):
                raise NotMappableError(f"expand_kwargs: {one!r} is no dict of arguments. Return a list of dicts")
        made = [dict(one) for one in found]
    else:
        columns = [_values(name, values, lookup) for name, values in expansion.by.items()]
        _check_length(prod(map(len, columns)))
        made = [dict(zip(expansion.by, row, strict=True)) for row in product(*columns)]
    _check_length(len(made))
    return made


def _check_length(n: int) -> None:
    if n > MAX_MAP_LENGTH:
        raise NotMappableError(
            f"{n} instances are more than the {MAX_MAP_LENGTH} that a task may be mapped to. Group the values"
        )


def _values(name: str, source: Any, lookup: Lookup) -> list[Any]:
    if is_xcom_reference(source):
        return [verbatim(value) for value in _listed(name, lookup(source))]
    return _listed(name, _combined(source, lookup))


def verbatim(value: Any) -> Any:
    """*value* such that rendering it gives it back: what a task returned is data, and no template."""
    return replace(value, lambda v: isinstance(v, str) and "{" in v, lambda text: "{{ " + json.dumps(text) + " }}")


def _listed(name: str, found: Any) -> list[Any]:
    if is_stored(found) and found.get("length") is not None:  # its values are read where they are used
        return [{STORED: found[STORED], "at": i} for i in range(found["length"])]
    if isinstance(found, dict):
        return [list(item) for item in found.items()]
    if isinstance(found, list | tuple):
        return list(found)
    raise NotMappableError(f"{name}: {found!r} cannot be mapped over. Return a list or a dict")


def _combined(source: Any, lookup: Lookup) -> Any:
    if isinstance(source, Mapping) and ZIP in source:
        columns = [_values("zip", part, lookup) for part in source[ZIP]]
        if FILL in source:
            return [list(row) for row in zip_longest(*columns, fillvalue=source[FILL])]
        return [list(row) for row in zip(*columns, strict=False)]
    if isinstance(source, Mapping) and CONCAT in source:
        return [value for part in source[CONCAT] for value in _values("concat", part, lookup)]
    return source


def length_of(instances: Sequence[TaskInstance], key: str) -> int:
    """Over how many values a result can be mapped; of a mapped task, over one for each instance that has left it.

    Raises NotMappableError.
    """
    if not instances or instances[0].map_index >= 0:
        return sum(1 for instance in instances if key in instance.xcom)
    [made] = instances
    if key == RETURN_VALUE and made.mapped_length is not None:
        return made.mapped_length
    return len(_listed(f"the result of {made.task_id!r}", made.xcom.get(key)))


def with_values(value: Any, values: Mapping[str, Any]) -> Any:
    """*value* with the arguments of a mapped group replaced by those of one instance."""
    return replace(value, _placeholders, lambda found: values[found[MAPPED]])


def _placeholders(value: Any) -> bool:
    return isinstance(value, dict) and MAPPED in value
