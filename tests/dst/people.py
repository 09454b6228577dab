"""What people and operators do in an installation, as clients of the service."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from tidemill.model.asset.gathering import Unqueue
from tidemill.model.asset.state import AssetState, ReportedEvent, asset_workflow_id, named_asset
from tidemill.model.bundle.data import BundleSettings, DagFileState, bundle_workflow_id
from tidemill.model.bundle.state import BundleState
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.dag.manual_runs import ConfChange
from tidemill.model.pool.state import PoolSettings, PoolState, pool_workflow_id
from tidemill.model.run.identity import dag_workflow_id
from tidemill.model.run.instance_keys import UNMAPPED, instance_key
from tidemill.model.run.messages import Answer
from tidemill.model.run.revisions import ClearRequest, MarkRequest, ReviseQuestion, RunMark
from tidemill.model.spec.dag import DagSpec, read_dag
from tidemill.model.states import TaskState

from .clock import SECOND, instant
from .history import Execution
from .installation import Folder, Happening, Plan
from .world import World

BUNDLE = "files"
ENDED = ("success", "failed", "skipped", "upstream_failed", "removed")


class People:
    """Those who work with one installation. What the engine has answered them is in `answers`."""

    def __init__(self, world: World, plan: Plan, folder: Folder, specs: dict[str, DagSpec]) -> None:
        self._world, self._plan, self._folder = world, plan, folder
        self.specs = specs
        self.answers: list[tuple[str, str, Any]] = []
        """By request: its name, its DAG, and what was answered; a text is a refusal."""
        self._asked = 0
        self.disturbed: set[str] = set()
        """DAGs whose schedule people have changed: what their runs are is not foreseen."""
        self.lost: set[str] = set()
        """Workflow ids of DAGs and bundles that somebody has ended or reset."""
        self.revised: set[str] = set()
        """Workflow ids of runs that people have cleared, marked or ended."""
        self.deleted: set[str] = set()
        """run_ids of runs that people have deleted, or tried to."""
        self.touched: dict[str, datetime] = {}
        """When somebody has last ended or reset a workflow, by its id."""

    def begin(self) -> None:
        """Makes pools and registers DAGs, by hand or by a bundle."""
        for name, slots in self._plan.pools.items():
            state = PoolState(name=name, settings=PoolSettings(slots=slots))
            self._world.service.start("Pool", pool_workflow_id(name), self._world.to_payloads(state))
        if self._plan.by_bundle:
            self._begin_bundle()
        else:
            for spec in self.specs.values():
                self.register(spec)

    def _begin_bundle(self) -> None:
        settings = BundleSettings.model_validate(
            {"name": BUNDLE, "path": "/dags", "dag_dir_list_interval": max(60.0, self._plan.seconds / 20)}
        )
        state_of_bundle = BundleState(settings=settings)
        self._world.service.start("DagBundle", bundle_workflow_id(BUNDLE), self._world.to_payloads(state_of_bundle))

    def do(self, happening: Happening) -> None:
        """Does what the plan says, now."""
        handler: Callable[[dict[str, Any]], None] = getattr(self, f"_{happening.name}")
        self._world.counts[f"action {happening.name}"] += 1
        handler(happening.arguments)

    def ask_dag(self, dag_id: str, name: str, *arguments: Any) -> None:
        """Sends an update to a DAG; its answer is kept."""
        self._update(dag_id, name, *arguments)

    def send(self, execution: Execution, name: str, *arguments: Any) -> None:
        """Sends a signal to a workflow; one that is for DAGs, to the DAG of a run."""
        workflow_id = execution.workflow_id
        if execution.kind == "DagRun":
            workflow_id = dag_workflow_id(workflow_id.split(":")[1])
        if workflow_id.startswith("dag:") and name == "pause":
            self.disturbed.add(workflow_id.removeprefix("dag:"))
        self._signal(workflow_id, name, *arguments)

    def may_lose(self, execution: Execution) -> bool:
        """Whether an operator may end or reset a workflow: none that workers of the last release would begin anew."""
        return not (self._world.has_two_releases and execution.kind in ("Asset", "Pool"))

    def lose(self, execution: Execution) -> None:
        """Takes note that somebody ends or resets a workflow."""
        self._lost(execution)

    def act(self, name: str, dag_id: str) -> None:
        """Does something to a DAG, at a moment that nobody has planned."""
        drawn = self._world.random
        since, backfills = self._plan.start.isoformat(), ("pause_backfill", "unpause_backfill", "cancel_backfill")
        names = {
            "trigger_run": "trigger", "trigger_runs": "trigger_many", "revise": "clear", "create_backfill": "backfill",
            "restore": "restore_file", **dict.fromkeys(backfills, "change_backfill"),
        }  # fmt: skip
        spec = self.specs[dag_id]
        earlier = self._plan.start - timedelta(seconds=self._plan.seconds)
        assets = sorted(known for known in self._world.service.current if known.startswith("asset:")) or ["asset:none"]
        arguments = {
            "dag_id": dag_id, "choice": drawn.random(), "task": drawn.choice(spec.tasks).task_id, "change": name,
            "downstream": drawn.random() < 0.5, "only_failed": False, "key": None, "from": earlier.isoformat(),
            "to": since, "max_active_runs": drawn.choice((1, 2)), "run_backwards": False,
            "reprocess_behavior": "completed",
            "asset": drawn.choice(assets).removeprefix("asset:"),
            "changes": drawn.choice(({"max_active_tasks": 2}, {"description": f"{drawn.random()}"})),
        }  # fmt: skip
        self.do(Happening(0, names.get(name, name), arguments))

    def register(self, spec: DagSpec) -> None:
        self._world.service.start("Dag", dag_workflow_id(spec.dag_id), self._world.to_payloads(spec))
        self._update(spec.dag_id, "register", spec)

    def _update(self, dag_id: str, name: str, *arguments: Any) -> None:
        self._asked += 1

        def answered(result: Payload | None, failure: Failure | None) -> None:
            answer = failure.message if failure is not None else self._world.value(result) if result else None
            self.answers.append((name, dag_id, answer))

        self._world.update(dag_workflow_id(dag_id), name, *arguments, answered=answered)

    def _signal(self, workflow_id: str, name: str, *arguments: Any) -> None:
        self._world.service.signal(workflow_id, name, self._world.to_payloads(*arguments))

    # Runs

    def _trigger(self, arguments: dict[str, Any]) -> None:
        self._update(arguments["dag_id"], "trigger_run", {"conf": {"n": arguments["choice"]}})

    def _trigger_many(self, arguments: dict[str, Any]) -> None:
        self._update(arguments["dag_id"], "trigger_runs", [{"conf": {}}, {"conf": {"a": 1}}])

    def _trigger_dated(self, arguments: dict[str, Any]) -> None:
        date = datetime.fromisoformat(arguments["logical_date"])
        request = {"logical_date": date.isoformat(), "conf": {"dated": True}}
        if arguments["later"]:
            request["run_after"] = (instant(self._world.now) + timedelta(seconds=arguments["later"])).isoformat()
        self._update(arguments["dag_id"], "trigger_run", request)

    def _signal_trigger(self, arguments: dict[str, Any]) -> None:
        self._signal(dag_workflow_id(arguments["dag_id"]), "trigger", {"conf": {}})

    def _a_run(self, arguments: dict[str, Any], *, open_: bool = False) -> Execution | None:
        prefix = f"run:{arguments['dag_id']}:"
        found = [
            self._world.service.executions[run_id]
            for workflow_id, run_id in self._world.service.current.items()
            if workflow_id.startswith(prefix)
        ]
        found = [each for each in found if self._world.service.find(each.workflow_id) and (each.running or not open_)]
        return found[int(arguments["choice"] * len(found))] if found else None

    def _revise(self, arguments: dict[str, Any], **change: Any) -> None:
        run = self._a_run(arguments)
        if run is not None:
            self.revised.add(run.workflow_id)
            self._update(arguments["dag_id"], "revise_run", ReviseQuestion(workflow_id=run.workflow_id, **change))

    def _clear(self, arguments: dict[str, Any]) -> None:
        tasks = () if arguments["choice"] < 0.2 else (arguments["task"],)
        latest = arguments["choice"] > 0.9
        around = {"downstream": arguments["downstream"], "upstream": arguments.get("upstream", False)}
        wanted = {**around, "only_failed": arguments["only_failed"]}
        self._revise(arguments, clear=ClearRequest(tasks=tasks, run_on_latest_version=latest, **wanted))

    def _mark(self, arguments: dict[str, Any]) -> None:
        state = TaskState(arguments["state"])
        wanted = {"tasks": (arguments["task"],), "downstream": arguments["downstream"], "state": state}
        self._revise(arguments, mark=MarkRequest.model_validate(wanted))

    def _revise_past(self, arguments: dict[str, Any]) -> None:
        """Clear, or mark, a task of the newest run that has ended; a moment later there is a run after it."""
        prefix = f"run:{arguments['dag_id']}:"
        current = self._world.service.current.items()
        runs = [self._world.service.executions[run_id] for name, run_id in current if name.startswith(prefix)]
        ended = [run for run in runs if not run.running and self._world.service.find(run.workflow_id)]
        if ended:
            newest = max(ended, key=lambda run: run.workflow_id)
            self.revised.add(newest.workflow_id)
            change = {"clear": {"tasks": (arguments["task"],)}}
            if arguments["state"] is not None:
                change = {"mark": {"tasks": (arguments["task"],), "state": arguments["state"]}}
            question = ReviseQuestion.model_validate({"workflow_id": newest.workflow_id, **change})
            self._update(arguments["dag_id"], "revise_run", question)
        self._world.later(int(arguments["then"] * SECOND), lambda: self._trigger(arguments))

    def _mark_run(self, arguments: dict[str, Any]) -> None:
        self._revise(arguments, mark_run=RunMark.model_validate({"state": arguments["state"]}))

    def _cancel_run(self, arguments: dict[str, Any]) -> None:
        run = self._a_run(arguments, open_=True)
        if run is not None:
            self._touch(run)
            self._world.service.cancel(run.workflow_id)

    def _terminate_run(self, arguments: dict[str, Any]) -> None:
        run = self._a_run(arguments, open_=True)
        if run is not None:
            self._touch(run)
            self._world.counts["fault terminated run"] += 1
            self._world.service.terminate(run.workflow_id)

    def _reset_run(self, arguments: dict[str, Any]) -> None:
        run = self._a_run(arguments, open_=True)
        if run is not None and run.steps:
            self._touch(run)
            self._world.counts["fault reset run"] += 1
            self._world.service.reset(run.workflow_id, int(arguments["choice"] * len(run.steps)))

    def _delete_run(self, arguments: dict[str, Any]) -> None:
        run = self._a_run(arguments)
        if run is not None:
            self.revised.add(run.workflow_id)
            state = self._world.query(run, "identity")
            if state is not None:
                self.deleted.add(state["run_id"])
                self._update(arguments["dag_id"], "delete_run", state["run_id"])

    def _set_conf(self, arguments: dict[str, Any]) -> None:
        found = self._world.service.open(dag_workflow_id(arguments["dag_id"]))
        runs = self._world.query(found, "runs") if found is not None else None
        queued = [run["run_id"] for run in runs or [] if run["state"] == "queued"]
        if queued:
            self._update(arguments["dag_id"], "set_conf", ConfChange(run_id=queued[0], conf={"changed": True}))

    def _answer(self, arguments: dict[str, Any]) -> None:
        self.answer_approvals("Reject" if arguments["choice"] < 0.4 else "Approve")

    def answer_approvals(self, chosen: str = "Approve") -> None:
        """Somebody answers everything that waits for an answer."""
        for run_id in [*self._world.service.executions]:
            run = self._world.service.executions[run_id]
            if run.kind != "DagRun" or not run.running or not run.steps:
                continue
            details = self._world.query(run, "describe")
            for task in (details or {}).get("tasks", []):
                if task["state"] == "awaiting_input":
                    key = instance_key(task["task_id"], task.get("map_index", UNMAPPED))
                    answer = Answer(task=key, chosen=(chosen,), by="somebody")
                    self._world.update(run.workflow_id, "respond", answer, answered=lambda *_: None)

    def end_what_waits_for_the_past(self) -> None:
        """Somebody marks runs that can never go on, since a task has failed in the run before."""
        for run_id in [*self._world.service.executions]:
            run = self._world.service.executions[run_id]
            if run.kind == "DagRun" and run.running and run.steps:
                tasks = (self._world.query(run, "describe") or {}).get("tasks", [])
                waiting = [task for task in tasks if task["state"] not in ENDED]
                if waiting and all(task["state"] == "none" for task in waiting):
                    dag_id = run.workflow_id.split(":")[1]
                    self.revised.add(run.workflow_id)
                    mark = RunMark.model_validate({"state": "success"})
                    self._update(dag_id, "revise_run", ReviseQuestion(workflow_id=run.workflow_id, mark_run=mark))

    def end_orphans(self) -> None:
        """Somebody cancels runs that their DAG does not know: nobody unpauses them.

        An operator has ended it, or has reset a run that had ended.
        """
        for run_id in [*self._world.service.executions]:
            run = self._world.service.executions[run_id]
            if run.kind != "DagRun" or not run.running or not run.steps:
                continue
            dag_id = dag_workflow_id(run.workflow_id.split(":")[1])
            if dag_id not in self.lost and run.workflow_id not in self.touched:
                continue
            dag = self._world.service.open(dag_id)
            known = self._world.in_memory(dag).object.state.runs.values() if dag is not None and dag.steps else ()
            if run.workflow_id not in {tracked.run.workflow_id for tracked in known}:
                self._world.service.cancel(run.workflow_id)

    # DAGs

    def _pause(self, arguments: dict[str, Any]) -> None:
        self.disturbed.add(arguments["dag_id"])
        self._signal(dag_workflow_id(arguments["dag_id"]), "pause")

    def _unpause(self, arguments: dict[str, Any]) -> None:
        self._signal(dag_workflow_id(arguments["dag_id"]), "unpause")

    def _register(self, arguments: dict[str, Any]) -> None:
        dag_id = arguments["dag_id"]
        self.disturbed.add(dag_id)
        fields = {**self.specs[dag_id].model_dump(mode="json"), **arguments["changes"]}
        try:
            spec = read_dag(fields)
        except ValueError:  # what is changed does not go with the rest
            return
        self._world.counts["registered anew"] += 1
        self.specs[dag_id] = spec
        if self._plan.by_bundle:
            self._folder.put(spec)
            self._signal(bundle_workflow_id(BUNDLE), "look")
        else:
            self.register(spec)

    def _stale(self, arguments: dict[str, Any]) -> None:
        self._change_file(arguments, DagFileState(is_stale=True), self._folder.remove)

    def _broken(self, arguments: dict[str, Any]) -> None:
        self._change_file(arguments, DagFileState(import_error="SyntaxError"), self._folder.break_file)

    def _restore_file(self, arguments: dict[str, Any]) -> None:
        self._change_file(arguments, DagFileState(), lambda dag_id: self._folder.put(self.specs[dag_id]))

    def _change_file(self, arguments: dict[str, Any], state: DagFileState, change: Callable[[str], None]) -> None:
        dag_id = arguments["dag_id"]
        self.disturbed.add(dag_id)
        if self._plan.by_bundle:
            change(dag_id)
            self._signal(bundle_workflow_id(BUNDLE), "look")
        else:
            self._signal(dag_workflow_id(dag_id), "file_state", state)

    def _backfill(self, arguments: dict[str, Any]) -> None:
        names = ("run_backwards", "reprocess_behavior", "max_active_runs")
        request = BackfillRequest.model_validate(
            {"from_date": arguments["from"], "to_date": arguments["to"], **{name: arguments[name] for name in names}}
        )
        self.disturbed.add(arguments["dag_id"])
        self._update(arguments["dag_id"], "create_backfill", request)

    def _change_backfill(self, arguments: dict[str, Any]) -> None:
        made = [
            answer["backfill_id"]
            for name, dag_id, answer in self.answers
            if name == "create_backfill" and dag_id == arguments["dag_id"] and isinstance(answer, dict)
        ]
        if made:
            self._update(arguments["dag_id"], arguments["change"], made[-1])

    def unpause_all(self) -> None:
        """Somebody lets everything go on that was held back."""
        if self._plan.by_bundle:
            self._begin_bundle()
        for dag_id, spec in self.specs.items():
            if self._world.service.open(dag_workflow_id(dag_id)) is None:
                self.register(spec)
            view = self._view(dag_workflow_id(dag_id))
            if view.get("is_paused"):
                self._unpause({"dag_id": dag_id})
            if view.get("is_stale") or view.get("has_import_errors"):
                self._restore_file({"dag_id": dag_id})
            for backfill in self._view(dag_workflow_id(dag_id), "backfills") or ():
                if backfill["is_paused"] and backfill["completed_at"] is None:
                    self._update(dag_id, "unpause_backfill", backfill["backfill_id"])
        for workflow_id in [*self._world.service.current]:
            if workflow_id.startswith("asset:") and self._view(workflow_id).get("is_paused"):
                self._signal(workflow_id, "unpause")

    def _view(self, workflow_id: str, query: str = "describe") -> Any:
        """What a workflow answers; nothing where it does not run. Who only looks wakes nobody."""
        found = self._world.service.open(workflow_id)
        return (self._world.query(found, query) if found is not None else None) or {}

    # Pools and assets

    def _set_pool(self, arguments: dict[str, Any]) -> None:
        name = arguments["pool"]
        settings = PoolSettings(slots=arguments["slots"])
        state = PoolState(name=name, settings=settings)
        self._world.service.start("Pool", pool_workflow_id(name), self._world.to_payloads(state))
        self._world.update(pool_workflow_id(name), "set", settings, answered=lambda *_: None)

    def widen_pools(self) -> None:
        """Somebody gives every pool as many slots as any task takes."""
        for name in self._plan.pools:
            if self._view(pool_workflow_id(name)).get("settings", {}).get("slots", 0) < 3:
                self._set_pool({"pool": name, "slots": 3})

    def _emit(self, arguments: dict[str, Any]) -> None:
        name = arguments["asset"]
        self._asked += 1
        asset = named_asset(name)
        told = ReportedEvent(cause=f"person {self._asked}", partition_key=arguments["key"])
        workflow_id = asset_workflow_id(name)
        self._world.service.start("Asset", workflow_id, self._world.to_payloads(AssetState(asset=asset)))
        self._world.update(workflow_id, "emit", told, answered=lambda *_: None)

    def _pause_asset(self, arguments: dict[str, Any]) -> None:
        self._signal(asset_workflow_id(arguments["asset"]), "pause")

    def _unqueue(self, arguments: dict[str, Any]) -> None:
        self.disturbed.add(arguments["dag_id"])
        self._update(arguments["dag_id"], "unqueue", Unqueue(name=arguments["asset"]))

    def _unpause_asset(self, arguments: dict[str, Any]) -> None:
        self._signal(asset_workflow_id(arguments["asset"]), "unpause")

    # What goes wrong

    def _worker(self, arguments: dict[str, Any]) -> Any:
        return self._world.workers[arguments["worker"] % len(self._world.workers)]

    def _kill(self, arguments: dict[str, Any]) -> None:
        self._world.kill(self._worker(arguments), int(arguments["pause"] * SECOND))

    def _cut_off(self, arguments: dict[str, Any]) -> None:
        self._world.cut_off(self._worker(arguments), int(arguments["pause"] * SECOND))

    def _service_away(self, arguments: dict[str, Any]) -> None:
        self._world.take_service_away(int(arguments["pause"] * SECOND))

    def _any(self, arguments: dict[str, Any]) -> Execution | None:
        """A workflow that runs, of a kind drawn first: else it would mostly be a run.

        None that others remember while workers of the last release take part: theirs ask nobody who holds what.
        """
        remembered = ("Asset", "Pool") if self._world.has_two_releases else ()
        executions = self._world.service.executions.values()
        running = [each for each in executions if each.running and each.steps and each.kind not in remembered]
        kinds = sorted({each.kind for each in running})
        if not kinds:
            return None
        place = arguments["choice"] * len(kinds)
        mine = [each for each in running if each.kind == kinds[int(place)]]
        found = mine[int((place % 1) * len(mine))]
        self._lost(found)
        return found

    def _touch(self, found: Execution) -> None:
        """Somebody ends or resets a workflow."""
        self.touched[found.workflow_id] = instant(self._world.now)
        if found.kind == "DagRun":
            self.revised.add(found.workflow_id)

    def _lost(self, found: Execution) -> None:
        """Somebody ends or resets a workflow: of its DAG, other things hold than before."""
        self._touch(found)
        if found.kind in ("Dag", "DagBundle"):
            self.disturbed.update([found.workflow_id.partition(":")[2]] if found.kind == "Dag" else self.specs)
            self.lost.add(found.workflow_id)
        elif found.kind == "Asset":
            self.lost.add(found.workflow_id)

    def _terminate_any(self, arguments: dict[str, Any]) -> None:
        if (found := self._any(arguments)) is not None:
            self._world.counts[f"fault terminated {found.kind}"] += 1
            self._world.service.terminate(found.workflow_id)

    def _cancel_any(self, arguments: dict[str, Any]) -> None:
        if (found := self._any(arguments)) is not None:
            self._world.counts[f"fault canceled {found.kind}"] += 1
            self._world.service.cancel(found.workflow_id)

    def _reset_any(self, arguments: dict[str, Any]) -> None:
        if (found := self._any(arguments)) is not None:
            self._world.counts[f"fault reset {found.kind}"] += 1
            step = int(arguments["choice"] * 7919) % len(found.steps)
            self._world.service.reset(found.workflow_id, step)

    def _evict_all(self, _: dict[str, Any]) -> None:
        self._world.evict_all()

    def _skew(self, arguments: dict[str, Any]) -> None:
        self._worker(arguments).skew = int(arguments["skew"] * SECOND)

    def _copy(self, _: dict[str, Any]) -> None:
        self._world.keep_copy()

    def _restore(self, _: dict[str, Any]) -> None:
        self._world.restore_copy()
