"""DAGs and assets as a graph: which DAG writes what, which runs then, as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...model.asset.state import AssetView
from ...model.errors import InvalidInputError

Node = tuple[str, str]
"""("dag" or "asset", its name)."""
COLOURS = {"dag": "#cfe8ef", "asset": "#fbe3b5"}
CIRCLE = "#d1495b"
WIDTH, HEIGHT = 2.6, 0.6
"""Inches from one column, or row, to the next."""


@dataclass(frozen=True)
class AssetGraph:
    """DAGs and assets in columns, from what is written to what runs then. Circles are legal: *closing* closes them."""

    columns: tuple[tuple[Node, ...], ...]
    edges: tuple[tuple[Node, Node], ...]
    closing: frozenset[tuple[Node, Node]]


def graph_of(views: Sequence[AssetView]) -> AssetGraph:
    """The graph of all assets; the same for the same assets."""
    edges = []
    for view in sorted(views, key=lambda view: view.name):
        asset = ("asset", view.name)
        edges += [(("dag", dag_id), asset) for dag_id in sorted(view.producers)]
        edges += [(asset, ("dag", dag_id)) for dag_id in view.consumers]
    nodes = sorted({("asset", view.name) for view in views} | {node for edge in edges for node in edge})
    after: dict[Node, list[Node]] = {node: [] for node in nodes}
    for source, target in edges:
        after[source].append(target)
    closing = _closing(nodes, after)
    forward = [edge for edge in edges if edge not in closing]
    return AssetGraph(_columns(nodes, forward), tuple(edges), frozenset(closing))


def _closing(nodes: Sequence[Node], after: dict[Node, list[Node]]) -> set[tuple[Node, Node]]:
    """The edges that lead back to where one has come from."""
    found: set[tuple[Node, Node]] = set()
    done: set[Node] = set()
    pointed_at = {target for targets in after.values() for target in targets}
    for start in sorted(nodes, key=lambda node: node in pointed_at):
        path: dict[Node, list[Node]] = {} if start in done else {start: [*after[start]]}
        while path:
            node, left = next(reversed(path.items()))
            if not left:
                done.add(node)
                del path[node]
                continue
            target = left.pop(0)
            if target in path:
                found.add((node, target))
            elif target not in done:
                path[target] = [*after[target]]
    return found


def _columns(nodes: Sequence[Node], edges: Sequence[tuple[Node, Node]]) -> tuple[tuple[Node, ...], ...]:
    """Each node behind all that lead to it; within a column, near to those."""
    before: dict[Node, list[Node]] = {node: [] for node in nodes}
    for source, target in edges:
        before[target].append(source)
    depth: dict[Node, int] = {}
    left = [*nodes]
    while left:
        ready = [node for node in left if all(one in depth for one in before[node])]
        depth.update({node: max((depth[one] + 1 for one in before[node]), default=0) for node in ready})
        left = [node for node in left if node not in depth]
    columns: list[tuple[Node, ...]] = []
    place: dict[Node, float] = {}
    for n in range(max(depth.values(), default=-1) + 1):
        column = [node for node in nodes if depth[node] == n]
        column.sort(key=lambda node: sum(place[one] for one in before[node]) / max(1, len(before[node])))
        place.update({node: row - len(column) / 2 for row, node in enumerate(column)})
        columns.append(tuple(column))
    return tuple(columns)


def draw_assets(views: Sequence[AssetView], path: Path) -> None:
    """Writes the graph to *path*, as the kind of its suffix says (.svg, .png, .pdf).

    Raises InvalidInputError where there are no assets, or matplotlib is not installed.
    """
    if not views:
        raise InvalidInputError("no DAG names an asset. Register one that does")
    try:
        import matplotlib as mpl
    except ImportError:
        raise InvalidInputError("a picture needs matplotlib. Install it with: pip install 'tidemill[plots]'") from None

    mpl.use("Agg")
    mpl.rcParams["svg.fonttype"] = "none"  # texts stay texts, which can be searched
    from matplotlib import pyplot as plt

    graph = graph_of(views)
    rows = max(len(column) for column in graph.columns)
    figure, axes = plt.subplots(figsize=(max(4, WIDTH * len(graph.columns)), max(1.5, HEIGHT * rows)))
    at = {
        node: (x, (len(column) - 1) / 2 - row)
        for x, column in enumerate(graph.columns)
        for row, node in enumerate(column)
    }
    late = {view.name for view in views if view.late_since is not None}
    for node, (x, y) in at.items():
        kind, name = node
        shape = {"boxstyle": "round" if kind == "dag" else "square", "facecolor": COLOURS[kind]}
        edge = CIRCLE if kind == "asset" and name in late else "#666666"
        axes.text(x, y, name, ha="center", va="center", fontsize=9, bbox={**shape, "edgecolor": edge}, zorder=2)
    for source, target in graph.edges:
        closes = (source, target) in graph.closing
        look = {"arrowstyle": "->", "color": CIRCLE if closes else "#888888", "shrinkA": 30, "shrinkB": 30}
        if closes:
            look["connectionstyle"] = "arc3,rad=0.3"
        axes.annotate("", at[target], at[source], arrowprops=look, zorder=1)
    axes.set_xlim(-0.6, len(graph.columns) - 0.4)
    axes.set_ylim(-rows / 2 - 0.3, rows / 2 + 0.3)
    axes.axis("off")
    try:
        figure.savefig(path, bbox_inches="tight")
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path} cannot be written: {error}") from None
    finally:
        plt.close(figure)
