"""The limit of the installation, decided: who takes a slot of it, and which number holds."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from support import bash, dag, empty
from tidemill.model.pool.state import LeaseRequest, PoolSettings, PoolState
from tidemill.model.run.planner import RunPlan
from tidemill.model.states import TaskState

NOW = datetime(2024, 1, 1, tzinfo=UTC)


def test_every_task_that_needs_a_worker_asks_for_a_slot() -> None:
    spec = dag("d", [bash("works", "true"), empty("nothing"), bash("pooled", "true", pool="p")])
    plan = RunPlan(spec, dict.fromkeys(spec.by_id, TaskState.NONE), parallelism=5)
    started = [d.key for d in plan.decide() if d.state is TaskState.QUEUED]
    assert started == ["nothing"]
    assert plan.wanted_leases == ["works", "pooled"]
    assert plan.why("works") == "parallelism = 5 is reached: as many tasks of all DAGs are queued or running"


def test_without_a_limit_nobody_asks() -> None:
    spec = dag("d", [bash("works", "true"), empty("nothing")])
    plan = RunPlan(spec, dict.fromkeys(spec.by_id, TaskState.NONE))
    assert [d.key for d in plan.decide() if d.state is TaskState.QUEUED] == ["works", "nothing"]
    assert plan.wanted_leases == []


@given(st.permutations([0, 1, 2, 3, 4]))
def test_the_newest_limit_holds_in_whatever_order_runs_ask(order: list[int]) -> None:
    pool = PoolState(name="limit:parallelism", settings=PoolSettings(slots=1))
    for number in order:
        as_of = NOW.replace(minute=number)
        pool.ask(
            LeaseRequest(lease_id=str(number), holder="r", key="k", date=NOW, limit=10 + number, limit_as_of=as_of)
        )
    assert pool.settings.slots == 14
