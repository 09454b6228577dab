"""Finds the kinds of task that are a folder each, of tidemill and of others: see `kinds/`."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from types import ModuleType

from .base import BaseTask

OWN, GROUP = "tidemill.kinds", "tidemill.kinds"
"""The package of tidemill's own, and the group of entry points whose values name the packages of others."""


EAGER = (
    "Its __init__.py imports what needs all kinds, such as its operator: have that imported when it is used, as by "
    "lazy_loader.attach"
)


def packages() -> Iterator[str]:
    """Yield the package of each kind, by its import name: tidemill's own, then those of others by name."""
    yield from (f"{OWN}.{found.name}" for found in iter_modules(import_module(OWN).__path__) if found.ispkg)
    yield from (point.value for point in sorted(entry_points(group=GROUP), key=lambda point: point.name))


def found_kinds(named: Iterator[str]) -> Mapping[str, tuple[str, type[BaseTask]]]:
    """Return by kind its package and its model, of the packages *named*.

    Raises ImportError, which names the package, for one without a model, and for a kind that two packages declare.
    """
    found: dict[str, tuple[str, type[BaseTask]]] = {}
    for package in named:
        try:
            module = import_module(f"{package}.spec")
        except Exception as error:
            remedy = EAGER if "partially initialized module 'tidemill" in str(error) else "Mend or remove it"
            raise ImportError(f"the kind of task {package} cannot be imported: {error}. {remedy}") from error
        model = _model_of(module)
        kind = model.model_fields["kind"].default
        if model.activity is None or (model.activity.startswith("tidemill.") and not package.startswith(f"{OWN}.")):
            raise ImportError(f"the kind of task {package} has activity {model.activity!r}: name one that is its own")
        if kind in found:
            raise ImportError(f"the kind of task {kind!r} is in {found[kind][0]} and in {package}. Remove one of them")
        found[kind] = package, model
    return found


def _model_of(module: ModuleType) -> type[BaseTask]:
    """The one model that *module* defines. Raises ImportError where it defines none, or several."""
    models = [
        one
        for one in vars(module).values()
        if isinstance(one, type)
        and issubclass(one, BaseTask)
        and one.__module__ == module.__name__
        and "kind" in one.model_fields
    ]
    if len(models) != 1:
        raise ImportError(f"{module.__name__} defines {len(models)} kinds of task, and has to define one: a BaseTask")
    return models[0]


FOLDERS = found_kinds(packages())
"""By kind, its package and its model."""
