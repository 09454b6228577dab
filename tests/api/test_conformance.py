"""Every operation that is served is one of Airflow's: its path, its parameters, and what it answers."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from airflow_wheel import definitions
from fastapi import FastAPI
from jsonschema import Draft202012Validator
from operations import METHODS, operations, template_of
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from tidemill.api.app import make_app
from tidemill.api.responses.tasks import shown_state
from tidemill.api.routes.not_offered import FORBIDDEN, NOT_OFFERED
from tidemill.model.states import TaskState
from tidemill.worker.settings.reading import Settings
from web_stack import Web, nowhere


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return make_app(nowhere(), Settings())


def airflows(path: str) -> dict[str, Any]:
    public, private = definitions()
    found: dict[str, Any] = {**public["paths"], **private["paths"]}.get(path, {})
    return found


def test_every_operation_is_one_of_airflows(app: FastAPI) -> None:
    strange = [f"{method} {path}" for method, path, _ in operations(app) if method not in airflows(path)]
    assert strange == []
    assert len(operations(app)) > 70


def test_every_parameter_is_one_of_airflows(app: FastAPI) -> None:
    strange = []
    for method, path, ours in operations(app):
        theirs = {(p["name"], p["in"]) for p in airflows(path)[method].get("parameters", [])}
        mine = {(p["name"], p["in"]) for p in ours.get("parameters", [])}
        strange += [f"{method} {path}: {name}" for name in sorted(mine - theirs)]
    assert strange == []


def test_each_of_airflows_operations_is_served_or_refused_with_a_reason(app: FastAPI) -> None:
    served = {(method, path) for method, path, _ in operations(app)}
    assert {(method.lower(), path) for method, path in NOT_OFFERED} <= served
    public, private = definitions()
    logging_in = {"/api/v2/auth/login", "/api/v2/auth/logout"}  # pages, and no operations
    known = {(method, path) for one in (public, private) for path, item in one["paths"].items() for method in item}
    missing = {(method, path) for method, path in known - served if method in METHODS and path not in logging_in}
    assert missing == set()


@pytest.mark.parametrize("state", TaskState)
def test_every_state_of_a_task_has_a_name_in_airflow(state: TaskState) -> None:
    public, _ = definitions()
    assert shown_state(state) in [None, *public["components"]["schemas"]["TaskInstanceState"]["enum"]]


def validator(schema: dict[str, Any], document: dict[str, Any]) -> Draft202012Validator:
    resource = Resource.from_contents(document, default_specification=DRAFT202012)
    registry: Registry[Any] = Registry().with_resource("urn:airflow", resource)
    return Draft202012Validator(at_airflow(schema), registry=registry)


def at_airflow(part: Any) -> Any:
    """*part* of a schema, with its references to where Airflow's are."""
    if isinstance(part, dict):
        return {key: f"urn:airflow{value}" if key == "$ref" else at_airflow(value) for key, value in part.items()}
    return [at_airflow(value) for value in part] if isinstance(part, list) else part


def paths_of(web: Web) -> list[str]:
    """An example of every operation that reads."""
    run = quote(web.failed_run, safe="")
    d, r = "/api/v2/dags/web_daily", f"/api/v2/dags/web_daily/dagRuns/{run}"
    t = f"{r}/taskInstances/fails"
    asset = web.get("/api/v2/assets").json()["assets"][0]["id"]
    return [
        "/ui/config", "/ui/auth/menus", "/ui/auth/me", "/api/v2/plugins", "/api/v2/plugins/importErrors",
        "/api/v2/version", "/api/v2/monitor/health", "/ui/dashboard/dag_stats",
        "/ui/dashboard/historical_metrics_data?start_date=2020-01-01T00:00:00Z", "/api/v2/dagStats",
        "/ui/dags", "/api/v2/dags", d, f"{d}/details", f"{d}/tasks", f"{d}/tasks/make", "/api/v2/dagTags",
        "/api/v2/dagWarnings", "/api/v2/importErrors", "/api/v2/dagSources/web_daily", f"{d}/dagVersions",
        "/ui/dags/web_daily/latest_run", "/ui/grid/structure/web_daily", "/ui/grid/runs/web_daily",
        "/ui/structure/structure_data?dag_id=web_daily", f"/ui/gantt/web_daily/{run}", "/ui/calendar/web_daily",
        f"{d}/dagRuns", f"{d}/dagRuns?cursor=&limit=2", "/api/v2/dags/~/dagRuns", r, f"{r}/taskInstances",
        "/api/v2/dags/~/dagRuns/~/taskInstances", f"{d}/dagRuns/~/taskInstances?state=failed", t, f"{t}/-1",
        f"{r}/taskInstances/each/1", f"{r}/taskInstances/each/listMapped", f"{t}/-1/tries", f"{t}/-1/tries/1",
        f"{t}/tries/1", f"{t}/dependencies", f"{t}/-1/dependencies", f"{t}/links", f"{t}/logs/1",
        f"{r}/taskInstances/make/xcomEntries", f"{r}/taskInstances/make/xcomEntries/return_value",
        f"/ui/dags/web_daily/dagRuns/{run}/stats", f"/ui/dags/web_daily/dagRuns/{run}/deadlines",
        "/ui/dags/web_daily/deadlineAlerts", "/api/v2/pools", "/api/v2/pools/web_pool",
        "/ui/backfills?dag_id=web_daily", "/api/v2/backfills?dag_id=web_daily", "/api/v2/eventLogs",
        "/api/v2/eventLogs?dag_id=web_daily", "/api/v2/assets", f"/api/v2/assets/{asset}", "/api/v2/assets/events",
        "/ui/dependencies", "/ui/next_run_assets/web_after", f"{d}/assets/queuedEvents",
        "/api/v2/dags/web_hand/dagRuns/asks/hitlDetails", "/api/v2/dags/~/dagRuns/~/hitlDetails",
        "/api/v2/dags/web_hand/dagRuns/asks/taskInstances/ask/-1/hitlDetails", "/api/v2/variables",
        "/api/v2/variables/web_region", f"{r}/upstreamAssetEvents", "/api/v2/connections", "/api/v2/connections/web_db",
        "/ui/connections/hook_meta", "/api/v2/providers", "/api/v2/jobs", f"/api/v2/assets/{asset}/queuedEvents",
        f"/api/v2/assets/{asset}/state-store", f"{r}/taskInstances/make/state-store",
    ]  # fmt: skip


def test_what_is_answered_has_airflows_shape(web: Web, app: FastAPI) -> None:
    """Each answer is validated by the schema that Airflow publishes for it."""
    public, private = definitions()
    wrong, seen = [], set()
    for path in paths_of(web):
        answer = web.get(path)
        template = template_of(path, app)
        seen.add(template)
        if answer.status_code != 200:
            wrong.append(f"{path}: {answer.status_code} {answer.text[:200]}")
            continue
        document = public if template in public["paths"] else private
        content = document["paths"][template]["get"]["responses"]["200"]["content"]
        schema = content["application/json"]["schema"]
        errors = [*validator(schema, document).iter_errors(answer.json())]
        wrong += [f"{path}: {'/'.join(map(str, error.absolute_path))}: {error.message[:160]}" for error in errors[:3]]
    assert wrong == []
    unread = {"/ui/grid/ti_summaries/{dag_id}"}  # lines, and not JSON: by itself below
    reading = {path for method, path, _ in operations(app) if method == "get"} - unread
    not_offered = {path for method, path in (*NOT_OFFERED, *FORBIDDEN) if method == "GET"}
    rest = {path for path in reading - not_offered - seen if "{" not in path}
    assert rest == set(), "no example of these is held against Airflow's schema"


def test_the_cells_of_the_grid_are_lines(web: Web) -> None:
    _, private = definitions()
    answer = web.get(f"/ui/grid/ti_summaries/web_daily?run_ids={quote(web.failed_run, safe='')}&run_ids=none")
    [line] = answer.text.splitlines()
    schema = {"$ref": "#/components/schemas/GridTISummaries"}
    if "GridTISummaries" in private["components"]["schemas"]:
        validator(schema, private).validate(json.loads(line))
    cells = {cell["task_id"]: cell for cell in json.loads(line)["task_instances"]}
    assert {name: cell["state"] for name, cell in cells.items()} == {
        "make": "success", "each": "success", "group": "success", "group.say": "success", "fails": "failed",
    }  # fmt: skip
    assert (cells["each"]["child_states"], cells["make"]["child_states"]) == ({"success": 3}, None)
    assert cells["group"]["child_states"] == {"success": 1}
