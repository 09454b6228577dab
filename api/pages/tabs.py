"""What Airflow's user interface has no page for: why something waits, what comes next, who holds what."""

import asyncio
import logging
import re
from datetime import UTC, datetime
from functools import partial
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from ...model.dag.local_times import by_the_clock
from ...model.errors import InvalidInputError
from ...model.run.identity import dag_workflow_id
from ...model.run.instance_keys import UNMAPPED, split_key
from ...model.run.views import TaskView
from ...model.spec.tasks.spark import SparkWork
from ...model.spec.timetables.describe import in_words
from ...worker.service.connection import NotFoundError
from ...worker.spark.tries import SparkTry, spark_tries
from ..dependencies import Source
from ..read.cached_client import CachedClient
from ..read.instances import instances_of, one_instance
from ..read.stores import in_time
from ..read.timeline import Timeline, timeline
from .render import rendered
from .spark import share_done, spark_options

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
UPCOMING = 10
READ_TIMEOUT = 10.0
"""Seconds that stores have for what applications came to."""
STEPS_SHOWN = 500

log = logging.getLogger(__name__)


def external_views() -> list[dict[str, Any]]:
    """The tabs, as the user interface's plugins name them."""
    task = "tidemill/dags/{DAG_ID}/runs/{RUN_ID}/tasks/{TASK_ID}"
    return [
        _view("Explain", "dag", "explain", "tidemill/dags/{DAG_ID}/explain"),
        _view("Schedule", "dag", "schedule", "tidemill/dags/{DAG_ID}/schedule"),
        _view("Decisions", "dag", "replay", "tidemill/dags/{DAG_ID}/replay"),
        _view("Timeline", "dag_run", "timeline", "tidemill/dags/{DAG_ID}/runs/{RUN_ID}/timeline"),
        _view("Decisions", "dag_run", "run_replay", "tidemill/dags/{DAG_ID}/runs/{RUN_ID}/replay"),
        _view("Why", "task_instance", "why", f"{task}/why?map_index={{MAP_INDEX}}"),
        _view("Spark", "task_instance", "spark", f"{task}/spark?map_index={{MAP_INDEX}}"),
        _view("Slots", "nav", "slots", "tidemill/pools"),
        _view("Bundles", "nav", "bundles", "tidemill/bundles"),
    ]


def _view(name: str, destination: str, route: str, href: str) -> dict[str, Any]:
    return {
        "name": name,
        "icon": None,
        "icon_dark_mode": None,
        "url_route": route,
        "category": "browse" if destination == "nav" else None,
        "nav_top_level": False,
        "href": href,
        "destination": destination,
    }


@router.get("/tidemill/dags/{dag_id}/explain")
async def explain(client: Source, dag_id: str) -> str:
    """Why the DAG does what it does, or nothing."""
    found = await client.tidemill.dags.explain(dag_id)
    temporal = client.temporal_link(dag_workflow_id(dag_id))
    return rendered("explain.html", title=f"Why {dag_id} does what it does", found=found, temporal=temporal)


@router.get("/tidemill/dags/{dag_id}/schedule")
async def schedule(client: Source, dag_id: str) -> str:
    """The next runs of the DAG."""
    view, infos = await client.view(dag_id), await client.tidemill.dags.upcoming(dag_id, UPCOMING)
    runs, words = by_the_clock(infos, view.schedule), in_words(view.schedule)
    title = f"What comes next in {dag_id}"
    return rendered("schedule.html", title=title, note=view.next_dagrun_note, runs=runs, words=words)


@router.get("/tidemill/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/why")
async def why(client: Source, dag_id: str, run_id: str, task_id: str, map_index: str = "") -> str:
    """Why a task has its state, and what became of its tries. The index is filled in for mapped tasks only."""
    (run, _, _), view = await one_instance(client, dag_id, run_id, task_id, _index(map_index))
    _, views = await instances_of(client, dag_id, run_id)
    upstream = [other for other in views if split_key(other.key)[0] in view.upstream]
    temporal = client.temporal_link(run.workflow_id)
    return rendered(
        "why.html", title=f"{dag_id}.{view.key} in {run_id}", view=view, upstream=upstream, temporal=temporal
    )


def _index(given: str) -> int:
    return int(given) if re.fullmatch(r"\d{1,6}", given) else UNMAPPED


@router.get("/tidemill/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/spark")
async def spark(client: Source, dag_id: str, run_id: str, task_id: str, map_index: str = "") -> str:
    """What a Spark application is, and how far it has come."""
    (run, spec, _), view = await one_instance(client, dag_id, run_id, task_id, _index(map_index))
    task = spec.by_id.get(task_id) if spec is not None else None
    options = spark_options(task) if isinstance(task, SparkWork) else None
    tries = await _applications(client, dag_id, run_id, view) if options is not None else []
    return rendered(
        "spark.html",
        title=f"Spark application of {dag_id}.{view.key} in {run_id}",
        view=view,
        task=options,
        done=share_done(view.progress or {}),
        tries=tries,
        temporal=client.temporal_link(run.workflow_id),
    )


async def _applications(client: CachedClient, dag_id: str, run_id: str, view: TaskView) -> list[SparkTry] | None:
    """What the applications of its tries came to; None where that cannot be read now."""
    run = await client.run(dag_id, run_id)
    runs, details_of = partial(client.runs, dag_id), partial(client.details, dag_id)
    query = spark_tries(client.settings, dag_id, run, view, runs, details_of, in_time)
    try:
        return await asyncio.wait_for(query, READ_TIMEOUT)
    except Exception:  # whatever a store's client raises: the page is shown without them
        log.warning("the figures of %s in %s cannot be read", view.key, run_id, exc_info=True)
        return None


@router.get("/tidemill/dags/{dag_id}/runs/{run_id}/timeline")
async def show_timeline(client: Source, dag_id: str, run_id: str) -> str:
    """When each try waited and worked, and where."""
    run = await client.run(dag_id, run_id)
    details, starts = await client.details(dag_id, run), await client.starts(dag_id, run)
    line = Timeline(None, None, []) if details is None else timeline(details, starts or (), datetime.now(UTC))
    return await asyncio.to_thread(  # there may be thousands of tries
        rendered,
        "timeline.html",
        title=f"Tries of {dag_id} in {run_id}",
        line=line,
        forgotten=starts is None,
        temporal=client.temporal_link(run.workflow_id) if starts is not None else None,
    )


@router.get("/tidemill/dags/{dag_id}/replay")
async def replay_dag(client: Source, dag_id: str) -> str:
    """The decisions of the DAG, step by step."""
    return await _replay(client, dag_workflow_id(dag_id), f"Decisions of {dag_id}")


@router.get("/tidemill/dags/{dag_id}/runs/{run_id}/replay")
async def replay_run(client: Source, dag_id: str, run_id: str) -> str:
    """The decisions of a run, step by step."""
    run = await client.run(dag_id, run_id)
    return await _replay(client, run.workflow_id, f"Decisions of {dag_id} in {run_id}")


async def _replay(client: CachedClient, workflow_id: str, title: str) -> str:
    try:
        found = await client.replays.of(client.tidemill.client, workflow_id)
        steps, problem = found[-STEPS_SHOWN:], None
    except (NotFoundError, InvalidInputError) as error:
        steps, problem = [], str(error)
    temporal = client.temporal_link(workflow_id)
    return await asyncio.to_thread(
        rendered, "replay.html", title=title, steps=steps, problem=problem, most=STEPS_SHOWN, temporal=temporal
    )


@router.get("/tidemill/pools")
async def pools(client: Source) -> str:
    """Who holds slots of pools, and who waits for some."""
    return rendered("pools.html", title="Pools", pools=await client.tidemill.pools.list())


@router.get("/tidemill/bundles")
async def bundles(client: Source) -> str:
    """Folders and repositories of DAG files."""
    return rendered("bundles.html", title="Bundles of DAG files", bundles=await client.tidemill.bundles.list())
