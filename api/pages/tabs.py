"""What Airflow's user interface has no page for: why something waits, what comes next, who holds what."""

import re
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from ...model.run.instance_keys import UNMAPPED, split_key
from ..dependencies import Here
from ..read.instances import instances_of, one_instance
from .render import rendered

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
UPCOMING = 10


def external_views() -> list[dict[str, Any]]:
    """The tabs, as the user interface's plugins name them."""
    task = "tidemill/dags/{DAG_ID}/runs/{RUN_ID}/tasks/{TASK_ID}/why?map_index={MAP_INDEX}"
    return [
        _view("Explain", "dag", "explain", "tidemill/dags/{DAG_ID}/explain"),
        _view("Schedule", "dag", "schedule", "tidemill/dags/{DAG_ID}/schedule"),
        _view("Why", "task_instance", "why", task),
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
async def explain(source: Here, dag_id: str) -> str:
    """Why the DAG does what it does, or nothing."""
    found = await source.tidemill.explain(dag_id)
    return rendered("explain.html", title=f"Why {dag_id} does what it does", found=found)


@router.get("/tidemill/dags/{dag_id}/schedule")
async def schedule(source: Here, dag_id: str) -> str:
    """The next runs of the DAG."""
    view, infos = await source.view(dag_id), await source.tidemill.upcoming(dag_id, UPCOMING)
    return rendered("schedule.html", title=f"What comes next in {dag_id}", note=view.next_dagrun_note, infos=infos)


@router.get("/tidemill/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/why")
async def why(source: Here, dag_id: str, run_id: str, task_id: str, map_index: str = "") -> str:
    """Why a task has its state, and what became of its tries. The index is filled in for mapped tasks only."""
    index = int(map_index) if re.fullmatch(r"\d{1,6}", map_index) else UNMAPPED
    _, _, view = await one_instance(source, dag_id, run_id, task_id, index)
    _, _, views = await instances_of(source, dag_id, run_id)
    upstream = [other for other in views if split_key(other.key)[0] in view.upstream]
    return rendered("why.html", title=f"{dag_id}.{view.key} in {run_id}", view=view, upstream=upstream)


@router.get("/tidemill/pools")
async def pools(source: Here) -> str:
    """Who holds slots of pools, and who waits for some."""
    return rendered("pools.html", title="Pools", pools=await source.tidemill.pools())


@router.get("/tidemill/bundles")
async def bundles(source: Here) -> str:
    """Folders and repositories of DAG files."""
    return rendered("bundles.html", title="Bundles of DAG files", bundles=await source.tidemill.bundles())
