"""The tries of a run as bars, and which worker had them; and what is told of a Spark application."""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import at, bash, dag, end_workflows, eventually
from temporalio.client import Client
from temporalio.worker import Worker
from tidemill.activities.worker_context import WorkerContext
from tidemill.api.pages.render import rendered
from tidemill.api.pages.spark import share_done, spark_options
from tidemill.api.read.timeline import timeline
from tidemill.model.run.identity import RunIdentity, RunType, TriggeredBy, TriggerRequest
from tidemill.model.run.progress import Progress
from tidemill.model.run.task_instances import Attempt
from tidemill.model.run.views import RunDetails, TaskView
from tidemill.model.spec.tasks.spark import SparkOptions, SparkSubmitTask
from tidemill.model.states import RunState, TaskState
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin
from tidemill.worker.supervision.attempt_starts import AttemptStart

NOW = datetime(2026, 1, 2, tzinfo=UTC)
"""Later than all moments below."""
moments = st.lists(st.integers(0, 80_000), min_size=3, max_size=3).map(
    lambda seconds: [NOW - timedelta(days=1) + timedelta(seconds=n) for n in sorted(seconds)]
)
"""When a try was queued, began and ended."""


def details_of(*tasks: TaskView) -> RunDetails:
    identity = RunIdentity(dag_id="d", run_id="r", run_type=RunType.MANUAL, triggered_by=TriggeredBy.CLI, run_after=NOW)
    done = Progress(total_tasks=len(tasks), finished=0, succeeded=0, skipped=0, failed=0)
    return RunDetails(run=identity, state=RunState.RUNNING, started_at=None, progress=done, tasks=tasks)


def view_of(number: int, tries: list[list[datetime]], *, goes_on: bool) -> tuple[TaskView, list[AttemptStart]]:
    """A task with so many tries, the last of which may go on; and what history has of them."""
    key = f"t{number}"
    ended = tries[:-1] if goes_on else tries
    queued, started, end = tries[-1]
    view = TaskView(
        task_id=key,
        kind="bash",
        state=TaskState.RUNNING if goes_on else TaskState.SUCCESS,
        try_number=len(tries),
        max_tries=9,
        upstream=(),
        queued_at=queued,
        started_at=started,
        ended_at=None if goes_on else end,
        retry_at=None,
        why="",
        error=None,
        attempts=tuple(
            Attempt(try_number=n, state=TaskState.FAILED, started_at=one[1], ended_at=one[2])
            for n, one in enumerate(ended, 1)
        ),
    )
    return view, [AttemptStart(key, n, "", one[0], *one[1:], worker="w", starts=1) for n, one in enumerate(tries, 1)]


@given(st.lists(st.tuples(st.lists(moments, min_size=1, max_size=4), st.booleans()), max_size=5))
def test_each_try_is_a_bar_within_the_whole(tasks: list[tuple[list[list[datetime]], bool]]) -> None:
    made = [view_of(n, tries, goes_on=goes_on) for n, (tries, goes_on) in enumerate(tasks)]
    starts = [start for _, of_task in made for start in of_task]
    line = timeline(details_of(*(view for view, _ in made)), starts, NOW)
    assert sorted((bar.key, bar.try_number) for bar in line.bars) == sorted(
        (f"t{n}", number) for n, (tries, _) in enumerate(tasks) for number in range(1, len(tries) + 1)
    )
    for bar in line.bars:
        assert min(bar.begins, bar.waits, bar.works) >= 0
        assert bar.begins + bar.waits + bar.works <= 100.01
        assert [(start.key, start.try_number) for start in bar.starts] == [(bar.key, bar.try_number)]
    if line.begins != line.ends:
        assert line.bars[0].begins == 0
        assert max(bar.begins + bar.waits + bar.works for bar in line.bars) == pytest.approx(100, abs=0.01)
    assert rendered("timeline.html", title="", line=line, forgotten=False, temporal=None).count('class="bar"') == len(
        line.bars
    )


async def test_a_try_that_was_handed_over_says_so(server: str, tmp_path: Path) -> None:
    """Its first worker ends while it works; another one begins it anew."""
    queue = f"test-{uuid.uuid4().hex[:8]}"
    client = await Client.connect(
        server, plugins=[TidemillPlugin(tmp_path, worker_context=WorkerContext(home=tmp_path))], identity="the first"
    )
    tidemill = Tidemill(client, queue)
    gate = tmp_path / "gate"
    waits = bash("waits", f"while [ ! -e {gate} ]; do sleep 0.1; done")
    spec = dag("handed", [waits], heartbeat_timeout=120)  # it is handed over, and not given up as lost
    async with Worker(client, task_queue=queue):
        await tidemill.dags.register(spec)
        run = await tidemill.runs.trigger("handed", TriggerRequest(run_id="r"))
        await eventually(
            lambda: tidemill.runs.describe_workflow(run.workflow_id), lambda found: found.tasks[0].state == "running"
        )
        [start] = await tidemill.runs.attempt_starts(run.workflow_id)
        assert (start.key, start.try_number, start.ended_at) == ("waits", 1, None)
    gate.touch()
    async with Worker(client, task_queue=queue):
        await asyncio.wait_for(tidemill.runs.wait(run), 100)
        [start] = await tidemill.runs.attempt_starts(run.workflow_id)
        assert (start.starts, start.worker) == (2, "the first")
        assert "handed to another worker" in start.handed_over
        details = await tidemill.runs.describe_workflow(run.workflow_id)
        line = timeline(details, [start], NOW)
        [bar] = line.bars
        assert bar.was_handed_over
        page = rendered("timeline.html", title="tries", line=line, forgotten=False, temporal=None)
        assert "begun 2 times" in page
        assert "handed to another worker" in page
        await end_workflows(client, queue)


def test_a_spark_application_is_told_without_its_secrets() -> None:
    options = SparkOptions(master="spark://a:7077", num_executors=3, conf={"spark.password": "secret"}, keytab="/k")
    task = SparkSubmitTask(task_id="t", application="/jobs/a.py", application_args=("x",), spark=options)
    told = dict(spark_options(task))
    assert told == {
        "application": "/jobs/a.py",
        "application_args": ["x"],
        "master": "spark://a:7077",
        "num_executors": 3,
        "conf": "spark.password",
    }
    assert share_done({"tasks": 8, "tasks_done": 2}) == 0.25
    assert share_done({"tasks": 8, "tasks_done": 2, "fraction": 0.5}) == 0.5
    assert share_done({"application_id": "local-1"}) is None
    view, _ = view_of(1, [[at("2026-01-01")] * 3], goes_on=True)
    running = view.model_copy(update={"progress": {"ui": "javascript:alert(1)", "stage": 3}})
    page = rendered("spark.html", title="", view=running, task=told.items(), done=0.25, tries=[], temporal="http://t/w")
    assert '<progress max="1" value="0.25">' in page
    assert "<a href" not in page.replace('<a href="http://t/w"', "")
