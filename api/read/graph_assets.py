"""The assets in the graph of a DAG: what it waits for, and what its tasks write."""

from typing import Any

from ...model.spec.assets.condition import AssetAll, AssetAny, Condition
from ...model.spec.assets.identity import Asset, AssetAlias
from ...model.spec.dag import DagSpec
from ...model.spec.timetables import waited_for
from ..responses.common import asset_number

Node = dict[str, Any]
Edge = dict[str, Any]


def add_assets(spec: DagSpec, nodes: list[Node], edges: list[Edge]) -> None:
    """Add the assets of *spec* to its graph, as Airflow's user interface draws them."""
    condition = waited_for(spec.schedule)
    if condition is not None and nodes:
        _add_condition(condition, nodes[0]["id"], nodes, edges)
    known = {node["id"] for node in nodes}
    for task in spec.tasks:
        for leaf in task.outlets:
            node = _written(leaf)
            if node is not None:
                edges.append({"source_id": task.task_id, "target_id": node["id"], "label": None})
                nodes += [node] if node["id"] not in known else []
                known.add(node["id"])


def _written(leaf: Condition) -> Node | None:
    if isinstance(leaf, Asset):
        return {"id": f"asset:{asset_number(leaf.name)}", "label": leaf.name, "type": "asset"}
    if isinstance(leaf, AssetAlias):
        return {"id": f"asset-alias:{leaf.name}", "label": leaf.name, "type": "asset-alias"}
    return None


def _add_condition(part: Condition, target: str, nodes: list[Node], edges: list[Edge], path: str = "0") -> None:
    """Add *part* of what the DAG waits for, which leads to *target*; *path* tells gates of one kind apart."""
    match part:
        case AssetAll() | AssetAny():
            kind = "and-gate" if isinstance(part, AssetAll) else "or-gate"
            node: Node = {"id": f"{kind}-{path}", "label": f"{kind}-{path}", "type": "asset-condition"}
            node["asset_condition_type"] = kind
        case Asset():
            node = {"id": str(asset_number(part.name)), "label": part.name, "type": "asset"}
        case AssetAlias():
            node = {"id": part.name, "label": part.name, "type": "asset-alias"}
        case _:
            name = str(part.name or part.uri)
            node = {"id": name, "label": name, "type": "asset-name-ref" if part.name else "asset-uri-ref"}
    nodes.append(node)
    edges.append({"source_id": node["id"], "target_id": target, "is_source_asset": True if path == "0" else None})
    if isinstance(part, AssetAll | AssetAny):
        for number, one in enumerate(part.of):
            _add_condition(one, node["id"], nodes, edges, f"{path}.{number}" if path != "0" else str(number + 1))
