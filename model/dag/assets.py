"""What assets have to do with a DAG: what it has gathered of them, which runs they make, whom it has to tell."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pydantic import PrivateAttr

from ..asset.events import AssetEvent
from ..asset.gathering import Gathering
from ..asset.partitioning import Partitioning, missing
from ..asset.state import Tie, alias_workflow_id, asset_workflow_id, without_version
from ..base import iso
from ..run.identity import RunIdentity, asset_run, partition_run
from ..spec.assets.condition import aliases_in, assets_in, in_words, leaves, refs_in
from ..spec.assets.identity import Asset
from ..spec.dag import DagSource, DagSpec
from ..spec.timetables import PartitionedAsset, waited_for
from .data import DagData
from .records import DecisionKind

EVER = datetime.fromtimestamp(0, UTC)


class DagAssets(DagData):
    """The part of a DAG's decisions that is about assets."""

    _ties_are_sent: bool = PrivateAttr(default=False)
    """Whether assets have been told in this execution, and since the last registration."""

    def expect_assets(self, now: datetime) -> None:
        """Takes on what the present version of the DAG waits for."""
        condition = waited_for(self.spec.schedule)
        if isinstance(self.spec.schedule, PartitionedAsset):
            self.partitioning = self.partitioning or Partitioning()
        elif condition is not None:
            self.gathering = self.gathering or Gathering()
        if self.gathering is not None:
            self.gathering.expect(None if isinstance(self.spec.schedule, PartitionedAsset) else condition, now)

    def hear_of_asset(self, event: AssetEvent, now: datetime) -> None:
        """Takes note of an event."""
        paused = self.is_paused and self.spec.asset_backlog == "airflow"
        if isinstance(self.spec.schedule, PartitionedAsset):
            self.partitioning = self.partitioning or Partitioning()
            refused = self.partitioning.hear(event, self.spec.schedule.partitioned, paused=paused)
            if refused is not None:
                self.note(now, DecisionKind.REFUSED, event.name, refused)
        elif self.gathering is not None:
            self.gathering.hear(event, waited_for(self.spec.schedule), paused=paused, now=now)

    def due_by_assets(self, room: int, now: datetime) -> list[RunIdentity]:
        """The runs that assets have made due; each is given once. Without *room* only those of partitions (Airflow)."""
        if self.held_up is not None:
            return []
        if isinstance(self.spec.schedule, PartitionedAsset) and self.partitioning is not None:
            taken = self.partitioning.take(self.spec.schedule.partitioned)
            return [partition_run(self.spec.dag_id, one, now) for one in taken]
        condition = waited_for(self.spec.schedule)
        if condition is None or self.gathering is None or not room or not self.gathering.is_due(condition):
            return []
        consume = self.spec.asset_backlog == "consume"
        return [
            asset_run(self.spec.dag_id, self.gathering.take(condition, catchup=self.spec.catchup, all_of_it=consume))
        ]

    def ties_to_tell(self) -> dict[str, Tie]:
        """By workflow, what it has not been told yet of this DAG; from then on it counts as told."""
        wanted = wanted_ties(self.spec)
        for workflow_id in self.ties.keys() - wanted.keys():
            wanted[workflow_id] = Tie(dag_id=self.spec.dag_id)
        gathering = self.gathering or Gathering()
        since = gathering.since(catchup=self.spec.catchup) or (EVER if self.spec.catchup else None)
        waits = {asset_workflow_id(ref.name): ref.since for ref in gathering.references}
        known = self.ties if self._ties_are_sent else {}
        changed = {key: tie for key, tie in sorted(wanted.items()) if known.get(key) != tie}
        self._ties_are_sent = True
        self.ties = {key: tie for key, tie in wanted.items() if tie.consumes or tie.produced_by}
        return {
            key: tie.model_copy(update={"since": since, "waits_since": waits.get(key)}) if tie.consumes else tie
            for key, tie in changed.items()
        }

    def resend_ties(self) -> None:
        """Have `ties_to_tell` give all ties once more."""
        self._ties_are_sent = False

    def waits_for_assets(self) -> str:
        """What is there and what is waited for, in words."""
        schedule, condition = self.spec.schedule, waited_for(self.spec.schedule)
        if isinstance(schedule, PartitionedAsset):
            pending = self.partitioning.pending if self.partitioning is not None else []
            gaps = [f"{one.key} lacks {_lacking(missing(one, schedule.partitioned))}" for one in pending[:5]]
            return f"waits for partitions of {in_words(schedule.waited_for)}" + (": " + "; ".join(gaps) if gaps else "")
        if condition is None:
            return "time alone makes its runs"
        gathering = self.gathering or Gathering()
        there = [f"{row.name} since {iso(row.since)}" for row in gathering.rows]
        missed = [_name(leaf) for leaf in leaves(condition) if not gathering.is_there(leaf)]
        text = f"waits for {in_words(condition)}; there: {', '.join(there) or 'none'}"
        if gathering.dropped:
            text += f"; {gathering.dropped:,} events were too many to be kept"
        return f"{text}; not there: {', '.join(dict.fromkeys(missed)) or 'none'}"


def ties_need_bundle(spec: DagSpec) -> bool:
    """Whether the bundle of the DAG's file decides what it tells an asset."""
    named = [*assets_in(condition)] if (condition := waited_for(spec.schedule)) is not None else []
    named += [outlet for task in spec.tasks for outlet in task.outlets if isinstance(outlet, Asset)]
    return spec.source is not None and any(asset.acts or not owns_asset(asset, spec) for asset in named)


def wanted_ties(spec: DagSpec) -> dict[str, Tie]:
    """By workflow, what a DAG has to do with assets and aliases."""
    found: dict[str, Tie] = {}

    def add(workflow_id: str, asset: Asset | None = None, **fields: object) -> None:
        before = found.get(workflow_id, Tie(dag_id=spec.dag_id))
        if asset is not None and owns_asset(asset, spec):
            fields |= {"asset": asset, "source": source_for(asset, spec)}
        found[workflow_id] = before.model_copy(update=fields)

    condition = waited_for(spec.schedule)
    if condition is not None:
        for asset in assets_in(condition):
            add(asset_workflow_id(asset.name), asset, consumes=True)
        for ref in refs_in(condition):
            add(asset_workflow_id(ref.name or ref.uri or ""), consumes=True)
        for alias in aliases_in(condition):
            add(alias_workflow_id(alias), consumes=True)
    for task in spec.tasks:
        for outlet in task.outlets:
            if isinstance(outlet, Asset):
                workflow_id = asset_workflow_id(outlet.name)
                before = found.get(workflow_id, Tie(dag_id=spec.dag_id)).produced_by
                add(workflow_id, outlet, produced_by=(*before, task.task_id))
    return found


def owns_asset(asset: Asset, spec: DagSpec) -> bool:
    """Whether the DAG may say what the asset is, and not only wait for it."""
    owns = spec.source.owns if spec.source is not None else None
    return owns is None or owns.problem("asset", asset.name) is None


def source_for(asset: Asset, spec: DagSpec) -> DagSource | None:
    """The DAG's file, for an asset that has watchers or tells somebody: whose they are, and of which bundle.

    The version of the file is there for functions and classes of it alone: assets are not told of each version.
    """
    if spec.source is None or asset.calls_code or not asset.acts:
        return spec.source if asset.calls_code else None
    return without_version(spec.source)


def _name(leaf: object) -> str:
    return str(getattr(leaf, "name", None) or getattr(leaf, "uri", ""))


def _lacking(found: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{name} {', '.join(keys[:3])}" for name, keys in found.items())
