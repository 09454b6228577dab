"""The folders are the architecture: imports run one way."""

import ast
import gc
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ["model", "activities", "kinds", "workflows", "worker", "api"]
WEB = "worker/cli/web.py"
"""The one way from the command line up to the web, which most installations do without."""
ROOMS = {
    "spec": set(),
    "asset": {"spec"},
    "run": {"spec", "asset"},
    "pool": {"spec", "run"},
    "bundle": {"spec"},
    "dag": {"spec", "run", "bundle", "asset"},
    "authoring": {"spec", "run"},
    "simulation": {"spec", "asset", "run", "pool", "dag"},
    "interfaces": {"spec", "asset", "run", "pool", "bundle", "dag"},
    "replay": set(),
}
"""The rooms of the model, and which others each of them knows."""
WORKER_ROOMS = {
    "settings": set(),
    "supervision": set(),
    "service": {"settings", "supervision"},
    "client": {"settings", "supervision", "service"},
    "local": {"settings", "service", "client"},
    "migration": {"client"},
    "pictures": {"supervision", "service", "client"},
    "app": {"settings", "supervision", "service", "client"},
    "spark": {"settings", "service", "app"},
    "cli": {"settings", "supervision", "service", "client", "local", "migration", "pictures", "app", "spark"},
}
"""The same of the worker. Beside them lie what users name: the program, the plugin and the daemon of Spark."""


def parsed(path: Path) -> ast.Module:
    # Python 3.11 miscounts its depth if garbage is collected in the middle of it.
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


def imports(path: Path, package: tuple[str, ...]) -> set[str]:
    """The absolute names that the file at *path* imports."""
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            names.add(".".join([*base, *([node.module] if node.module else [])]))
    return names


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_those_below_it(layer: str) -> None:
    above = {f"tidemill.{name}" for name in LAYERS[LAYERS.index(layer) + 1 :]} | {"tidemill.examples"}
    if layer in ("worker", "api"):
        above.discard("tidemill.examples")
    for path in (ROOT / layer).rglob("*.py"):
        if path == ROOT / WEB:
            continue
        package = ("tidemill", layer, *path.relative_to(ROOT / layer).parent.parts)
        for name in imports(path, package):
            assert not any(name == other or name.startswith(other + ".") for other in above), f"{path} imports {name}"


@pytest.mark.parametrize(
    ("layer", "room"), [*(("model", room) for room in ROOMS), *(("worker", room) for room in WORKER_ROOMS)]
)
def test_a_room_knows_only_those_below_it(layer: str, room: str) -> None:
    rooms = {"model": ROOMS, "worker": WORKER_ROOMS}[layer]
    strangers = {f"tidemill.{layer}.{name}" for name in rooms if name not in {room, *rooms[room]}}
    for path in (ROOT / layer / room).rglob("*.py"):
        package = ("tidemill", layer, *path.relative_to(ROOT / layer).parent.parts)
        for name in imports(path, package):
            assert not any(name == other or name.startswith(other + ".") for other in strangers), f"{path}: {name}"


@pytest.mark.parametrize(("layer", "rooms"), [("model", ROOMS), ("worker", WORKER_ROOMS)])
def test_the_rooms_are_the_known_ones(layer: str, rooms: dict[str, set[str]]) -> None:
    assert {path.name for path in (ROOT / layer).iterdir() if path.is_dir() and path.name[0] != "_"} == {*rooms}


def test_the_model_knows_neither_temporal_nor_processes() -> None:
    """Pure functions over plain data: no server, no subprocess, no clock but the one passed in."""
    forbidden = {"temporalio", "subprocess", "psutil", "os", "time", "pyspark", "threading", "asyncio"}
    for path in (ROOT / "model").rglob("*.py"):
        used = {name.split(".")[0] for name in imports(path, ("tidemill", "model"))}
        assert not used & forbidden, f"{path} imports {used & forbidden}"
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                assert node.func.attr not in ("now", "utcnow", "today"), f"{path}:{node.lineno} reads a clock"


def test_a_kind_of_task_knows_what_its_files_may() -> None:
    """What is data knows the model alone, as it is read wherever DAGs are; only its work knows what children do."""
    for path in (ROOT / "kinds").rglob("*.py"):
        package = ("tidemill", *path.parent.relative_to(ROOT).parts)
        above = {"activities"} if path.name != "work.py" else set()
        strangers = {f"tidemill.{name}" for name in {*LAYERS} - {"model", "kinds", "activities"} | above}
        for name in imports(path, package):
            assert not any(name == other or name.startswith(other + ".") for other in strangers), f"{path}: {name}"


def modules() -> dict[str, Path]:
    """Every module of the layers by its name below `tidemill`."""
    found = [path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in found}


def imported_modules(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that the file at *path* imports anywhere: at its top, in functions, and for types only."""
    package = path.relative_to(ROOT).parent.parts
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])]).removeprefix("tidemill.")
            named = [f"{module}.{alias.name}" for alias in node.names]
            found |= {name if name in known else module for name in named} & known.keys()
    return found


def test_no_module_imports_itself_by_others() -> None:
    """Also not in a function or for a type: who reads one of a circle has to read them all."""
    known = modules()
    order = TopologicalSorter({name: imported_modules(path, known) - {name} for name, path in known.items()})
    try:
        order.prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(reversed(error.args[1]))}")


def test_no_message_is_named_where_it_is_sent() -> None:
    """What a workflow answers to is declared in `model.interfaces`, with its types: nobody names it by a string."""
    sent_by = {"query", "signal", "execute_update", "start_update", "execute_update_with_start_workflow"}
    for layer in LAYERS:
        for path in (ROOT / layer).rglob("*.py"):
            for node in ast.walk(parsed(path)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in sent_by:
                    named = node.args and isinstance(node.args[0], ast.Constant | ast.JoinedStr)
                    assert not named, f"{path}:{node.lineno} names a message by a string"


def test_modules_that_docstrings_name_are_there() -> None:
    named = re.compile(rf"\b(?:{'|'.join(LAYERS)})(?:\.[a-z_]+)+|(?:{'|'.join(LAYERS)})(?:/[a-z_]+)+\.py")
    for layer in LAYERS:
        for path in (ROOT / layer).rglob("*.py"):
            for node in ast.walk(parsed(path)):
                if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                for name in named.findall(ast.get_docstring(node) or ""):
                    assert is_there(name), f"{path} names {name}"


def is_there(name: str) -> bool:
    """Whether there is a module or package *name*, or a module that may have something of that name."""
    found = ROOT / name if name.endswith(".py") else ROOT.joinpath(*name.split("."))
    return found.exists() or found.with_suffix(".py").exists() or found.parent.with_suffix(".py").exists()


def test_nothing_plainly_named_is_installed() -> None:
    """Two packages that both install a top-level `workflows` would silently overwrite each other."""
    import importlib.util

    for name in LAYERS:
        spec = importlib.util.find_spec(name)
        assert spec is None or "site-packages" not in str(spec.submodule_search_locations)
