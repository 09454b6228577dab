"""What a person changes in a run: tasks cleared so that they run again, tasks or the run marked as they should be."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field

from ..base import Model, OmitDefaults, Request
from ..errors import InvalidInputError
from ..spec.dag import DagSpec
from ..spec.graph import ancestors
from ..states import FAILURES, RunState, TaskState
from .instance_keys import split_key


class Selection(OmitDefaults, Request):
    """Instances of tasks in one run."""

    tasks: tuple[str, ...] = ()
    """task_ids, or instances such as `load[3]`; none: every task."""
    upstream: bool = False
    downstream: bool = False


class ClearRequest(Selection):
    """Has tasks run again, in a run that goes on or has ended. Results and earlier tries are kept until then."""

    only_failed: bool = False
    run_on_latest_version: bool | None = None
    """Whether a run that has ended goes on with the version of the DAG that is in place now (Airflow's name).

    None: as the DAG says, see `DagSpec.reruns_latest`; a run under way keeps its version."""


class MarkRequest(Selection):
    """Gives tasks a state without running them. One that runs is ended first."""

    tasks: Annotated[tuple[str, ...], Field(min_length=1)]
    state: Literal[TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED]

    def of_tasks(self, tasks: Iterable[str]) -> Self:
        """The same for *tasks*, and no others."""
        return self.model_copy(update={"tasks": tuple(tasks), "upstream": False, "downstream": False})


class RunMark(Request):
    """Ends a run as a person says: running tasks are ended, those that wait are skipped."""

    state: Literal[TaskState.SUCCESS, TaskState.FAILED]


class ReviseQuestion(Request):
    """What a person wants to be changed in a run."""

    workflow_id: str
    clear: ClearRequest | None = None
    mark: MarkRequest | None = None
    mark_run: RunMark | None = None


class Revision(Model):
    """One change of a run that has ended, applied to the state that its last execution left behind."""

    execution: str
    """That execution, by Temporal's run id."""
    clear: ClearRequest | None = None
    mark: MarkRequest | None = None
    mark_run: RunMark | None = None
    ended_as: RunState | None = None
    """How the run had ended, as its DAG knows it; None: it does not."""
    ended_reason: str | None = None


def selected(spec: DagSpec, states: Mapping[str, TaskState], selection: Selection) -> list[str]:
    """The instances that *selection* means, as they stand in the DAG. Raises InvalidInputError for a name of none."""
    if not selection.tasks:
        return list(states)
    wanted = {name for name in selection.tasks if name in states}
    tasks: set[str] = set()
    for name in selection.tasks:
        task_id, _ = split_key(name)
        if task_id not in spec.by_id or (name not in wanted and name != task_id):
            raise InvalidInputError(f"task {name!r} is not in this run. Its tasks are: {_names(states)}")
        if name == task_id:
            tasks.add(name)
        tasks |= _around(spec, task_id, selection)
    return [key for key in states if key in wanted or split_key(key)[0] in tasks]


def _around(spec: DagSpec, task_id: str, selection: Selection) -> set[str]:
    found: set[str] = set()
    if selection.upstream:
        found |= ancestors(spec.upstreams, task_id)
    if selection.downstream:
        found |= ancestors(spec.downstreams, task_id)
    return found


def to_clear(spec: DagSpec, states: Mapping[str, TaskState], request: ClearRequest) -> list[str]:
    """The instances that are to run again. A task needs its setups to have run, and what they set up torn down."""
    keys = selected(spec, states, request)
    if request.only_failed:
        keys = [key for key in keys if states[key] in FAILURES]
    tasks = {split_key(key)[0] for key in keys}
    around = {other for task_id in tasks for other in _setups_and_teardowns(spec, task_id)} - tasks
    chosen = {*keys, *(key for key in states if split_key(key)[0] in around)}
    return [key for key in states if key in chosen and states[key] not in (TaskState.NONE, TaskState.REMOVED)]


def _setups_and_teardowns(spec: DagSpec, task_id: str) -> set[str]:
    below = ancestors(spec.downstreams, task_id)
    found: set[str] = set()
    for other in ancestors(spec.upstreams, task_id):
        teardowns = {end for end in spec.downstreams[other] if spec.by_id[end].is_teardown}
        if spec.by_id[other].is_setup and (not teardowns or teardowns & below):
            found |= {other} | teardowns
    return found


def _names(states: Mapping[str, TaskState]) -> str:
    names = list(states)
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
