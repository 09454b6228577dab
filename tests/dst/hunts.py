"""People and trouble that wait for their moment: as soon as a workflow is in a certain situation, something happens to
it. Without them, what is rare meets what is brief once in a thousand worlds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from properties.catalogue import Look
from tidemill.model.asset.state import ReportedEvent
from tidemill.model.pool.state import PoolSettings
from tidemill.model.run.instance_keys import split_key
from tidemill.model.run.messages import Answer
from tidemill.model.run.revisions import ClearRequest, MarkRequest, ReviseQuestion, RunMark
from tidemill.model.states import TaskState

from .clock import SECOND
from .history import Execution
from .situations import CONDITIONS, WAITS

if TYPE_CHECKING:
    from .people import People
    from .world import World

OF_TASKS = (
    "clear", "clear below", "mark success", "mark failed", "mark skipped", "mark run success", "mark run failed",
    "pause", "pause briefly", "cancel", "terminate", "reset", "go on as new", "answer", "reject", "kill",
    "other release",
)  # fmt: skip
"""What happens to a run that is caught with a task in some state, or with a task that waits for something."""
OF_DAGS = (
    "register", "pause", "unpause", "trigger", "trigger_run", "trigger_runs", "set_conf", "unqueue", "delete_run",
    "revise", "create_backfill", "pause_backfill", "unpause_backfill", "cancel_backfill", "stale", "broken", "restore",
    "emit", "go on as new", "reset", "terminate",
)  # fmt: skip
OF_POOLS = ("set small", "set large", "go on as new", "reset", "terminate", "kill")
OF_ASSETS = ("emit", "pause", "unpause", "tie", "go on as new", "reset", "kill")
OF_BUNDLES = ("look", "go on as new", "kill")
CATCHES: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "DagRun": ([*map(str, TaskState), *WAITS, *CONDITIONS["DagRun"]], OF_TASKS),
    "Dag": ([*CONDITIONS["Dag"]], OF_DAGS),
    "Pool": ([*CONDITIONS["Pool"]], OF_POOLS),
    "Asset": ([*CONDITIONS["Asset"]], OF_ASSETS),
    "DagBundle": ([*CONDITIONS["DagBundle"]], OF_BUNDLES),
}
"""By kind of workflow, in what it is caught, and what happens then."""


def every_hunt() -> list[tuple[str, str, str]]:
    """Every kind of workflow, with what it is caught in and what happens."""
    return [(kind, sees, does) for kind, (caught, happens) in CATCHES.items() for sees in caught for does in happens]


class Hunts:
    """Those of one installation that have not had their moment."""

    def __init__(self, world: World, people: People, hunts: list[dict[str, Any]]) -> None:
        self._world, self._people = world, people
        self._left: dict[str, list[dict[str, Any]]] = {}
        for hunt in hunts:
            self._left.setdefault(hunt["kind"], []).append(hunt)

    def saw(self, look: Look, execution: Execution) -> None:
        """Somebody has seen a workflow after one of its workflow tasks: what waits for that happens a moment later."""
        if self._world.calm or look.closed is not None:
            return
        for hunt in [*self._left.get(execution.kind, ())]:
            if keys := _caught(look, hunt["sees"]):
                key = self._world.random.choice(keys)
                self._left[execution.kind].remove(hunt)
                self._world.counts["hunts"] += 1
                delay = int(hunt["delay"] * SECOND)
                happens: Callable[..., None] = getattr(self, "_" + hunt["does"].replace(" ", "_"))
                self._world.later(delay, lambda h=happens, key=key: h(execution, key))  # type: ignore[misc]

    # Runs

    def _change_run(self, execution: Execution, key: str, **change: Any) -> None:
        self._people.revised.add(execution.workflow_id)
        question = ReviseQuestion(workflow_id=execution.workflow_id, **change)
        self._people.ask_dag(_dag_of(execution), "revise_run", question)

    def _clear(self, execution: Execution, key: str) -> None:
        if execution.kind == "DagRun":
            self._change_run(execution, key, clear=ClearRequest(tasks=(key,) if key else ()))

    def _clear_below(self, execution: Execution, key: str) -> None:
        tasks = (split_key(key)[0],) if key else ()
        self._change_run(execution, key, clear=ClearRequest(tasks=tasks, downstream=bool(key)))

    def _mark(self, execution: Execution, key: str, state: str) -> None:
        if key:
            self._change_run(execution, key, mark=MarkRequest.model_validate({"tasks": (key,), "state": state}))

    def _mark_success(self, execution: Execution, key: str) -> None:
        self._mark(execution, key, "success")

    def _mark_failed(self, execution: Execution, key: str) -> None:
        self._mark(execution, key, "failed")

    def _mark_skipped(self, execution: Execution, key: str) -> None:
        self._mark(execution, key, "skipped")

    def _mark_run_success(self, execution: Execution, key: str) -> None:
        self._change_run(execution, key, mark_run=RunMark(state=TaskState.SUCCESS))

    def _mark_run_failed(self, execution: Execution, key: str) -> None:
        self._change_run(execution, key, mark_run=RunMark(state=TaskState.FAILED))

    def _answer(self, execution: Execution, key: str, chosen: str = "Approve") -> None:
        if key:
            answer = Answer(task=key, chosen=(chosen,), by="somebody")
            self._world.update(execution.workflow_id, "respond", answer, answered=lambda *_: None)

    def _reject(self, execution: Execution, key: str) -> None:
        self._answer(execution, key, "Reject")

    def _cancel(self, execution: Execution, _: str) -> None:
        self._people.lose(execution)
        self._world.service.cancel(execution.workflow_id)

    # Whatever kind

    def _terminate(self, execution: Execution, _: str) -> None:
        if not self._people.may_lose(execution):
            return
        self._people.lose(execution)
        self._world.service.terminate(execution.workflow_id)

    def _reset(self, execution: Execution, _: str) -> None:
        found = self._world.service.open(execution.workflow_id)
        if found is None or not found.steps or not self._people.may_lose(execution):
            return
        self._people.lose(found)
        step = self._world.random.choice((len(found.steps) - 1, self._world.random.randrange(len(found.steps))))
        self._world.counts[f"fault reset {found.kind}"] += 1
        self._world.service.reset(found.workflow_id, step)

    def _go_on_as_new(self, execution: Execution, _: str) -> None:
        found = self._world.service.open(execution.workflow_id)
        if found is not None and found.suggested_at is None:
            found.suggested_at = len(found.events)

    def _kill(self, execution: Execution, _: str) -> None:
        number = execution.sticky
        worker = self._world.workers[number if number is not None else 0]
        self._world.kill(worker, SECOND)

    def _other_release(self, execution: Execution, _: str) -> None:
        """Each worker begins anew, of either release where both take part."""
        for worker in self._world.workers:
            self._world.kill(worker, SECOND)

    # DAGs

    def _pause(self, execution: Execution, _: str) -> None:
        self._people.send(execution, "pause")

    def _pause_briefly(self, execution: Execution, _: str) -> None:
        self._people.send(execution, "pause")
        self._world.later(5 * SECOND, lambda: self._people.send(execution, "unpause"))

    def _unpause(self, execution: Execution, _: str) -> None:
        self._people.send(execution, "unpause")

    def _trigger(self, execution: Execution, _: str) -> None:
        self._people.send(execution, "trigger", {"conf": {}})

    def _by_dag(self, name: str, execution: Execution) -> None:
        self._people.act(name, _dag_of(execution))

    def __getattr__(self, name: str) -> Callable[[Execution, str], None]:
        """What people do by their plans, too."""
        if name.removeprefix("_") not in OF_DAGS:
            raise AttributeError(name)
        return lambda execution, _: self._by_dag(name.removeprefix("_"), execution)

    # Pools and assets

    def _set_small(self, execution: Execution, _: str, slots: int = 1) -> None:
        settings = PoolSettings(slots=slots)
        if execution.workflow_id.startswith("pool:"):
            self._world.update(execution.workflow_id, "set", settings, answered=lambda *_: None)

    def _set_large(self, execution: Execution, key: str) -> None:
        self._set_small(execution, key, 4)

    def _emit(self, execution: Execution, _: str) -> None:
        if execution.kind != "Asset":
            self._by_dag("emit", execution)
            return
        told = ReportedEvent(cause=f"hunter {self._world.counts['hunts']}")
        self._world.update(execution.workflow_id, "emit", told, answered=lambda *_: None)

    def _tie(self, execution: Execution, _: str) -> None:
        """Some DAG that waits for it is registered anew, and says so."""
        for dag_id in self._people.specs:
            self._people.act("register", dag_id)

    def _look(self, execution: Execution, _: str) -> None:
        self._people.send(execution, "look")


def _dag_of(execution: Execution) -> str:
    return execution.workflow_id.split(":")[1]


def _caught(look: Look, sees: str) -> list[str]:
    """The tasks by which a workflow is in a situation; "" where that is of no task; none: it is not."""
    kind = look.kind
    if sees in CONDITIONS[kind]:
        return [""] if CONDITIONS[kind][sees](look) else []
    return [
        key
        for key, instance in look.state.instances.items()
        if instance.state == sees or (sees in WAITS and WAITS[sees](look, key, instance))
    ]
