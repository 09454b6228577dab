"""The workflows of this release and of the last one, in one process: workers of both take turns."""

from __future__ import annotations

import contextlib
import importlib
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from support import newest_wheel, unpacked
from temporalio.converter import DataConverter

BUILD = Path(__file__).parents[2] / "build"
NAME_OF_LAST = "tidemill_last_release"
"""Its modules name each other relative to themselves: the package may be called otherwise."""
WORKFLOWS = {
    "Dag": ("workflows.dag.workflow", "DagWorkflow"),
    "DagRun": ("workflows.run.workflow", "DagRunWorkflow"),
    "Pool": ("workflows.pool", "PoolWorkflow"),
    "Asset": ("workflows.asset", "AssetWorkflow"),
    "Watcher": ("workflows.watcher", "WatcherWorkflow"),
    "DagBundle": ("workflows.bundle", "DagBundleWorkflow"),
}


@dataclass(frozen=True)
class Release:
    """What workers of a release are made of."""

    is_last: bool
    workflows: dict[str, type[Any]]
    converter: DataConverter
    interceptors: Sequence[type[Any]] = ()


def this_release(parallelism: int | None) -> Release:
    """Return the release that is in the checkout, as a worker with that limit runs it."""
    return _release("tidemill", parallelism)


def last_release(parallelism: int | None) -> Release:
    """Return the newest release of which the tests keep a wheel."""
    _unpack()
    return _release(NAME_OF_LAST, parallelism)


@cache
def _unpack() -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    folder = BUILD / f"last-release-{newest_wheel().stem}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=BUILD) as making:
            whole = unpacked(Path(making, "whole"))
            (whole / "tidemill").rename(whole / NAME_OF_LAST)
            with contextlib.suppress(OSError):  # another process was faster
                whole.rename(folder)
    sys.path.append(str(folder))


def _release(package: str, parallelism: int | None) -> Release:
    def named(module: str, name: str) -> Any:
        return getattr(importlib.import_module(f"{package}.{module}"), name)

    interceptors: Sequence[type[Any]] = ()
    if parallelism is not None:
        limit = named("workflows.parallelism", "ParallelismInterceptor")(parallelism)
        interceptors = (limit.workflow_interceptor_class(None),)
    is_last = package == NAME_OF_LAST
    converter = "worker.converter" if is_last else "worker.service.converter"
    return Release(
        is_last=is_last,
        workflows={kind: named(*place) for kind, place in WORKFLOWS.items()},
        converter=named(converter, "with_models")(None),
        interceptors=interceptors,
    )
