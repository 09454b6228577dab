"""What the API does and refuses, on a real server; and that real clients understand it."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import airflow_client.client as airflow
import httpx
import pytest
from support import eventually
from tidemill.api.static_ui import install_ui, is_installed
from tidemill.model.errors import InvalidInputError
from web_stack import Web

ANY_TASK = "/api/v2/dags/~/dagRuns/~/taskInstances/~"


def send(web: Web, method: str, path: str, **options: Any) -> httpx.Response:
    return httpx.request(method, web.url + path, timeout=60, **options)


def until(web: Web, path: str, done: Any) -> Any:
    """What *path* answers once *done* says so."""

    async def ask() -> Any:
        return (await asyncio.to_thread(web.get, path)).json()

    return asyncio.run(eventually(ask, done))


def test_a_run_is_triggered_paused_cleared_and_marked(web: Web) -> None:
    runs = "/api/v2/dags/web_slow/dagRuns"
    made = send(web, "POST", runs, json={"dag_run_id": "a+b:c", "logical_date": None, "conf": {"name": "y"}})
    assert (made.status_code, made.json()["conf"]) == (200, {"name": "y"})
    again = send(web, "POST", runs, json={"dag_run_id": "a+b:c", "logical_date": None})
    assert (again.status_code, "is taken by" in again.json()["detail"]["message"]) == (409, True)
    run = f"{runs}/{quote('a+b:c', safe='')}"
    until(web, f"{run}/taskInstances/waits", lambda found: found.get("state") == "running")
    path = f"{run}/taskInstances/waits/logs/1"
    log = until(web, path, lambda found: [line["event"] for line in found["content"]][2:] == ["begun"])
    more = log["continuation_token"]
    assert web.get(f"{run}/taskInstances/waits/logs/1?token={more}").json()["content"] == []
    (web.folder / "go").touch()
    until(web, run, lambda found: found["state"] == "success")
    lines = web.get(f"{run}/taskInstances/waits/logs/1?token={more}", headers={"Accept": "application/x-ndjson"})
    assert '"event": "over"' in lines.text
    assert "Airflow-Continuation-Token" not in lines.headers
    tried = send(web, "POST", "/api/v2/dags/web_slow/clearTaskInstances", json={
        "dag_run_id": "a+b:c", "task_ids": ["waits"], "only_failed": False,
    })  # fmt: skip
    assert [one["task_id"] for one in tried.json()["task_instances"]] == ["waits"]
    assert web.get(run).json()["state"] == "success"  # it was only tried
    send(web, "POST", f"{run}/clear", json={"dry_run": False}).raise_for_status()
    until(
        web, f"{run}/taskInstances/waits", lambda found: (found.get("state"), found.get("try_number")) == ("success", 2)
    )
    until(web, run, lambda found: found["state"] == "success")
    tries = web.get(f"{run}/taskInstances/waits/-1/tries").json()["task_instances"]
    assert [one["try_number"] for one in tries] == [1, 2]
    for path in ("waits/-1", "waits"):
        tried = send(web, "PATCH", f"{run}/taskInstances/{path}/dry_run", json={"new_state": "failed"})
        assert [one["task_id"] for one in tried.json()["task_instances"]] == ["waits"]
    masked = send(web, "PATCH", f"{run}?update_mask=note", json={"state": "failed", "note": None})
    assert masked.json()["state"] == "success"
    marked = send(web, "PATCH", f"{run}/taskInstances/waits/-1", json={"new_state": "failed"})
    assert [one["state"] for one in marked.json()["task_instances"]] == ["failed"], "at once"
    until(web, run, lambda found: found["state"] == "failed")
    again = send(web, "PATCH", f"{run}/taskInstances/waits/-1", json={"new_state": "failed"})
    assert (again.status_code, again.json()["detail"]) == (409, "task 'waits' is failed already")
    assert send(web, "PATCH", run, json={"state": "success"}).json()["state"] == "success"
    kept = web.get(f"{run}/taskInstances/waits").json()
    assert kept["state"] == "failed", "what has ended stays, as in Airflow"
    paused = send(web, "PATCH", "/api/v2/dags/web_slow", json={"is_paused": True})
    assert paused.json()["is_paused"] is True
    send(web, "PATCH", "/api/v2/dags/web_slow", json={"is_paused": False}).raise_for_status()
    assert send(web, "DELETE", run).status_code == 204
    assert web.get(runs).json()["total_entries"] == 0
    until(web, run, lambda found: "has no run" in str(found.get("detail")))  # visibility forgets it a moment later


def test_all_instances_of_a_mapped_task_are_marked_at_once(web: Web) -> None:
    send(web, "POST", "/api/v2/dags/web_mapped/dagRuns", json={"dag_run_id": "all", "logical_date": None})
    run = "/api/v2/dags/web_mapped/dagRuns/all"
    until(web, run, lambda found: found["state"] == "success")
    marked = send(web, "PATCH", f"{run}/taskInstances/of_one", json={"new_state": "failed"})
    found = [(one["map_index"], one["state"]) for one in marked.json()["task_instances"]]
    assert found == [(0, "failed"), (1, "failed")]
    one = send(web, "PATCH", f"{run}/taskInstances/of_one/1", json={"new_state": "success"})
    assert [(each["map_index"], each["state"]) for each in one.json()["task_instances"]] == [(1, "success")]
    assert web.get(f"{run}/taskInstances/of_one/1").status_code == 200
    send(web, "PATCH", f"{run}/taskInstances/of_one", json={"new_state": "success"}).raise_for_status()
    until(web, run, lambda found: found["state"] == "success")


def test_a_queued_run_is_ended_and_deleted(web: Web) -> None:
    """Before its time comes; and who asked for it is told where people log in."""
    runs = "/api/v2/dags/web_slow/dagRuns"
    later = {"logical_date": None, "run_after": "2099-01-01T00:00:00Z"}
    for run_id in ("to_end", "to_delete"):
        made = send(web, "POST", runs, json={"dag_run_id": run_id, **later})
        assert (made.json()["state"], made.json()["triggering_user_name"]) == ("queued", None)
        path = f"{runs}/{run_id}"
        tasks = web.get(f"{path}/taskInstances").json()["task_instances"]
        assert [(one["task_id"], one["state"], one["try_number"]) for one in tasks] == [("waits", None, 0)]
        told = web.get(path).json()
        assert (told["conf"], told["triggered_by"], len(told["dag_versions"])) == ({}, "rest_api", 1)
        assert web.get(f"/ui/gantt/web_slow/{run_id}").json()["task_instances"] == []
    cells = web.get("/ui/grid/ti_summaries/web_slow?run_ids=to_end").text
    assert json.loads(cells)["task_instances"][0]["state"] is None
    ended = send(web, "PATCH", f"{runs}/to_end", json={"state": "failed"})
    assert (ended.status_code, ended.json()["state"]) == (200, "failed")
    assert send(web, "DELETE", f"{runs}/to_delete").status_code == 204
    assert web.get(f"{runs}/to_delete").status_code == 404
    assert send(web, "DELETE", f"{runs}/to_end").status_code == 204
    assert web.get("/api/v2/monitor/health").json()["scheduler"]["status"] == "healthy"


def test_lists_show_what_is_asked_for(web: Web) -> None:
    def ids(query: str) -> list[str]:
        return [
            dag["dag_id"] for dag in web.get(f"/ui/dags?{query}").json()["dags"] if dag["dag_id"].startswith("web_")
        ]

    everything = [
        "web_after", "web_both", "web_clicks", "web_daily", "web_groups", "web_hand", "web_long", "web_mapped",
        "web_mend", "web_paused", "web_slow", "web_talks",
    ]  # fmt: skip
    assert ids("limit=1000") == everything
    assert ids("order_by=-dag_id&limit=1000") == everything[::-1]
    assert ids("paused=true") == ["web_paused"]
    assert ids("tags=fast&tags=none&tags_match_mode=any") == ["web_daily"]
    assert ids("tags=fast&tags=none&tags_match_mode=all") == []
    assert ids("owners=ann") == ids("owners=bob") == ["web_daily"]  # a task may have several
    assert ids("dag_id_pattern=DAIL|slow") == ["web_daily", "web_slow"]
    assert ids("last_dag_run_state=failed") == ["web_daily"]
    assert ids("has_asset_schedule=true") == ["web_after", "web_both"]
    assert ids("is_favorite=true") == []
    for status in (204, 409):
        assert httpx.post(f"{web.url}/api/v2/dags/web_hand/favorite", timeout=60).status_code == status
    assert ids("is_favorite=true") == ["web_hand"]
    assert web.get("/api/v2/dags/web_hand/details").json()["is_favorite"] is True
    assert "web_hand" not in ids("is_favorite=false&limit=1000")
    assert httpx.post(f"{web.url}/api/v2/dags/web_hand/unfavorite", timeout=60).status_code == 204
    assert ids("is_favorite=true") == []
    runs = "/api/v2/dags/web_daily/dagRuns"
    assert web.get(f"{runs}?state=success").json()["total_entries"] == 0
    assert web.get(f"{runs}?state=failed&logical_date_gt=2026-01-01T00:00:00Z").json()["total_entries"] == 2
    first = web.get(f"{runs}?cursor=&limit=2&order_by=-run_after").json()
    assert [run["logical_date"][:10] for run in first["dag_runs"]] == ["2026-01-03", "2026-01-02"]
    rest = web.get(f"{runs}?cursor={first['next_cursor']}&limit=2&order_by=-run_after").json()
    assert [run["logical_date"][:10] for run in rest["dag_runs"]] == ["2026-01-01"]
    assert web.get(f"{runs}?run_after_gte=2026-01-03T00:00:00").json()["total_entries"] == 2  # without an offset: UTC
    everywhere = web.get("/api/v2/dags/~/dagRuns?state=failed&dag_id_pattern=web_daily").json()
    assert everywhere["total_entries"] == 3
    in_group = web.get(f"{runs}/{quote(web.failed_run, safe='')}/taskInstances?task_group_id=group").json()
    assert [one["task_id"] for one in in_group["task_instances"]] == ["group.say"]
    failed = web.get("/api/v2/dags/web_daily/dagRuns/~/taskInstances?state=failed").json()
    assert {one["task_id"] for one in failed["task_instances"]} == {"fails"}
    assert failed["total_entries"] == 3
    tree = web.get("/ui/grid/structure/web_daily").json()
    assert [(node["id"], [child["id"] for child in node.get("children") or []]) for node in tree] == [
        ("make", []), ("each", []), ("group", ["group.say"]), ("fails", []),
    ]  # fmt: skip
    assert web.get("/api/v2/dagSources/web_daily").json()["content"].startswith("\nfrom datetime")
    assert web.get("/ui/dashboard/dag_stats").json()["failed_dag_count"] >= 1
    by_day = web.get("/ui/calendar/web_daily").json()["dag_runs"]
    assert [(row["date"][:10], row["state"], row["count"]) for row in by_day] == [
        (f"2026-01-0{day}", "failed", 1) for day in (1, 2, 3)
    ]  # fmt: skip


def test_a_list_tells_what_the_run_tells(web: Web) -> None:
    send(web, "POST", "/api/v2/dags/web_groups/dagRuns", json={"logical_date": None, "dag_run_id": "listed"})
    until(web, "/api/v2/dags/web_groups/dagRuns/listed", lambda found: found["state"] == "success")
    until(web, "/api/v2/dags/~/dagRuns?dag_id_pattern=web_groups", lambda found: found["total_entries"] >= 1)
    for query in (
        "web_daily/dagRuns?limit=1000",
        "web_groups/dagRuns?limit=1000",
        "~/dagRuns?dag_id_pattern=web_daily",
    ):
        found = web.get(f"/api/v2/dags/{query}").json()["dag_runs"]
        assert found
        for run in found:
            alone = web.get(f"/api/v2/dags/{run['dag_id']}/dagRuns/{quote(run['dag_run_id'], safe='')}").json()
            assert run == alone
            assert None not in (run["conf"], run["triggered_by"])
            assert run["dag_versions"]


def test_what_is_there_of_assets_is_shown(web: Web) -> None:
    waits = web.get("/ui/next_run_assets/web_both").json()
    assert [(one["name"], one["last_update"]) for one in waits["events"]] == [("web_one", None), ("web_two", None)]
    numbers = {one["name"]: one["id"] for one in web.get("/api/v2/assets?limit=1000").json()["assets"]}
    send(web, "POST", "/api/v2/assets/events", json={"asset_id": numbers["web_one"]}).raise_for_status()
    queued = until(web, "/api/v2/dags/web_both/assets/queuedEvents", lambda found: found["total_entries"] == 1)
    assert queued["queued_events"][0]["asset_id"] == numbers["web_one"]
    waits = web.get("/ui/next_run_assets/web_both").json()
    assert [one["last_update"] is not None for one in waits["events"]] == [True, False]
    graph = web.get(f"/ui/dependencies?node_id=asset:{numbers['web_one']}").json()
    assert {node["label"] for node in graph["nodes"]} == {"web_one", "web_two", "web_both"}


def test_results_are_listed_over_tasks_and_runs(web: Web) -> None:
    """As the web's page of XComs asks for them: it asked for ever."""
    keys = "xcom_key=return_value&dag_display_name_pattern=web_daily&order_by=-map_index"
    everywhere = web.get(f"{ANY_TASK}/xcomEntries?{keys}").json()
    assert {one["task_id"] for one in everywhere["xcom_entries"]} >= {"make", "each"}
    assert everywhere["xcom_entries"][0]["map_index"] == 2
    run = everywhere["xcom_entries"][0]["run_id"]
    of_dag = f"/api/v2/dags/web_daily/dagRuns/{{}}/taskInstances/{{}}/xcomEntries?{keys}"
    of_task = web.get(of_dag.format("~", "make")).json()["xcom_entries"]
    assert {one["task_id"] for one in of_task} == {"make"}
    of_run = web.get(of_dag.format(quote(run, safe=""), "~")).json()
    assert {one["run_id"] for one in of_run["xcom_entries"]} == {run}
    assert of_run["total_entries"] >= 4


def test_tasks_of_the_runs_before_and_after_are_cleared_and_marked(web: Web) -> None:
    """As the buttons Past and Future of the web's dialogs ask for it."""
    runs = [f"scheduled__2026-01-0{day}T00:00:00+00:00" for day in (1, 2)]
    path = f"/api/v2/dags/web_clicks/dagRuns/{quote(runs[1], safe='')}/taskInstances/last"
    for run_id in runs:
        until(
            web, f"/api/v2/dags/web_clicks/dagRuns/{quote(run_id, safe='')}", lambda found: found["state"] == "success"
        )

    def tasks(answer: httpx.Response) -> list[tuple[str, str, str | None]]:
        assert answer.status_code == 200, answer.text
        return [(one["dag_run_id"], one["task_id"], one["state"]) for one in answer.json()["task_instances"]]

    past = {"new_state": "failed", "include_past": True}
    assert tasks(send(web, "PATCH", f"{path}/dry_run", json=past)) == [(run_id, "last", "success") for run_id in runs]
    assert tasks(send(web, "PATCH", path, json=past)) == [(run_id, "last", "failed") for run_id in runs]
    clear = "/api/v2/dags/web_clicks/clearTaskInstances"
    first = {"dag_run_id": runs[0], "task_ids": ["last"], "dry_run": True}
    assert tasks(send(web, "POST", clear, json=first)) == [(runs[0], "last", "failed")]
    assert tasks(send(web, "POST", clear, json={**first, "only_running": True})) == []
    both = {**first, "include_future": True, "dry_run": False}
    assert tasks(send(web, "POST", clear, json=both)) == [(run_id, "last", None) for run_id in runs]
    for run_id in runs:
        until(
            web, f"/api/v2/dags/web_clicks/dagRuns/{quote(run_id, safe='')}", lambda found: found["state"] == "success"
        )
    dates = {"start_date": "2026-01-01T00:00:00Z", "end_date": "2026-01-01T12:00:00Z", "only_failed": False}
    assert {run for run, *_ in tasks(send(web, "POST", clear, json=dates))} == {runs[0]}


def test_a_long_log_is_answered_to_its_end(web: Web) -> None:
    run = send(web, "POST", "/api/v2/dags/web_long/dagRuns", json={"logical_date": None}).json()["dag_run_id"]
    path = f"/api/v2/dags/web_long/dagRuns/{quote(run, safe='')}"
    until(web, path, lambda found: found["state"] == "success")
    log = f"{path}/taskInstances/prints/logs/1"
    lines = web.get(log, headers={"Accept": "application/x-ndjson"}).text.splitlines()
    assert (len(lines) >= 60_000, "the last line" in lines[-2]) == (True, True)
    first = web.get(log).json()
    assert first["continuation_token"] is not None
    assert web.get(f"{log}?token={'9' * 18}").json()["content"] == []
    assert web.get(log.replace("logs/1", "logs/2")).status_code == 404  # who followed it would follow it for ever


def test_an_approval_is_answered_and_its_asset_wakes_another_dag(web: Web) -> None:
    run = "/api/v2/dags/web_hand/dagRuns/asks"
    until(web, f"{run}/hitlDetails", lambda found: found["total_entries"] == 1)
    waiting = web.get("/api/v2/dags/web_hand/dagRuns/~/hitlDetails?response_received=false").json()
    acting = until(web, "/ui/dags?has_pending_actions=true", lambda found: found["total_entries"] == 1)
    assert acting["dags"][0]["dag_id"] == "web_hand"
    assert [one["subject"] for one in acting["dags"][0]["pending_actions"]] == ["Go on?"]
    others = web.get("/ui/dags?has_pending_actions=false&limit=1000").json()["dags"]
    assert "web_hand" not in {one["dag_id"] for one in others}
    assert waiting["hitl_details"][0]["subject"] == "Go on?"
    wrong = send(web, "PATCH", f"{run}/taskInstances/ask/-1/hitlDetails", json={"chosen_options": ["Perhaps"]})
    assert (wrong.status_code, "Perhaps" in wrong.json()["detail"]) == (400, True)
    send(
        web, "PATCH", f"{run}/taskInstances/ask/-1/hitlDetails", json={"chosen_options": ["Approve"]}
    ).raise_for_status()
    until(web, "/api/v2/dags/web_after/dagRuns", lambda found: found["total_entries"] == 1)
    events = until(web, "/api/v2/assets/events?source_dag_id=web_hand", lambda found: found["total_entries"] == 1)
    assert events["asset_events"][0]["name"] == "web_asset"
    backfill = {"dag_id": "web_paused", "from_date": "2025-12-01T00:00:00Z", "to_date": "2025-12-02T00:00:00Z"}
    tried = send(web, "POST", "/api/v2/backfills/dry_run", json=backfill).json()
    assert tried["total_entries"] == 2
    made = send(web, "POST", "/api/v2/backfills", json=backfill).json()
    number = made["id"]
    assert send(web, "PUT", f"/api/v2/backfills/{number}/pause").json()["is_paused"] is True
    assert send(web, "PUT", f"/api/v2/backfills/{number}/cancel").json()["completed_at"] is not None


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("GET", "/api/v2/dags/nope", None, 404, "DAG 'nope' is not there"),
        ("GET", "/api/v2/dags/..%2F..%2Fetc", None, 404, "there is no operation"),
        ("GET", "/api/v2/dags/web_daily/dagRuns/none", None, 404, "has no run 'none'"),
        ("GET", "/api/v2/dags?limit=-1", None, 422, ""),
        ("GET", "/api/v2/dags?order_by=x", None, 400, "order_by = 'x' is not known"),
        ("GET", "/api/v2/dags?nonsense=1", None, 422, "nonsense"),
        ("GET", "/api/v2/pools?nonsense=1", None, 422, "nonsense is no parameter that this operation has here"),
        ("GET", "/api/v2/dags/web_daily/dagRuns?cursor=%00", None, 400, "cursor is none"),
        ("GET", "/api/v2/nothing", None, 404, "there is no operation"),
        ("POST", "/api/v2/variables", {"key": "a", "value": "b"}, 409, "set TIDEMILL_FERNET_KEY"),
        ("GET", "/api/v2/dagSources/web_daily?version_number=7", None, 404, "has no version 7"),
        ("POST", "/api/v2/dags/web_daily/dagRuns", {"logical_date": None, "strange": 1}, 422, ""),
        ("POST", "/api/v2/dags/web_daily/dagRuns", {"logical_date": "2026-01-01T00:00:00Z"}, 409, "is taken by"),
        ("POST", "/api/v2/dags/web_slow/dagRuns", {"logical_date": None, "conf": {"name": 7}}, 400, "name"),
        ("POST", "/api/v2/dags/web_slow/dagRuns", {"logical_date": None, "dag_run_id": "a/b"}, 400, "run_id"),
        ("POST", "/api/v2/dags/nope/favorite", None, 404, "DAG 'nope' is not there"),
        ("POST", "/api/v2/dags/web_hand/unfavorite", None, 409, "none of your favourites"),
        ("POST", "/api/v2/dags/none/clearTaskInstances", {}, 404, "'none'"),
        ("GET", "/api/v2/dags/~/dagRuns/r/taskInstances", None, 400, "Name the DAG"),
        ("GET", "/api/v2/dags/web_daily/dagRuns/~/taskInstances?task_group_id=none", None, 404, "group 'none'"),
        ("POST", "/api/v2/dags/web_daily/clearTaskInstances", {"dag_run_id": "x", "task_ids": []}, 422, "is empty"),
        ("GET", "/api/v2/dags/web_daily/dagRuns?cursor=WyJhIixmYWxzZSwxZTk5OV0=", None, 400, "cursor is none"),
        ("GET", "/api/v2/dags?dag_id_pattern=" + "x" * 301, None, 422, "a pattern has 301 letters"),
        ("GET", "/api/v2/assets/aliases", None, 501, "aliases are not listed"),
        ("GET", "/ui/grid/runs/web_daily?state=faild", None, 422, "faild"),
        ("GET", "/api/v2/dags/~/dagRuns/~/hitlDetails?state=faild", None, 422, "faild"),
        ("POST", f"{ANY_TASK}/xcomEntries", {"key": "a", "value": 1}, 403, "are not changed from outside"),
        ("GET", f"{ANY_TASK}/xcomEntries?order_by=value", None, 400, "order_by = 'value' is not known"),
        ("GET", "/api/v2/assets/aliases?limit=50&offset=0", None, 501, "aliases are not listed"),
        ("GET", "/api/v2/dags/web_daily/dagRuns?state=faild", None, 422, "faild"),
        ("GET", "/api/v2/dags/~/dagRuns/~/taskInstances?state=faild", None, 422, "faild"),
        ("POST", "/api/v2/dags/web_slow/dagRuns", {"logical_date": None, "conf": {"name": "\ud800"}}, 422, ""),
        ("PATCH", "/api/v2/pools/none", {"slots": 3}, 404, "pool 'none'"),
        ("POST", "/api/v2/pools", {"name": "web_pool", "slots": 3}, 409, "is taken"),
        ("POST", "/api/v2/pools", {"name": "a\nb", "slots": 3}, 422, "one line"),
        ("PUT", "/api/v2/parseDagFile/nonsense", None, 404, "file_token"),
    ],
)
def test_what_cannot_be_done_is_said(web: Web, method: str, path: str, body: Any, status: int, said: str) -> None:
    sent = {"content": json.dumps(body), "headers": {"Content-Type": "application/json"}} if body is not None else {}
    answer = send(web, method, path, **sent)
    assert answer.status_code == status, answer.text
    assert said in str(answer.json()["detail"])
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_pages_of_other_sites_change_nothing(web: Web, headers: dict[str, str], status: int) -> None:
    body = b'{"is_paused": true}'
    given = {"Content-Type": "application/json", **headers}
    assert send(web, "PATCH", "/api/v2/dags/web_after", content=body, headers=given).status_code == status
    assert web.get("/api/v2/dags/web_after").json()["is_paused"] is False
    assert web.get("/api/v2/version", headers={"Host": headers.get("Host", "localhost")}).status_code in (200, 421)


def test_pages_of_our_own_are_escaped_and_carry_the_usual_headers(web: Web) -> None:
    page = web.get("/tidemill/dags/web_daily/explain")
    assert "web_daily" in page.text
    assert "default-src 'self'" in page.headers["Content-Security-Policy"]
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    why = web.get(f"/tidemill/dags/web_daily/runs/{quote(web.failed_run, safe='')}/tasks/fails/why")
    assert "exit code 3" in why.text
    assert "<script" not in why.text
    assert "web_pool" in web.get("/tidemill/pools").text
    assert "no run" in web.get("/tidemill/dags/web_daily/runs/none/tasks/<b>/why").text
    assert web.get("/tidemill/dags/web_daily/schedule").status_code == 200


def test_a_group_is_marked_and_a_run_is_waited_for(web: Web) -> None:
    run = "/api/v2/dags/web_groups/dagRuns/marked"
    send(web, "POST", "/api/v2/dags/web_groups/dagRuns", json={"dag_run_id": "marked", "logical_date": None})
    lines = web.get(f"{run}/wait?interval=0.2&result=group.one&result=none").text.splitlines()
    assert json.loads(lines[-1]) == {"state": "success", "results": {"group.one": "1"}}
    tried = send(web, "PATCH", f"{run}/taskGroupInstances/group/dry_run", json={"new_state": "failed"}).json()
    both = [("group.one", "success"), ("group.two", "success")]
    assert [(one["task_id"], one["state"]) for one in tried["task_instances"]] == both
    marked = send(web, "PATCH", f"{run}/taskGroupInstances/group", json={"new_state": "failed"})
    assert [one["task_id"] for one in marked.json()["task_instances"]] == ["group.one", "group.two"]
    until(web, run, lambda found: found["state"] == "failed")
    tasks = web.get(f"{run}/taskInstances").json()["task_instances"]
    assert {one["task_id"]: one["state"] for one in tasks} == {"group.one": "failed", "group.two": "failed"}
    assert send(web, "PATCH", f"{run}/taskGroupInstances/none", json={"new_state": "failed"}).status_code == 404
    assert web.get(f"{run}/wait").status_code == 422
    send(web, "DELETE", run).raise_for_status()


def test_variables_and_connections_are_named_without_what_is_secret(web: Web) -> None:
    variables, connections = web.get("/api/v2/variables"), web.get("/api/v2/connections")
    assert [(one["key"], one["value"]) for one in variables.json()["variables"]] == [("web_region", "***")]
    known = {one["connection_id"]: one for one in connections.json()["connections"]}
    shown = {
        name: known["web_db"][name] for name in ("conn_type", "host", "login", "schema", "port", "password", "extra")
    }
    assert shown == {
        "conn_type": "postgres", "host": "db.example.com", "login": "ann", "schema": "sales", "port": 5432,
        "password": "***", "extra": "***",
    }  # fmt: skip
    assert "cannot be read" in known["web_wrong"]["description"]
    answers = variables.text + connections.text + web.get("/api/v2/connections/web_wrong").text
    assert "hush" not in answers
    assert web.get("/api/v2/connections?connection_id_pattern=web_d").json()["total_entries"] == 1
    assert web.get("/api/v2/variables/none").status_code == 404


def test_another_wheel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.whl").write_bytes(b"x")
    with pytest.raises(InvalidInputError, match="is not the wheel that this release knows"):
        install_ui(tmp_path, tmp_path / "other.whl")
    with pytest.raises(InvalidInputError, match="--wheel"):
        install_ui(tmp_path, tmp_path / "none.whl")
    assert not is_installed(tmp_path)


def test_airflows_client_package_understands_the_answers(web: Web) -> None:
    configuration = airflow.Configuration(host=web.url)
    with airflow.ApiClient(configuration) as client:
        assert airflow.VersionApi(client).get_version().version == "3.3.2"
        dags = airflow.DAGApi(client).get_dags(limit=1000)
        assert {"web_daily", "web_hand"} <= {dag.dag_id for dag in dags.dags}
        details = airflow.DAGApi(client).get_dag_details("web_daily")
        assert details.doc_md == "# Read me"
        runs = airflow.DagRunApi(client).get_dag_runs("web_daily", state=["failed"])
        assert runs.total_entries == 3
        tasks = airflow.TaskInstanceApi(client).get_task_instances("web_daily", web.failed_run)
        assert len(tasks.task_instances) == 6
        log = airflow.TaskInstanceApi(client).get_log("web_daily", web.failed_run, "make", 1)
        said = airflow.TaskInstanceApi(client).get_task_instance("web_daily", web.failed_run, "fails")
        assert said.rendered_fields["bash_command"]
        assert "hello from the task" in str(log.content)
        assert [pool.name for pool in airflow.PoolApi(client).get_pools().pools] == ["default_pool", "web_pool"]
        body = airflow.DAGPatchBody(is_paused=True)
        assert airflow.DAGApi(client).patch_dag("web_paused", body).is_paused
        batch = airflow.DAGRunsBatchBody(dag_ids=["web_daily"], states=["failed"], page_limit=2)
        listed = airflow.DagRunApi(client).get_list_dag_runs_batch("~", batch)
        assert (listed.total_entries, len(listed.dag_runs)) == (3, 2)
        batch = airflow.TaskInstancesBatchBody(dag_ids=["web_daily"], task_ids=["fails"], state=["failed"])
        instances = airflow.TaskInstanceApi(client).get_task_instances_batch("~", "~", batch)
        assert {one.task_id for one in instances.task_instances} == {"fails"}
        body = airflow.TriggerDAGRunPostBody(dag_run_id="waited_for", logical_date=None)
        airflow.DagRunApi(client).trigger_dag_run("web_groups", body)
        waited = airflow.DagRunApi(client).wait_dag_run_until_finished("web_groups", "waited_for", 1)
        assert '{"state": "success"}' in str(waited)


def test_airflowctl_understands_the_answers(web: Web, tmp_path: Path) -> None:
    env = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW_CLI_TOKEN": "none", "PATH": "/usr/bin:/bin", "COLUMNS": "400"}
    tool = str(Path(sys.executable).with_name("airflowctl"))

    def run(*arguments: str) -> str:
        done = subprocess.run([tool, *arguments], env=env, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("auth", "login", "--api-url", web.url, "--api-token", "none", "--skip-keyring")
    assert "3.3.2" in run("version", "--remote")
    assert "web_daily" in run("dags", "list")
    assert "web_pool" in run("pools", "list")
    run("dags", "pause", "web_hand")
    assert web.get("/api/v2/dags/web_hand").json()["is_paused"] is True
    run("dags", "unpause", "web_hand")
    assert "web_asset" in run("assets", "list")
    days = ("--from-date", "2025-12-01T00:00:00+00:00", "--to-date", "2025-12-01T00:00:00+00:00")
    run("backfill", "create", "--dag-id", "web_paused", *days)
