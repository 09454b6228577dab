"""Listing and parsing DAG files, in child processes: what a file does hurts only itself."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from ...model.bundle.data import CHANGING, BundleSettings, Listing, ListQuestion, ParsedDag, ParseQuestion, ParseResult
from ...model.errors import InvalidInputError, NotAllowedError
from ...model.spec.dag import DagSpec, read_dag
from ...model.spec.owned import OwnedNames
from .. import metrics
from ..attempts.supervision import AttemptSupervisor, beating, stopping_cleanly
from ..names import BUNDLE_PROBLEM
from ..processes.answers import FileParsed
from ..processes.users import acting_as
from ..worker_context import WorkerContext
from .listing import COMPANIONS, Tree
from .parsing import FileToParse, parsed
from .snapshots import is_inside
from .sources import source_for

LISTING_TIMEOUT = 60
LISTING = Path(__file__).with_name("listing.py")
NOT_KEPT = frozenset({"keytab", "pipeline_spec"})
"""Fields of tasks whose files are not kept with a version: keys, and what names further files of its folder."""


@dataclass(frozen=True)
class KeptFiles:
    """The files of a folder that a version has; to *links* of them it only has links."""

    names: set[str]
    links: set[str]


class FileActivities:
    """What a worker does for bundles, on a task queue of their own."""

    def __init__(self, worker_context: WorkerContext) -> None:
        self._worker_context = worker_context

    @activity.defn(name="tidemill.list_files", no_thread_cancel_exception=True)
    def list_files(self, question: ListQuestion) -> Listing:
        """The DAG files that are there now. Fails for good where there is no such folder or repository."""
        with beating():
            return self._list(question)

    def _list(self, question: ListQuestion) -> Listing:
        settings = question.settings
        user = self._worker_context.user_of(settings.name)
        source = source_for(settings, self._worker_context.home, user)
        try:
            revision = source.newest()
            root = source.root(revision)
        except (InvalidInputError, OSError) as error:
            raise problem(str(error)) from None
        answer = _listed(
            {
                "root": str(root),
                "home": os.path.realpath(self._worker_context.home),
                "is_live": settings.kind == "folder",
                "syntax": settings.dag_ignore_file_syntax,
                "safe_mode": settings.dag_discovery_safe_mode,
                "extras": question.extras,
                "user": [user.uid, user.gid] if user is not None else None,
                "cache": str(self._worker_context.home / "cache" / "bundles" / f"{settings.name}.json"),
            }
        )
        if "problem" in answer:
            raise problem(answer["problem"])
        unchanged = answer["digest"] == question.known
        return Listing(
            digest=answer["digest"],
            revision=revision,
            files=None if unchanged else answer["files"],
            passed_over=() if unchanged else answer["passed_over"],
            warnings=answer["warnings"],
            unreadable=answer["unreadable"],
        )

    @activity.defn(name="tidemill.parse_file", no_thread_cancel_exception=True)
    def parse_file(self, question: ParseQuestion) -> ParseResult:
        """The DAGs of a file, or why there are none. Specs and code are kept for whoever registers and runs them."""
        with stopping_cleanly(), beating():
            return self._parse(question)

    def _parse(self, question: ParseQuestion) -> ParseResult:
        settings = question.settings
        user = self._worker_context.user_of(settings.name)
        source = source_for(settings, self._worker_context.home, user)
        root = source.root(question.revision)
        started, start = time.time(), time.monotonic()
        with acting_as(user):
            tree = self._tree(root, settings)
            before = tree.digest(question.path, question.extras)

        def refused(operation: str, reason: str) -> None:
            about = {"file": f"{settings.name}/{question.path}"}
            self._worker_context.refusals.add(f"file.{operation}", reason, settings.name, about)

        file = FileToParse(
            root=root,
            name=question.path,
            lasting=source.lasting(question.path),
            timeout=settings.dag_file_processor_timeout,
            memory_mb=settings.dag_file_memory_mb,
            paused_at_creation=self._worker_context.dags_are_paused_at_creation,
            key_values=self._worker_context.key_values,
            owns=settings.owns,
            refused=refused,
        )
        airflow = self._worker_context.airflow_forks_of(settings.name)
        forks = self._worker_context.forks(settings.name)
        answer = parsed(forks, airflow, file, AttemptSupervisor(file.timeout, too_long=TimeoutError))
        seconds = time.monotonic() - start
        with acting_as(user):
            tree = self._tree(root, settings)
            modules, companions = tree.closure(question.path), {*tree.companions(question.path)}
            watched = tree.watched(question.path)
            links = {name for name in companions if tree.is_linked(name)}
        metrics.parsed(settings.name, timedelta(seconds=seconds), failed=answer.error is not None)
        read = {*(question.extras if answer.files is None else answer.files)} - {COMPANIONS}
        try:
            specs = [read_dag(spec) for spec in answer.dags]
            for kind, name in (used for spec in specs for used in spec.names_used()):
                (settings.owns or OwnedNames()).check(kind, name)
        except InvalidInputError as error:  # what its process says of it is no DAG, or takes what is others'
            answer, specs = FileParsed(error=str(error), not_allowed=isinstance(error, NotAllowedError)), []
        if answer.not_allowed and answer.error is not None:
            refused("define", answer.error)
        explicit = modules | read | referenced(specs, root, question.path)
        is_live = answer.outside is not None and settings.kind == "folder"
        kept = KeptFiles(names=explicit | companions, links=links - explicit)
        dags = self._keep(question, root, kept, specs, is_live=is_live)
        extras = (COMPANIONS, *sorted(explicit - modules - watched))
        # looked at last: what was kept is no older than what it is known by
        after = self._tree(root, settings)
        with acting_as(user):
            changing = after.digest(question.path, question.extras) != before or any(
                after.changed_since(name, started) for name in (explicit | watched) - modules
            )
            digest = CHANGING if changing else after.digest(question.path, extras)
        return ParseResult(
            digest=digest,
            dags=dags,
            error=answer.error,
            seconds=seconds,
            extras=extras,
        )

    def _tree(self, root: Path, settings: BundleSettings) -> Tree:
        home, is_live = os.path.realpath(self._worker_context.home), settings.kind == "folder"
        return Tree(root, syntax=settings.dag_ignore_file_syntax, home=home, is_live=is_live)

    def _keep(
        self, question: ParseQuestion, root: Path, files: "KeptFiles", specs: list[DagSpec], *, is_live: bool
    ) -> tuple[ParsedDag, ...]:
        settings, snapshots = question.settings, self._worker_context.snapshots
        user = self._worker_context.user_of(settings.name)
        snapshot = snapshots.keep(root, files.names, user, links=files.links) if specs else None
        kept = []
        for spec in specs:
            assert spec.source is not None  # noqa: S101
            origin = {
                "bundle": settings.name,
                "name": question.path,
                "root": settings.path if settings.kind == "folder" else None,
                "owns": settings.owns,
                "snapshot": None if spec.disable_bundle_versioning or is_live else snapshot,
            }
            whole = spec.model_copy(update={"source": spec.source.model_copy(update=origin)})
            whole = read_dag(whole.model_dump(mode="json"))
            snapshots.put_text(spec_name(whole.dag_id, whole.version), whole.model_dump_json())
            kept.append(ParsedDag(dag_id=whole.dag_id, version=whole.version))
        return tuple(kept)


def spec_name(dag_id: str, version: str) -> str:
    """Where a version of a DAG is kept until it is registered."""
    return f"specs/{dag_id}/{version}.json"


def problem(reason: str) -> ApplicationError:
    """Why the bundle as a whole cannot be looked at; asked again at its next listing."""
    return ApplicationError(reason, type=BUNDLE_PROBLEM, non_retryable=True)


def _listed(question: dict[str, Any]) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(LISTING)],
            input=json.dumps(question), capture_output=True, text=True, timeout=LISTING_TIMEOUT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise problem(f"listing {question['root']} took more than {LISTING_TIMEOUT} s") from None
    if done.returncode:
        raise problem(f"listing {question['root']} failed: {done.stderr.strip()[-1000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def referenced(specs: list[DagSpec], root: Path, name: str) -> set[str]:
    """Files of the bundle that tasks name: applications, SQL, modules and files of Spark tasks."""
    beside = Path(name).parent
    found = set()
    for spec in specs:
        for task in spec.tasks:
            named = task.named_files()
            for text in (text for field in named.keys() - NOT_KEPT for text in named[field]):
                name = os.path.normpath(beside / text)
                if "{" not in text and "://" not in text and is_inside(name) and (root / name).is_file():
                    found.add(name)
    return found
