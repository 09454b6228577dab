"""Which scheduled tasks get queued: the plans of the runs and the pools they share, without a server between them."""

from datetime import datetime
from typing import Any

from tidemill.model.pool.state import LeaseRequest, PoolSettings, PoolState
from tidemill.model.run.planner import RunPlan
from tidemill.model.spec.dag import DagSpec
from tidemill.model.spec.priorities import priority_weights
from tidemill.model.states import TaskState

NOW = datetime.fromisoformat("2024-03-01T00:00:00+00:00")


class Queueing:
    """One moment of several runs. Requests are made in the order in which the pools would let them in."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.specs = {dag_id: spec(dag_id, fields) for dag_id, fields in case["dags"].items()}
        self.runs = [run for run in case["runs"] if run.get("state", "running") == "running"]
        self.plans = {
            run["run"]: RunPlan(self.specs[run["dag"]], {t: TaskState(s) for t, s in run["states"].items()})
            for run in self.runs
        }
        self.pools = {name: PoolState(name=name, settings=PoolSettings(**pool)) for name, pool in case["pools"].items()}
        self.pools.setdefault("default_pool", PoolState(name="default_pool", settings=PoolSettings(slots=128)))
        for run in self.runs:
            for task_id, state in run["states"].items():
                self._occupy(run, task_id, TaskState(state))

    def selected(self) -> list[list[str]]:
        waiting = [self._request(run, task_id) for run in self.runs for task_id in self._scheduled(run)]
        for plan in self.plans.values():
            plan.decide()
        chosen = []
        for run, task_id, request in sorted(waiting, key=lambda each: each[-1].order):
            if len(chosen) < self.case["max_tis"] and self._let_in(run, task_id, request):
                chosen.append([run["dag"], run["run"], task_id])
        return sorted(chosen)

    def _scheduled(self, run: dict[str, Any]) -> list[str]:
        return [task_id for task_id, state in run["states"].items() if state == "scheduled"]

    def _pools_of(self, run: dict[str, Any], task_id: str) -> list[PoolState]:
        task = self.specs[run["dag"]].by_id[task_id]
        found = [self.pools[task.pool]] if task.pool in self.pools else []
        if task.max_active_tis_per_dag is not None:
            name = f"{run['dag']}.{task_id}"
            settings = PoolSettings(slots=task.max_active_tis_per_dag, include_deferred=True)
            found.append(self.pools.setdefault(name, PoolState(name=name, settings=settings)))
        return found

    def _request(self, run: dict[str, Any], task_id: str) -> tuple[dict[str, Any], str, LeaseRequest]:
        spec = self.specs[run["dag"]]
        return (
            run,
            task_id,
            LeaseRequest(
                lease_id=f"{run['run']}#{task_id}",
                holder=run["run"],
                key=task_id,
                slots=spec.by_id[task_id].pool_slots,
                priority_weight=priority_weights(spec.by_id)[task_id],
                date=run["logical_date"],
            ),
        )

    def _occupy(self, run: dict[str, Any], task_id: str, state: TaskState) -> None:
        if not state.is_active:
            return
        _, _, request = self._request(run, task_id)
        for pool in self._pools_of(run, task_id):
            pool.ask(self._sized(pool, request))
            settings, pool.settings = pool.settings, PoolSettings(slots=-1)
            pool.grant(NOW)
            pool.settings = settings
            if not state.holds_a_worker:
                pool.park([request.lease_id])
            if state is TaskState.AWAITING_INPUT and pool.name in self.case["pools"]:
                pool.give_back([request.lease_id])

    def _sized(self, pool: PoolState, request: LeaseRequest) -> LeaseRequest:
        shared = pool.name in self.case["pools"] or pool.name == "default_pool"
        return request if shared else request.model_copy(update={"slots": 1})

    def _let_in(self, run: dict[str, Any], task_id: str, request: LeaseRequest) -> bool:
        pools, plan = self._pools_of(run, task_id), self.plans[run["run"]]
        task = self.specs[run["dag"]].by_id[task_id]
        granted = task.pool in self.pools
        for pool in pools:
            pool.ask(self._sized(pool, request))
            granted = bool(pool.grant(NOW)) and granted
        if granted and plan.grant(task_id) and any(d.key == task_id for d in plan.decide()):
            return True
        plan.returned_leases.clear()
        for pool in pools:
            pool.give_back([request.lease_id])
        return False


def spec(dag_id: str, fields: dict[str, Any]) -> DagSpec:
    tasks = [
        {"kind": "empty", "task_id": task_id, "weight_rule": "absolute", "pool": "default_pool", **task}
        for task_id, task in fields["tasks"].items()
    ]
    return DagSpec(dag_id=dag_id, tasks=tasks, max_active_tasks=fields.get("max_active_tasks", 16))
