"""Assets, and what partitions are made of, from what Airflow's own encoder writes of them: pure."""

import re
from typing import Any

from ....model.errors import InvalidInputError

TYPE, VAR = "__type", "__var"
NESTED = ("upstream_mapper", "downstream_mapper")
OWN = {"kind": "own", "poll_interval": 1}
"""A watcher: its trigger's class is in the file. A look follows upon the one before, as Airflow's never ends."""
ODD = re.compile(r"[^A-Za-z0-9_.\-]")
LONGEST_NAME = 100


def leaf_of(written: dict[str, Any]) -> dict[str, Any]:
    """An asset, an alias or a reference, as tidemill's models read it."""
    match written[TYPE]:
        case "asset":
            watchers = [{"name": watcher_name(each["name"]), "trigger": OWN} for each in written.get("watchers", ())]
            known = {name: written[name] for name in ("name", "uri", "group", "extra")}
            return {"kind": "asset", **known, **({"watchers": watchers} if watchers else {})}
        case "asset_alias":
            return {"kind": "alias", "name": written["name"], "group": written["group"]}
        case "asset_ref":
            return {"kind": "ref", **{name: written[name] for name in ("name", "uri") if name in written}}
        case other:
            raise InvalidInputError(f"an asset of the kind {other!r} is not known. Use Asset, AssetAlias or Asset.ref")


def watcher_name(name: str) -> str:
    """The name by which tidemill knows a watcher of Airflow's: workflows are called by it."""
    return ODD.sub("_", name)[:LONGEST_NAME]


def condition_of(written: dict[str, Any]) -> dict[str, Any]:
    """What a DAG waits for."""
    match written[TYPE]:
        case "asset_all":
            return {"kind": "all", "of": [condition_of(part) for part in written["objects"]]}
        case "asset_any":
            return {"kind": "any", "of": [condition_of(part) for part in written["objects"]]}
        case _:
            return leaf_of(written)


def partitioned_of(fields: dict[str, Any]) -> dict[str, Any]:
    """A schedule by partitions of assets."""
    return {
        "assets": condition_of(fields["asset_condition"]),
        "default_mapper": mapper_of(fields["default_partition_mapper"]),
        "mappers": [
            {**_key_of(leaf_of(asset)), "mapper": mapper_of(mapper)}
            for asset, mapper in fields["partition_mapper_config"]
        ],
    }


def _key_of(leaf: dict[str, Any]) -> dict[str, Any]:
    return {"name": leaf["name"]} if leaf.get("name") is not None else {"uri": leaf["uri"]}


def mapper_of(written: dict[str, Any]) -> dict[str, Any]:
    """What makes keys of runs from those of an asset."""
    name = _builtin("partition mapper", written, "airflow.partition_mappers.")
    fields = {key: value for key, value in written[VAR].items() if value is not None}
    for key in NESTED:
        if key in fields:
            fields[key] = mapper_of(fields[key])
    if "mappers" in fields:
        fields["mappers"] = [mapper_of(part) for part in fields["mappers"]]
    if "window" in fields:
        window = fields["window"]
        fields["window"] = {"window": _builtin("window", window, "airflow.partition_mappers."), **window[VAR]}
    if "wait_policy" in fields:
        policy = fields["wait_policy"]
        minimum = _builtin("wait policy", policy, "airflow.partition_mappers.") == "MinimumCount"
        fields["wait_policy"] = {"policy": "minimum" if minimum else "all", **policy[VAR]}
    return {"mapper": name, **fields}


def _builtin(what: str, written: dict[str, Any], place: str) -> str:
    path: str = written[TYPE]
    if not path.startswith(place):
        raise InvalidInputError(f"{what} {path}: a class of one's own is not offered here. Use one of Airflow's")
    return path.rpartition(".")[2]
