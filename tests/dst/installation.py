"""An installation as plain data that can be made smaller: DAGs, pools, people and trouble; and its DAG files."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from tidemill.model.bundle.data import Listing
from tidemill.model.spec.dag import DagSpec


@dataclass
class Happening:
    """Something that a person does, or that goes wrong, *at* a time from the beginning."""

    at: float
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass
class Plan:
    """All that a seed has drawn. Times are in seconds from *start*."""

    seed: int
    start: datetime
    seconds: float
    """How long people work and things go wrong; then all is left to come to its end."""
    dags: list[dict[str, Any]]
    by_bundle: bool
    pools: dict[str, int]
    parallelism: int | None
    workers: int
    cached: int
    suggests_from: int
    retention: float
    happenings: list[Happening]
    rates: dict[str, float]
    hunts: list[dict[str, Any]] = field(default_factory=list)
    """What waits for its moment: the kind of workflow, what it `sees`, what it `does`, after which `delay`."""
    two_releases: bool = False
    """Whether workers are of the last release and of this one in turns, until all is calm."""

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON, from which `from_json` makes it again."""
        return {**asdict(self), "start": self.start.isoformat()}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Plan:
        """The plan that `to_json` has written."""
        happenings = [Happening(**each) for each in fields["happenings"]]
        start = datetime.fromisoformat(fields["start"])
        return cls(**{**fields, "happenings": happenings, "start": start})

    @property
    def size(self) -> int:
        """How much there is that could be left out."""
        return (
            len(self.happenings) + len(self.hunts) + len(self.rates) + sum(1 + len(dag["tasks"]) for dag in self.dags)
        )


class Folder:
    """The DAG files of a bundle, one for each DAG, as people have left them."""

    def __init__(self, specs: list[DagSpec]) -> None:
        self._files: dict[str, list[DagSpec] | None] = {f"{spec.dag_id}.py": [spec] for spec in specs}
        self._versions = {(spec.dag_id, spec.version): spec for spec in specs}
        self._changes = 0

    def put(self, spec: DagSpec) -> None:
        """A person saves another version of a DAG's file."""
        self._files[f"{spec.dag_id}.py"] = [spec]
        self._versions[spec.dag_id, spec.version] = spec
        self._changes += 1

    def break_file(self, dag_id: str) -> None:
        self._files[f"{dag_id}.py"] = None
        self._changes += 1

    def remove(self, dag_id: str) -> None:
        self._files.pop(f"{dag_id}.py", None)
        self._changes += 1

    def listing(self, _: str) -> Listing:
        files = {path: self.content("", path)[0] for path in sorted(self._files)}
        return Listing(digest=_digest(str(files)), files=files)

    def content(self, _: str, path: str) -> tuple[str, list[DagSpec] | None]:
        specs = self._files.get(path, [])
        return _digest("broken" if specs is None else "".join(spec.version for spec in specs)), specs

    def version(self, dag_id: str, version: str) -> DagSpec:
        return self._versions[dag_id, version]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
