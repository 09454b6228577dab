"""What the DAGs of a bundle may be called, and whose pools, assets, variables and connections they may use."""

from collections.abc import Iterable
from typing import Literal

from ..base import Model, OmitDefaults
from ..errors import NotAllowedError

Kind = Literal["dag_id", "pool", "asset", "variable", "connection"]


class OwnedNames(OmitDefaults, Model):
    """By kind, what names have to begin with; names of a kind without prefixes may be any."""

    dag_id: tuple[str, ...] = ()
    """Of DAGs that its files define."""
    pool: tuple[str, ...] = ()
    """Of pools that tasks take slots of."""
    asset: tuple[str, ...] = ()
    """Of assets that tasks tell of, or that have watchers or notifiers. Anybody's may be waited for."""
    variable: tuple[str, ...] = ()
    """Of variables that files and tasks look up or set."""
    connection: tuple[str, ...] = ()
    """Of connections that files, tasks, webhooks and Spark look up."""

    def problem(self, kind: Kind, name: str) -> str | None:
        """Why a DAG of the bundle may not use *name*; None if it may."""
        prefixes: tuple[str, ...] = getattr(self, kind)
        if not prefixes or name.startswith(prefixes):
            return None
        return (
            f"{kind} {name!r}: its bundle owns the names that begin with {' or '.join(map(repr, prefixes))}, and no "
            f"others. Choose such a name, or have the bundle own more: tidemill bundles set ... --owns {kind}=PREFIX"
        )

    def check(self, kind: Kind, name: str) -> None:
        """Raise NotAllowedError where a DAG of the bundle may not use *name*."""
        if (problem := self.problem(kind, name)) is not None:
            raise NotAllowedError(problem)

    def first_problem(self, names: Iterable[tuple[Kind, str]]) -> str | None:
        """The first of *names* that the bundle may not use, in words."""
        return next((problem for kind, name in names if (problem := self.problem(kind, name)) is not None), None)


def owned_names(written: Iterable[str]) -> OwnedNames:
    """What a person has *written*: `dag_id=a_`, `pool=a_`. Raises ValueError where that is no kind and prefix."""
    found: dict[str, tuple[str, ...]] = {}
    for each in written:
        kind, sign, prefix = each.partition("=")
        if kind not in OwnedNames.model_fields or not sign or not prefix:
            kinds = ", ".join(OwnedNames.model_fields)
            raise ValueError(f"{each!r} is no KIND=PREFIX. A kind is one of {kinds}, such as dag_id=sales_")
        found[kind] = (*found.get(kind, ()), prefix)
    return OwnedNames.model_validate(found)
