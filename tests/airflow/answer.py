"""Tidemill's answers to questions that the real Airflow has answered.

`answer(case)` returns what tidemill says, in the form of the recorded answers; a refused input
raises ValueError.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from assets import ANSWERS as OF_ASSETS
from pydantic import TypeAdapter
from queueing import Queueing
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.dag.backfill_walk import BackfillQuestion, backfill_batch
from tidemill.model.run.identity import RunIdentity, RunType, TriggerRequest, manual_run, run_id, timetable_run_id
from tidemill.model.run.past import Past, remembered, run_before, summarised
from tidemill.model.run.planner import RunPlan
from tidemill.model.run.trigger_rules import Upstreams, judge
from tidemill.model.spec.dag import DagSpec
from tidemill.model.spec.priorities import priority_weights
from tidemill.model.spec.timetables import DagRunInfo, DataInterval, Null, TimeRestriction, Timetable
from tidemill.model.spec.timetables.base import BaseTimetable, infos_between
from tidemill.model.spec.trigger_rule import TriggerRule
from tidemill.model.states import TaskState

type_adapter: TypeAdapter[BaseTimetable] = TypeAdapter(Timetable)

Case = dict[str, Any]
Row = list[datetime]


def answer(case: Case) -> Any:
    """What tidemill says."""
    return ANSWERS[case["op"]](case)


def timetable(case: Case) -> BaseTimetable:
    kind, schedule = case["kind"], case["schedule"]
    zone = case.get("timezone", "UTC")
    extra = {name: case[name] for name in ("interval", "run_immediately") if case.get(name) is not None}
    fields: Case = {
        "cron_interval": lambda: {"expression": schedule, "timezone": zone},
        "cron_trigger": lambda: {"expression": schedule, "timezone": zone, **extra},
        "multi_cron_trigger": lambda: {"expressions": schedule, "timezone": zone, **extra},
        "delta_interval": lambda: {"delta": schedule},
        "delta_trigger": lambda: {"delta": schedule, **extra},
        "events": lambda: {"event_dates": schedule, "restrict_to_events": case.get("restrict_to_events", False)},
        "asset": lambda: {"assets": schedule},
    }.get(kind, dict)()
    return type_adapter.validate_python({"kind": kind, **fields})


def at(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def row(info: DagRunInfo | None) -> Row | None:
    if info is None:
        return None
    return [info.logical_date, info.data_interval.start, info.data_interval.end, info.run_after]


def restriction(case: Case) -> TimeRestriction:
    if case["catchup"] and case["start_date"] is None:
        raise ValueError("catchup needs a start_date")
    return TimeRestriction(earliest=case["start_date"], latest=case.get("end_date"), catchup=case["catchup"])


def next_runs(case: Case) -> list[Row | None]:
    given = case["last_data_interval"]
    last = None if given is None else DataInterval(start=given[0], end=given[1])
    rows: list[Row | None] = []
    for _ in range(case["n"]):
        info = timetable(case).next_dagrun_info(last, restriction(case), at(case["now"]))
        rows.append(row(info))
        if info is None:
            break
        last = info.data_interval
    return rows


def timeline(case: Case) -> list[Case]:
    schedule, bounds, last = timetable(case), restriction(case), None
    answers = []
    for step in case["steps"]:
        now = at(step)
        created = []
        info = schedule.next_dagrun_info(last, bounds, now)
        while info is not None and info.run_after <= now:
            created.append(row(info))
            last = info.data_interval
            info = schedule.next_dagrun_info(last, bounds, now)
        answers.append({"created": created, "next": row(info)})
    return answers


def manual(case: Case) -> Row:
    interval = timetable(case).manual_interval(at(case["run_after"]))
    return [interval.start, interval.end]


def manual_trigger(case: Case) -> list[Any]:
    names = ("logical_date", "run_after", "data_interval_start", "data_interval_end")
    request = TriggerRequest(run_id=case.get("dag_run_id"), **{name: case.get(name) for name in names})
    run = manual_run("dag", timetable(case), request, at(case["now"]))
    interval = run.data_interval
    return [run.run_id, run.logical_date, interval and [interval.start, interval.end], run.run_after]


def name_of_run(case: Case) -> str:
    run_type, run_after = RunType(case["run_type"]), at(case["run_after"])
    if case["via"] == "generic":
        return run_id(run_type, run_after, tail="" if case["logical_date"] else "abcd1234")
    logical_date = at(case["logical_date"])
    interval = None if logical_date is None else DataInterval(start=logical_date, end=max(logical_date, run_after))
    return timetable_run_id(timetable(case), run_type, run_after, interval)


def between(case: Case) -> list[Row]:
    infos = infos_between(timetable(case).next_dagrun_info, at(case["earliest"]), at(case["latest"]), at(case["now"]))
    return [row(info) for info in islice(infos, 10_000)]


def backfill_range(case: Case) -> list[Row]:
    if at(case["latest"]) < at(case["earliest"]):
        return []  # refused where it is asked for
    asked = BackfillRequest(from_date=at(case["earliest"]), to_date=at(case["latest"]), run_backwards=case["reverse"])
    question = BackfillQuestion(timetable=timetable(case), request=asked, now=at(case["now"]))
    total = backfill_batch(question.timetable.next_dagrun_info, question, lambda: True).total
    if not total:
        return []
    whole = question.model_copy(update={"limit": total})
    return [row(info) for info in backfill_batch(question.timetable.next_dagrun_info, whole, lambda: True).infos]


def bounds(case: Case) -> list[datetime | None]:
    own = [{"task_id": f"t{i}", "kind": "empty", **dates} for i, dates in enumerate(case["tasks"])]
    spec = DagSpec(
        dag_id="dag",
        schedule=timetable(case),
        start_date=case["start_date"],
        end_date=case["end_date"],
        catchup=case["catchup"],
        tasks=own,
    )
    return [spec.restriction.earliest, spec.restriction.latest]


def trigger_rule(case: Case) -> str:
    return judge(TriggerRule(case["rule"]), Upstreams.of(TaskState(state) for state in case["upstream"]))


def read_tasks(tasks: Case) -> list[Case]:
    renamed = {"rule": "trigger_rule", "setup": "is_setup"}
    return [
        {
            "kind": "empty",
            "task_id": task_id,
            **{renamed.get(name, name): value for name, value in task.items() if name not in ("plan", "teardown_of")},
            **({"is_teardown": True} if "teardown_of" in task else {}),
        }
        for task_id, task in tasks.items()
    ]


def dagrun_state(case: Case) -> str:
    """The run's state, with no task looked at again: as the states stand."""
    inner = {f"inner{i}": TaskState(state) for i, state in enumerate(case["inner"])}
    leaves = {f"leaf{i}": TaskState(state) for i, state in enumerate(case["leaves"])}
    tasks = [{"kind": "empty", "task_id": task_id} for task_id in inner]
    tasks += [{"kind": "empty", "task_id": task_id, "upstream": [*inner]} for task_id in leaves]
    end = RunPlan(DagSpec(dag_id="dag", tasks=tasks), {**inner, **leaves}).end()
    return "running" if end is None else end.state


def depends_on_past(case: Case) -> str:
    flags = {name: case[name] for name in ("depends_on_past", "wait_for_downstream")}
    chain = [{"upstream": []}, {"upstream": ["a"]}, {"upstream": ["b"]}]
    tasks = [{"kind": "empty", "task_id": name, **links, **flags} for name, links in zip("abc", chain, strict=True)]
    spec = DagSpec(dag_id="dag", tasks=tasks, catchup=case["catchup"], start_date="2024-01-01T00:00:00Z")
    first = datetime.fromisoformat("2024-01-01T00:00:00+00:00")
    runs = [
        run_at(first + timedelta(days=n), RunType(kind))
        for n, kind in enumerate([*(run["run_type"] for run in case["previous"]), case["run_type"]])
    ]
    before = run_before(runs[-1], runs[:-1], catchup=spec.catchup)
    past = None
    if before is not None:
        states = {name: [TaskState(case["previous"][runs.index(before)][name])] for name in "abc"}
        past = Past(run_id=before.run_id, states={task: summarised(states.get(task, ())) for task in remembered(spec)})
    plan = RunPlan(spec, dict.fromkeys("abc", TaskState.NONE), past)
    return "run" if any(decision.key == "a" for decision in plan.decide()) else "wait"


def run_at(logical_date: datetime, run_type: RunType) -> RunIdentity:
    run = manual_run(
        "dag", Null(), TriggerRequest(logical_date=logical_date, run_id=logical_date.isoformat()), logical_date
    )
    return run.model_copy(update={"run_type": run_type})


def dag_outcome(case: Case) -> Case:
    """Runs the DAG, each task that starts ending as planned, in the order in which they started."""
    spec = DagSpec(dag_id="dag", tasks=read_tasks(case["tasks"]))
    plan = RunPlan(spec, dict.fromkeys(case["tasks"], TaskState.NONE))
    busy: list[str] = []
    while True:
        busy += [decision.key for decision in plan.decide() if decision.state is TaskState.QUEUED]
        end = plan.end()
        if end is not None:
            return {"tasks": dict(plan.states), "run": end.state}
        task_id = busy.pop(0)
        plan.record(task_id, TaskState(case["tasks"][task_id]["plan"]))


def weights(case: Case) -> dict[str, int]:
    return priority_weights(DagSpec(dag_id="dag", tasks=read_tasks(case["tasks"])).by_id)


def queue_select(case: Case) -> list[list[str]]:
    """Every run's plan asks its pools, and the limits across runs, as often as anything changes."""
    return Queueing(case).selected()


ANSWERS: dict[str, Callable[[Case], Any]] = {
    "next": next_runs,
    "timeline": timeline,
    "manual": manual,
    "manual_trigger": manual_trigger,
    "run_id": name_of_run,
    "between": between,
    "backfill_range": backfill_range,
    "restriction": bounds,
    "trigger_rule": trigger_rule,
    "dagrun_state": dagrun_state,
    "depends_on_past": depends_on_past,
    "dag_outcome": dag_outcome,
    "priority_weight": weights,
    "queue_select": queue_select,
    **OF_ASSETS,
}
