"""What is asked of a real Airflow and of tidemill: the same requests, in the same order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

V2 = "/api/v2"
RUN = "{sales_run}"
SALES = f"{V2}/dags/sales"
SALES_RUN = f"{SALES}/dagRuns/scheduled__2025-01-01T03:00:00+00:00"
FAILS = f"{V2}/dags/fails"


@dataclass(frozen=True)
class Step:
    """A request, and what is looked for in its answer."""

    method: str
    path: str
    body: Any = None
    operation: str = ""
    """The operation of Airflow's that this is one of; by default the path that was asked for."""
    until: Callable[[Any], Any] | None = None
    """Asked again until this is so of the answer, and not compared: what has to be there before the next step."""
    saves: dict[str, Callable[[Any], Any]] | None = None
    """What later paths name in braces."""


def get(path: str, **more: Any) -> Step:
    return Step("GET", path, **more)


def wait(path: str, until: Callable[[Any], Any]) -> Step:
    return Step("GET", path, until=until)


def ended(dag_id: str, run_id: str) -> Step:
    return wait(f"{V2}/dags/{dag_id}/dagRuns/{run_id}", lambda run: run.get("state") in ("success", "failed"))


def trigger(dag_id: str, run_id: str, **body: Any) -> Step:
    return Step("POST", f"{V2}/dags/{dag_id}/dagRuns", {"dag_run_id": run_id, "logical_date": None, **body})


def named(name: str, of: str) -> Callable[[Any], Any]:
    return lambda answer: next(one["id"] for one in answer[of] if one["name"] == name)


def state_is(*states: Any) -> Callable[[Any], Any]:
    return lambda answer: answer.get("state") in states


def many(of: str, n: int) -> Callable[[Any], Any]:
    return lambda answer: len(answer.get(of, ())) >= n


CONSUMED = f"{V2}/dags/consumer/dagRuns"
RUNS = ("a", "b", "c", "d")

READY = [
    wait(f"{V2}/dags?limit=100", many("dags", 9)),
    wait(f"{V2}/importErrors", many("import_errors", 1)),
    wait(f"{SALES}/dagRuns", lambda a: [r["state"] for r in a.get("dag_runs", ())] == ["success", "success"]),
    wait(CONSUMED, lambda a: [r["state"] for r in a.get("dag_runs", ())].count("success") >= 1),
    get(f"{V2}/assets", saves={"report": named("report", "assets"), "other": named("other", "assets")}),
]

DAGS = [
    get(f"{V2}/dags?order_by=dag_id"),
    get(f"{V2}/dags?tags=sales"),
    get(f"{V2}/dags?owners=bob"),
    get(f"{V2}/dags?paused=true"),
    get(f"{V2}/dags?dag_id_pattern=sal"),
    get(f"{V2}/dags?limit=2&offset=1&order_by=dag_id"),
    get(f"{V2}/dags?last_dag_run_state=failed"),
    get(f"{V2}/dags?order_by=nothing"),
    get(f"{V2}/dags?limit=-1"),
    get(SALES),
    get(f"{SALES}/details"),
    get(f"{V2}/dags/none"),
    get(f"{V2}/dags/none/details"),
    get(f"{SALES}/tasks"),
    get(f"{SALES}/tasks?order_by=task_id"),
    get(f"{SALES}/tasks/transform.square"),
    get(f"{SALES}/tasks/none"),
    get(f"{V2}/dags/guarded/tasks"),
    get(f"{V2}/dags/branches/tasks"),
    get(f"{V2}/dagTags"),
    get(f"{V2}/dagWarnings"),
    get(f"{V2}/importErrors"),
    get(f"{V2}/dagStats?dag_ids=sales"),
    get(f"{V2}/dagSources/sales"),
    get(f"{SALES}/dagVersions"),
    get(f"{SALES}/dagVersions/1"),
    get(f"{SALES}/dagVersions/99"),
    Step("PATCH", f"{V2}/dags/never", {"is_paused": False}),
    Step("PATCH", f"{V2}/dags/never", {"is_paused": True}),
    Step("PATCH", f"{V2}/dags/none", {"is_paused": True}),
    Step("PATCH", f"{V2}/dags/never", {"is_paused": "maybe"}),
    Step("PATCH", f"{V2}/dags?dag_id_pattern=never", {"is_paused": True}),
    Step("POST", f"{SALES}/favorite"),
    get(f"{V2}/dags?is_favorite=true"),
    Step("POST", f"{SALES}/unfavorite"),
    get(f"{V2}/monitor/health"),
    get(f"{V2}/version"),
    get(f"{V2}/plugins"),
    get(f"{V2}/config"),
    get(f"{V2}/providers"),
    get(f"{V2}/jobs"),
    get(f"{V2}/none"),
]

DAG_RUNS = [
    get(f"{SALES}/dagRuns?order_by=run_after"),
    get(f"{SALES}/dagRuns?state=failed"),
    get(f"{SALES}/dagRuns?state=faild"),
    get(f"{SALES}/dagRuns?logical_date_gte=2025-01-02T00:00:00Z"),
    get(f"{SALES}/dagRuns?run_type=scheduled&limit=1&order_by=-run_after"),
    get(f"{SALES}/dagRuns?order_by=nothing"),
    get(f"{V2}/dags/none/dagRuns"),
    get(SALES_RUN),
    get(f"{SALES}/dagRuns/none"),
    get(f"{SALES_RUN}/upstreamAssetEvents"),
    get(f"{SALES_RUN}/wait?interval=1&result=extract"),
    Step("POST", f"{V2}/dags/~/dagRuns/list", {"dag_ids": ["sales"], "order_by": "run_after"}),
    Step("POST", f"{V2}/dags/~/dagRuns/list", {"dag_ids": ["sales"], "states": ["failed"]}),
    trigger("sales", "by_hand", conf={"limit": 20}, note="look"),
    trigger("sales", "by_hand"),
    trigger("sales", "wrong", conf={"limit": 1000}),
    trigger("sales", "scheduled__mine"),
    trigger("none", "a"),
    Step("POST", f"{SALES}/dagRuns", {"dag_run_id": "dated", "logical_date": "2025-01-01T03:00:00Z"}),
    Step("POST", f"{SALES}/dagRuns", {"dag_run_id": "x", "nothing": 1, "logical_date": None}),
    ended("sales", "by_hand"),
    get(f"{SALES}/dagRuns/by_hand"),
    Step("PATCH", f"{SALES}/dagRuns/by_hand", {"note": "seen"}),
    Step("PATCH", f"{SALES}/dagRuns/by_hand", {"state": "running"}),
    Step("PATCH", f"{SALES}/dagRuns/none", {"note": "seen"}),
    *(step for run in RUNS for step in (trigger("fails", run), ended("fails", run))),
    get(f"{FAILS}/dagRuns?state=failed&order_by=run_id"),
    get(f"{FAILS}/dagRuns/a"),
    get(f"{V2}/dags/~/dagRuns?state=failed&order_by=run_id"),
    Step("PATCH", f"{FAILS}/dagRuns/d", {"state": "success"}),
    get(f"{FAILS}/dagRuns/d"),
    get(f"{FAILS}/dagRuns/d/taskInstances"),
    Step("DELETE", f"{FAILS}/dagRuns/d"),
    Step("DELETE", f"{FAILS}/dagRuns/none"),
    get(f"{FAILS}/dagRuns/d"),
]

TASKS = [
    get(f"{SALES_RUN}/taskInstances"),
    get(f"{SALES_RUN}/taskInstances/extract"),
    get(f"{SALES_RUN}/taskInstances/load"),
    get(f"{SALES_RUN}/taskInstances/transform.square"),
    get(f"{SALES_RUN}/taskInstances/transform.square/1"),
    get(f"{SALES_RUN}/taskInstances/transform.square/listMapped"),
    get(f"{SALES_RUN}/taskInstances/transform.square/7"),
    get(f"{SALES_RUN}/taskInstances/extract/listMapped"),
    get(f"{SALES_RUN}/taskInstances/none"),
    get(f"{SALES_RUN}/taskInstances?state=faild"),
    get(f"{SALES_RUN}/taskInstances?state=success&limit=1&order_by=map_index"),
    get(f"{V2}/dags/~/dagRuns/~/taskInstances?state=failed"),
    Step(
        "POST",
        f"{V2}/dags/~/dagRuns/~/taskInstances/list",
        {"dag_ids": ["sales"], "state": ["success"], "task_ids": ["load"]},
    ),
    get(f"{FAILS}/dagRuns/a/taskInstances"),
    get(f"{FAILS}/dagRuns/a/taskInstances/bad/tries"),
    get(f"{FAILS}/dagRuns/a/taskInstances/bad/tries/1"),
    get(f"{FAILS}/dagRuns/a/taskInstances/bad/tries/9"),
    get(f"{FAILS}/dagRuns/a/taskInstances/after"),
    get(f"{FAILS}/dagRuns/a/taskInstances/after/dependencies"),
    get(f"{SALES_RUN}/taskInstances/load/logs/1"),
    get(f"{SALES_RUN}/taskInstances/load/logs/9"),
    get(f"{SALES_RUN}/taskInstances/load/links"),
    get(f"{SALES_RUN}/taskInstances/load/externalLogUrl/1"),
    get(f"{SALES_RUN}/taskInstances/extract/xcomEntries"),
    get(f"{SALES_RUN}/taskInstances/extract/xcomEntries/return_value"),
    get(f"{SALES_RUN}/taskInstances/extract/xcomEntries/none"),
    get(f"{SALES_RUN}/taskInstances/transform.square/xcomEntries/return_value?map_index=2"),
    trigger("branches", "a"),
    ended("branches", "a"),
    get(f"{V2}/dags/branches/dagRuns/a/taskInstances"),
    trigger("guarded", "a"),
    ended("guarded", "a"),
    get(f"{V2}/dags/guarded/dagRuns/a/taskInstances"),
]

REPAIR = [
    Step("POST", f"{FAILS}/clearTaskInstances", {"dag_run_id": "a", "task_ids": ["bad"], "include_downstream": True}),
    Step("POST", f"{FAILS}/clearTaskInstances", {"dag_run_id": "a", "only_failed": True, "dry_run": True}),
    Step("POST", f"{FAILS}/clearTaskInstances", {"dag_run_id": "a", "task_ids": ["none"]}),
    Step("POST", f"{FAILS}/clearTaskInstances", {"dag_run_id": "none", "task_ids": ["bad"]}),
    Step("POST", f"{FAILS}/clearTaskInstances", {"dag_run_id": "a", "only_failed": True, "dry_run": False}),
    ended("fails", "a"),
    get(f"{FAILS}/dagRuns/a"),
    get(f"{FAILS}/dagRuns/a/taskInstances/bad/tries"),
    Step("PATCH", f"{FAILS}/dagRuns/b/taskInstances/bad", {"new_state": "success"}),
    Step("PATCH", f"{FAILS}/dagRuns/b/taskInstances/bad", {"new_state": "success"}),
    ended("fails", "b"),
    get(f"{FAILS}/dagRuns/b/taskInstances"),
    Step("PATCH", f"{FAILS}/dagRuns/b/taskInstances/none", {"new_state": "success"}),
    Step("PATCH", f"{FAILS}/dagRuns/b/taskInstances/bad", {"new_state": "wrong"}),
    Step("PATCH", f"{FAILS}/dagRuns/c/taskInstances/bad/dry_run", {"new_state": "success"}),
    Step("PATCH", f"{FAILS}/dagRuns/c/taskInstances/bad", {"note": "known"}),
    Step("POST", f"{FAILS}/dagRuns/c/clear", {"dry_run": True}),
    Step("POST", f"{FAILS}/dagRuns/c/clear", {"dry_run": False}),
    ended("fails", "c"),
    Step("PATCH", f"{FAILS}/dagRuns/c", {"state": "queued"}),
    ended("fails", "c"),
    get(f"{V2}/dags?last_dag_run_state=failed"),
]

ASSETS = [
    get(f"{V2}/assets?order_by=id"),
    get(f"{V2}/assets/{{report}}"),
    get(f"{V2}/assets/999999"),
    get(f"{V2}/assets?name_pattern=rep"),
    get(f"{V2}/assets/events?asset_id={{report}}&order_by=timestamp"),
    get(f"{CONSUMED}?order_by=run_after&limit=1"),
    Step("POST", f"{V2}/assets/events", {"asset_id": "{other}", "extra": {"by": "hand"}}),
    wait(f"{V2}/dags/both/dagRuns", lambda a: [r["state"] for r in a.get("dag_runs", ())][-1:] == ["success"]),
    Step("POST", f"{V2}/assets/events", {"asset_id": "{other}"}),
    wait(f"{V2}/dags/both/assets/queuedEvents", many("queued_events", 1)),
    get(f"{V2}/dags/both/assets/queuedEvents"),
    get(f"{V2}/dags/both/assets/{{other}}/queuedEvents"),
    get(f"{V2}/assets/{{other}}/queuedEvents"),
    Step("DELETE", f"{V2}/dags/both/assets/queuedEvents"),
    get(f"{V2}/dags/both/assets/queuedEvents"),
    Step("POST", f"{V2}/assets/events", {"asset_id": 999999}),
    get(f"{V2}/assets/aliases"),
    Step("POST", f"{V2}/assets/{{report}}/materialize", {"conf": {"limit": 5}, "dag_run_id": "made"}),
    ended("sales", "made"),
    Step("POST", f"{V2}/assets/{{other}}/materialize"),
    Step("POST", f"{V2}/assets/{{report}}/materialize", {"nothing": 1}),
]

BACKFILL = {
    "dag_id": "sales",
    "from_date": "2025-01-01T00:00:00Z",
    "to_date": "2025-01-02T23:00:00Z",
    "max_active_runs": 1,
}
BACKFILLS = [
    Step("POST", f"{V2}/backfills/dry_run", BACKFILL),
    Step("POST", f"{V2}/backfills/dry_run", {**BACKFILL, "reprocess_behavior": "completed"}),
    Step("POST", f"{V2}/backfills", {**BACKFILL, "dag_run_conf": {"limit": 1000}}),
    Step("POST", f"{V2}/backfills", {**BACKFILL, "dag_id": "none"}),
    Step("POST", f"{V2}/backfills", {**BACKFILL, "dag_id": "fails"}),
    Step(
        "POST",
        f"{V2}/backfills",
        {**BACKFILL, "reprocess_behavior": "completed", "dag_run_conf": {"limit": 7}},
        saves={"backfill": lambda a: a["id"]},
    ),
    wait(f"{V2}/backfills/{{backfill}}", lambda answer: answer.get("completed_at")),
    get(f"{V2}/backfills/{{backfill}}"),
    get(f"{V2}/backfills?dag_id=sales"),
    get(f"{SALES_RUN}"),
    Step("PUT", f"{V2}/backfills/{{backfill}}/cancel"),
    Step("PUT", f"{V2}/backfills/{{backfill}}/pause"),
    Step("PUT", f"{V2}/backfills/{{backfill}}/unpause"),
    get(f"{V2}/backfills/999999"),
]

PEOPLE = [
    trigger("approved", "a"),
    wait(f"{V2}/dags/approved/dagRuns/a/hitlDetails", many("hitl_details", 1)),
    get(f"{V2}/dags/approved/dagRuns/a/hitlDetails"),
    get(f"{V2}/dags/approved/dagRuns/a/taskInstances/ask/-1/hitlDetails"),
    get(f"{V2}/dags/approved/dagRuns/a/taskInstances/ask"),
    get(f"{V2}/dags/approved/dagRuns/a/taskInstances/end"),
    Step(
        "PATCH",
        f"{V2}/dags/approved/dagRuns/a/taskInstances/ask/-1/hitlDetails",
        {"chosen_options": ["Perhaps"], "params_input": {}},
    ),
    Step(
        "PATCH",
        f"{V2}/dags/approved/dagRuns/a/taskInstances/ask/-1/hitlDetails",
        {"chosen_options": ["Approve"], "params_input": {}},
    ),
    ended("approved", "a"),
    Step(
        "PATCH",
        f"{V2}/dags/approved/dagRuns/a/taskInstances/ask/-1/hitlDetails",
        {"chosen_options": ["Reject"], "params_input": {}},
    ),
    get(f"{V2}/dags/approved/dagRuns/a/taskInstances/ask/-1/hitlDetails"),
    get(f"{V2}/dags/~/dagRuns/~/hitlDetails"),
    get(f"{V2}/dags/approved/dagRuns/a/taskInstances/ask/xcomEntries/return_value"),
    get(f"{V2}/dags/approved/dagRuns/a/taskInstances/end/-1/hitlDetails"),
]

KEPT = [
    get(f"{V2}/pools"),
    get(f"{V2}/pools/default_pool"),
    get(f"{V2}/pools/none"),
    Step("POST", f"{V2}/pools", {"name": "few", "slots": 2, "description": "Not many", "include_deferred": False}),
    Step("POST", f"{V2}/pools", {"name": "few", "slots": 2}),
    get(f"{V2}/pools/few"),
    Step("POST", f"{V2}/pools", {"name": "x", "slots": -2}),
    Step("PATCH", f"{V2}/pools/few?update_mask=slots", {"name": "few", "slots": 3, "include_deferred": True}),
    Step("DELETE", f"{V2}/pools/few"),
    Step("DELETE", f"{V2}/pools/few"),
    Step("DELETE", f"{V2}/pools/default_pool"),
    Step("POST", f"{V2}/variables", {"key": "region", "value": "eu", "description": "Where"}),
    Step("POST", f"{V2}/variables", {"key": "region", "value": "us"}),
    get(f"{V2}/variables/region"),
    get(f"{V2}/variables"),
    get(f"{V2}/variables/none"),
    Step("PATCH", f"{V2}/variables/region", {"key": "region", "value": "us"}),
    Step("DELETE", f"{V2}/variables/region"),
    Step("DELETE", f"{V2}/variables/region"),
    Step(
        "POST",
        f"{V2}/connections",
        {
            "connection_id": "lake",
            "conn_type": "aws",
            "login": "ann",
            "password": "hush",
            "extra": '{"region_name": "eu"}',
        },
    ),
    Step("POST", f"{V2}/connections", {"connection_id": "lake", "conn_type": "aws"}),
    get(f"{V2}/connections/lake"),
    get(f"{V2}/connections/none"),
    Step(
        "PATCH",
        f"{V2}/connections/lake?update_mask=login",
        {"connection_id": "lake", "conn_type": "aws", "login": "bob"},
    ),
    Step("DELETE", f"{V2}/connections/lake"),
    Step("DELETE", f"{V2}/connections/lake"),
    Step("POST", f"{V2}/connections/test", {"connection_id": "lake", "conn_type": "aws"}),
    get(f"{V2}/eventLogs?dag_id=never&order_by=when"),
    get(f"{V2}/eventLogs/999999"),
]

WEB = [
    get("/ui/config"),
    get("/ui/auth/menus"),
    get("/ui/dags?dag_ids=sales"),
    get("/ui/dags/sales/latest_run"),
    get("/ui/grid/structure/sales"),
    get("/ui/grid/runs/sales?order_by=run_after&limit=1"),
    get("/ui/structure/structure_data?dag_id=sales"),
    get("/ui/structure/structure_data?dag_id=sales&external_dependencies=true"),
    get("/ui/structure/structure_data?dag_id=guarded"),
    get("/ui/gantt/fails/b"),
    get("/ui/calendar/sales?logical_date_lte=2025-01-02T23:00:00Z"),
    get("/ui/next_run_assets/both"),
    get("/ui/dependencies?node_id=dag:consumer"),
    get("/ui/backfills?dag_id=sales"),
    get("/ui/dags/sales/deadlineAlerts"),
    get("/ui/dashboard/dag_stats"),
    get("/ui/teams"),
]

ABOUT_A_DAY = f"{V2}/dags/intervals/dagRuns"
QUEUED = f"{SALES}/dagRuns/later"
LISTS = [
    wait(ABOUT_A_DAY, lambda a: [r["state"] for r in a.get("dag_runs", ())] == ["success", "success"]),
    get(f"{ABOUT_A_DAY}?order_by=run_after"),
    get(f"{V2}/dags/intervals"),
    get(f"{V2}/dags?owners=bob&order_by=dag_id"),
    trigger("sales", "later", run_after="2099-01-01T00:00:00Z", conf={"limit": 5}),
    get(QUEUED),
    get(f"{SALES}/dagRuns?state=queued"),
    get(f"{QUEUED}/taskInstances"),
    get(f"{QUEUED}/taskInstances/extract"),
    get("/ui/grid/ti_summaries/sales?run_ids=later"),
    Step("DELETE", QUEUED),
    get(QUEUED),
    get(f"{V2}/importErrors", saves={"broken": lambda a: a["import_errors"][0]["import_error_id"]}),
    get(f"{V2}/importErrors/{{broken}}"),
    get(f"{V2}/importErrors/999999"),
    get(SALES, saves={"token": lambda a: a["file_token"]}),
    Step("PUT", f"{V2}/parseDagFile/{{token}}"),
    Step("PUT", f"{V2}/parseDagFile/nonsense"),
    get(f"{V2}/plugins/importErrors"),
    get(f"{V2}/config/section/core/option/parallelism"),
    get(f"{V2}/connections"),
]

SQUARE = f"{SALES_RUN}/taskInstances/transform.square"
MAPPED = [
    get(f"{SQUARE}/1/tries"),
    get(f"{SQUARE}/1/tries/1"),
    get(f"{SQUARE}/1/tries/9"),
    get(f"{SQUARE}/1/dependencies"),
    get(f"{SQUARE}/9/dependencies"),
    Step("PATCH", f"{SQUARE}/1/dry_run", {"new_state": "failed"}),
    Step("PATCH", f"{SQUARE}/1", {"note": "the second"}),
    Step("PATCH", f"{SQUARE}/9", {"note": "none"}),
    Step("PATCH", f"{SALES_RUN}/taskGroupInstances/transform/dry_run", {"new_state": "failed"}),
    Step("PATCH", f"{SALES_RUN}/taskGroupInstances/transform", {"new_state": "failed"}),
    Step("PATCH", f"{SALES_RUN}/taskGroupInstances/none", {"new_state": "failed"}),
    ended("sales", "scheduled__2025-01-01T03:00:00+00:00"),
    get(f"{SALES_RUN}/taskInstances?order_by=map_index"),
    get(f"{V2}/dags/approved/dagRuns/a/taskInstances/ask/-1/hitlDetails/tries/1"),
    get(f"{V2}/dags/approved/dagRuns/a/taskInstances/ask/-1/hitlDetails/tries/9"),
]


def bulk(action: str, *entities: Any, **more: Any) -> dict[str, Any]:
    return {"actions": [{"action": action, "entities": [*entities], **more}]}


POOL = {"name": "many", "slots": 9}
BULK = [
    Step("PATCH", f"{V2}/pools", bulk("create", POOL, action_on_existence="fail")),
    Step("PATCH", f"{V2}/pools", bulk("create", POOL, action_on_existence="fail")),
    Step("PATCH", f"{V2}/pools", bulk("delete", "many", action_on_non_existence="fail")),
    Step("PATCH", f"{V2}/variables", bulk("create", {"key": "k", "value": "v"}, action_on_existence="fail")),
    Step("PATCH", f"{V2}/variables", bulk("delete", "k", "none", action_on_non_existence="skip")),
    Step("PATCH", f"{V2}/connections", bulk("create", {"connection_id": "c", "conn_type": "http"})),
    Step("PATCH", f"{V2}/connections", bulk("delete", "c", action_on_non_existence="fail")),
    Step("PATCH", f"{FAILS}/dagRuns", bulk("update", {"dag_run_id": "a", "note": "many"})),
    Step("PATCH", f"{FAILS}/dagRuns", bulk("update", {"dag_run_id": "none", "note": "many"})),
    Step("PATCH", f"{FAILS}/dagRuns/a/taskInstances", bulk("update", {"task_id": "bad", "note": "many"})),
    Step("POST", f"{FAILS}/clearDagRuns", {"dag_runs": [{"dag_run_id": "a"}], "dry_run": True}),
    Step("POST", f"{FAILS}/clearDagRuns", {"dag_runs": [{"dag_run_id": "none"}], "dry_run": True}),
]

OF_TASK = f"{FAILS}/dagRuns/a/taskInstances/bad/state-store"
OF_ASSET = f"{V2}/assets/{{report}}/state-store"
STORES = [
    step
    for place in (OF_TASK, OF_ASSET)
    for step in (
        get(place),
        Step("PUT", f"{place}/cursor", {"value": {"n": 1}}),
        Step("PUT", f"{place}/cursor", {"value": None}),
        get(f"{place}/cursor"),
        get(place),
        get(f"{place}/none"),
        Step("DELETE", f"{place}/cursor"),
        get(f"{place}/cursor"),
        Step("PUT", f"{place}/other", {"value": "x"}),
        Step("DELETE", place),
        get(place),
    )
] + [
    Step("PUT", f"{OF_TASK}/cursor", {"value": 1}),
    Step("PATCH", f"{OF_TASK}/cursor", {"value": 2}),
    Step("PATCH", f"{OF_TASK}/none", {"value": 2}),
    Step("POST", f"{V2}/assets/events", {"asset_id": "{other}"}),  # the report is there already
    wait(f"{V2}/dags/both/dagRuns", lambda a: [r["state"] for r in a.get("dag_runs", ())] == ["success", "success"]),
    Step("POST", f"{V2}/assets/events", {"asset_id": "{other}"}),
    wait(f"{V2}/dags/both/assets/queuedEvents", many("queued_events", 1)),
    Step("DELETE", f"{V2}/dags/both/assets/{{other}}/queuedEvents"),
    Step("DELETE", f"{V2}/assets/{{other}}/queuedEvents"),
]

PAGES = [
    get("/ui/auth/me"),
    get("/ui/connections/hook_meta"),
    get("/ui/grid/ti_summaries/fails?run_ids=b"),
    get("/ui/dags/fails/dagRuns/b/stats"),
    get("/ui/dags/fails/dagRuns/b/deadlines"),
    get("/ui/dashboard/historical_metrics_data?start_date=2025-01-01T00:00:00Z&end_date=2025-01-05T00:00:00Z"),
    Step("DELETE", f"{V2}/dags/never"),
    Step("DELETE", f"{V2}/dags/none"),
]

STEPS: list[Step] = [
    *READY, *DAGS, *DAG_RUNS, *TASKS, *REPAIR, *ASSETS, *BACKFILLS, *PEOPLE, *KEPT, *WEB,
    *LISTS, *MAPPED, *BULK, *STORES, *PAGES,
]  # fmt: skip


def filled(value: Any, saved: dict[str, Any]) -> Any:
    """*value* with what was saved in the place of its name."""
    if isinstance(value, dict):
        return {key: filled(one, saved) for key, one in value.items()}
    if not isinstance(value, str):
        return value
    for name, known in saved.items():
        if value == f"{{{name}}}":
            return known
        value = value.replace(f"{{{name}}}", str(known))
    return value


@dataclass(frozen=True)
class Answer:
    """What came back: the text, where it is no JSON."""

    method: str
    path: str
    status: int
    body: Any


def answers(client: httpx.Client, within: float = 300) -> Iterator[Answer]:
    """Goes through the steps. Yields the answers that are compared. Fails if something does not come."""
    saved: dict[str, Any] = {}
    for step in STEPS:
        path = filled(step.path, saved).replace("+00:00", "%2B00:00")
        deadline = time.monotonic() + within
        while True:
            answer = client.request(step.method, path, json=filled(step.body, saved))
            body = body_of(answer)
            asks_to_wait = answer.status_code == 503  # too busy, says tidemill: no answer yet that could be compared
            if not asks_to_wait and (step.until is None or (answer.status_code == 200 and step.until(body))):
                break
            assert time.monotonic() < deadline, f"{step.path}: still {answer.status_code} {answer.text}"
            time.sleep(0.5)
        for name, find in (step.saves or {}).items():
            saved[name] = find(body)
        if step.until is None:
            yield Answer(step.method, step.path, answer.status_code, body)


def body_of(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return answer.text
