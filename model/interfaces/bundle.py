"""The messages of a bundle's workflow."""

from ..bundle.data import BundleSettings, BundleView, FileView
from .calls import Interface, Query, Signal, Update


class BundleInterface(Interface):
    """What a bundle answers to."""

    workflow = "DagBundle"
    look: Signal[[]]
    refresh: Update[[list[str]], BundleView]
    confirm_removals: Update[[], BundleView]
    look_now: Update[[], list[FileView]]
    configure: Update[[BundleSettings], BundleView]
    describe: Query[[], BundleView]
    files: Query[[], list[FileView]]
