"""The messages of the workflows of an asset and of its watchers."""

from ..asset.events import AssetEvent
from ..asset.state import AssetView, ReportedEvent, Tie
from ..asset.watching import WatcherView, Watching
from .calls import Interface, Query, Signal, Update


class AssetInterface(Interface):
    """What an asset answers to."""

    workflow = "Asset"
    tie: Signal[[Tie]]
    pause: Signal[[]]
    unpause: Signal[[]]
    tell: Signal[[ReportedEvent]]
    emit: Update[[ReportedEvent], AssetEvent | None]
    describe: Query[[], AssetView]
    events: Query[[], list[AssetEvent]]


class WatcherInterface(Interface):
    """What a watcher of an asset answers to."""

    workflow = "Watcher"
    watch: Signal[[Watching]]
    describe: Query[[], WatcherView]
