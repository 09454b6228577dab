"""Which assets there are, and which of them are active: declared by a DAG, and alone with their name and uri.

Of two assets with one name, or one uri, the one that was there first is active; the other is a conflict until the
first is in no file any more (Airflow: asset activity).
"""

from collections.abc import Iterable

from tidemill.model.base import Record
from tidemill.model.spec.assets.identity import Asset, AssetKey


class Declared(Record):
    """What one DAG says of assets."""

    assets: list[AssetKey] = []
    aliases: list[str] = []


class Registry(Record):
    """All assets, in the order in which they were first heard of."""

    known: list[AssetKey] = []
    active: list[AssetKey] = []
    dags: dict[str, Declared] = {}
    warned: list[str] = []
    """The DAGs that the last sweep found to name an asset that is in conflict."""
    links: dict[str, list[AssetKey]] = {}
    """By alias, the assets whose events came in by it."""

    def declare(self, dag_id: str, assets: Iterable[Asset], aliases: Iterable[str]) -> None:
        """Takes note of what a DAG's file names; what is free is active at once."""
        keys = list(dict.fromkeys(asset.key for asset in assets))
        self.dags[dag_id] = Declared(assets=keys, aliases=[*aliases])
        for key in sorted(keys, key=lambda key: key not in self.known):
            self.create(key)
            self._activate(key)

    def withdraw(self, dag_id: str) -> None:
        """The DAG is in no file any more; what nobody else names stays active until the next sweep."""
        self.dags.pop(dag_id, None)

    def create(self, key: AssetKey) -> None:
        """An asset of which an event came before any file named it."""
        if key not in self.known:
            self.known.append(key)

    def link(self, alias: str, key: AssetKey) -> None:
        """An event of the asset came in by the alias: that stays so."""
        self.create(key)
        known = self.links.setdefault(alias, [])
        if key not in known:
            known.append(key)

    def sweep(self) -> None:
        """Puts in order what is active: what nobody names is not, and what a conflict kept out may come in."""
        named = self._named()
        self.active = [key for key in self.active if key in named]
        for key in self.known:
            if key in named:
                self._activate(key)
        self.warned = sorted(d for d, dag in self.dags.items() if any(key not in self.active for key in dag.assets))

    def _named(self) -> set[AssetKey]:
        declared = {key for dag in self.dags.values() for key in dag.assets}
        return declared | {key for keys in self.links.values() for key in keys}

    def _activate(self, key: AssetKey) -> None:
        if key not in self.active and not self.rival_of(key):
            self.active.append(key)

    def rival_of(self, key: AssetKey) -> AssetKey | None:
        """The active asset that has the name, or the uri, of another one."""
        return next((o for o in self.active if o != key and (o[0] == key[0] or o[1] == key[1])), None)

    def knows(self, key: AssetKey) -> bool:
        return key in self.known

    def is_active(self, key: AssetKey) -> bool:
        return key in self.active

    @property
    def inactive(self) -> list[AssetKey]:
        return [key for key in self.known if key not in self.active]

    def key_of(self, asset: Asset) -> AssetKey:
        """The asset that is meant where only a name is said: the one of that name that is known."""
        if asset.key in self.known or asset.uri != asset.name:
            return asset.key
        named = [key for key in [*self.active, *self.known] if key[0] == asset.name]
        return named[0] if named else asset.key

    def shown_active(self) -> list[list[str]]:
        return sorted([name, uri] for name, uri in self.active)

    def shown_warnings(self) -> list[str]:
        return self.warned
