"""Airflow's user interface in a real Chromium: each page, and what people do there by clicks."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cryptography.fernet import Fernet
from playwright.sync_api import Page, sync_playwright
from support import eventually
from tidemill.activities import secrets
from tidemill.model.run.identity import TriggerRequest
from web_stack import Web

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
KNOWN = (
    "404 /static/wasm/sqlparser_rs_wasm.js",  # missing in Airflow's own wheel
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this host (apt-get install chromium)")


class Seen:
    """A page of the browser, and what went wrong in it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url, self.wrong = page, url, list[str]()
        page.on("pageerror", lambda error: self.wrong.append(f"page error: {str(error)[:200]}"))
        page.on("response", self._response)

    def _response(self, response: Any) -> None:
        path = response.url.removeprefix(self.url)
        told = f"{response.status} {path}"
        if response.status >= 400:
            print(told, response.text())
        if response.status >= 400 and not told.startswith(KNOWN):
            self.wrong.append(f"{told}: {response.text()[:200]}")

    def open(self, path: str, *texts: str) -> None:
        """Goes to *path* and waits until all of *texts* are there."""
        self.page.goto(f"{self.url}/{path}")
        for text in texts:
            self.page.get_by_text(text).first.wait_for(timeout=120_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def seen(browser: Any, web: Web) -> Iterator[Seen]:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.set_default_timeout(120_000)
    found = Seen(page, web.url)
    yield found
    page.close()
    assert found.wrong == []


PAGES: dict[str, dict[str, tuple[str, ...]]] = {
    "of the installation": {
        "": ("tidemill", "not a project of the Apache Software Foundation"),
        "dags": ("web_daily", "web_hand"),
        "assets": ("web_asset",),
        "dag_runs": ("web_daily",),
        "task_instances": ("fails",),
        "required_actions": ("Required Action",),
        "pools": ("web_pool",),
        "variables": ("web_region",),
        "connections": ("web_db",),
        "events": ("finished",),
        "plugin/slots": (),
        "plugin/bundles": (),
    },
    "of a DAG": {
        "dags/web_daily": ("Last 3 Dag Runs",),
        "dags/web_daily/runs": ("2026-01-03",),
        "dags/web_daily/tasks": ("fails",),
        "dags/web_daily/tasks/make": ("Overview",),
        "dags/web_daily/calendar": ("Daily",),
        "dags/web_daily/backfills": ("Backfill",),
        "dags/web_daily/events": ("finished",),
        "dags/web_daily/code": ("web_daily",),
        "dags/web_daily/details": ("Max Active Runs",),
    },
    "of a run": {
        "RUN": ("fails",),
        "RUN/details": ("Run Type",),
        "RUN/tasks/make": ("hello from the task",),
        "RUN/tasks/make/xcom": ("return_value",),
        "RUN/tasks/make/details": ("Operator",),
        "RUN/tasks/make/rendered_templates": ("Rendered Templates",),
        "RUN/tasks/each/mapped/1": ("Logs",),
        "RUN/tasks/group/group": ("say",),
    },
}
"""By path, texts that are on the page; `RUN` is the failed run of `web_daily`."""


def failed_run(web: Web) -> str:
    return f"dags/web_daily/runs/{quote(web.failed_run, safe='')}"


@pytest.mark.parametrize(
    "which", ["of a run", *(pytest.param(o, marks=pytest.mark.thorough) for o in PAGES if o != "of a run")]
)
def test_every_page_is_there(seen: Seen, web: Web, which: str) -> None:
    for path, texts in PAGES[which].items():
        seen.open(path.replace("RUN", failed_run(web)), *texts)


def test_the_graph_of_a_dag_is_there(seen: Seen) -> None:
    seen.open("dags/web_daily", "Last 3 Dag Runs")
    seen.page.keyboard.press("g")
    seen.page.locator(".react-flow__node").nth(3).wait_for(timeout=120_000)


@pytest.mark.thorough
def test_every_page_of_our_own_is_there(seen: Seen, web: Web) -> None:
    run, frame = failed_run(web), "iframe"
    seen.open("dags/web_daily/plugin/schedule", "Schedule")
    seen.open("dags/web_daily/plugin/explain", "Explain")
    seen.page.frame_locator(frame).get_by_text("What was decided last").wait_for()
    seen.open(f"{run}/plugin/timeline", "Timeline")
    seen.page.frame_locator(frame).get_by_text("group.say").first.wait_for()
    assert seen.page.frame_locator(frame).locator(".bar").count() >= 6
    seen.open(f"{run}/plugin/run_replay", "Decisions")
    seen.page.frame_locator(frame).get_by_text("queued (try 1) to failed (try 1)").first.wait_for()
    seen.open("dags/web_daily/plugin/replay", "Decisions")
    seen.page.frame_locator(frame).get_by_text("a slot is free").first.wait_for()
    seen.open(f"{run}/tasks/fails/plugin/spark", "Spark")
    seen.page.frame_locator(frame).get_by_text("runs no Spark application").first.wait_for()
    seen.open(f"{run}/tasks/fails/plugin/why", "Why")
    seen.page.frame_locator(frame).get_by_text("exit code 3").first.wait_for()


@pytest.mark.thorough
def test_a_dag_is_paused_and_a_run_is_triggered_with_a_form(seen: Seen, web: Web) -> None:
    seen.open("dags/web_slow", "web_slow")
    seen.page.get_by_role("button", name="Trigger").first.click()
    field = seen.page.locator("input[name=element_name]")
    field.wait_for()
    field.fill("by a click")
    (web.folder / "go").touch()
    seen.page.get_by_role("dialog").get_by_role("button", name="Trigger").click()
    run = web.ask(first_run(web, "web_slow", "by a click"))
    assert run.run.run_type == "manual"
    seen.open("dags/web_slow", "web_slow")
    seen.page.locator("label[data-scope=switch]").first.click()
    web.ask(paused(web, "web_slow"))


CLICKED = "dags/web_clicks/runs/" + quote("scheduled__2026-01-01T00:00:00+00:00", safe="")


def test_a_task_is_cleared_and_marked_by_clicks(seen: Seen, web: Web) -> None:
    seen.open(f"{CLICKED}/tasks/last", "last")
    seen.page.get_by_role("button", name="Press shift+c to clear").click()
    seen.page.get_by_text("Affected Tasks: 1").wait_for()
    seen.page.get_by_role("button", name="Confirm").click()
    web.ask(state_of(web, "last", "success", 2))
    mark(seen, "Mark Task Instance as...", "Failed", "Affected Tasks: 1")
    web.ask(state_of(web, "last", "failed", 2))
    # What has failed has a reason, which the dialog sends back as the note of the task.
    seen.open(f"{CLICKED}/tasks/last", "Failed")
    mark(seen, "Mark Task Instance as...", "Success", "Affected Tasks: 1")
    web.ask(state_of(web, "last", "success", 2))


@pytest.mark.thorough
def test_a_run_is_marked_by_clicks(seen: Seen, web: Web) -> None:
    seen.open(CLICKED, "last")
    mark(seen, "Mark Dag Run as...", "Failed")
    web.ask(run_state(web, "failed"))
    seen.open(CLICKED, "Failed")
    mark(seen, "Mark Dag Run as...", "Success")
    web.ask(run_state(web, "success"))


def mark(seen: Seen, button: str, state: str, text: str = "Confirm") -> None:
    seen.page.get_by_role("button", name=button).first.click()
    seen.page.get_by_role("menuitem", name=state).click()
    seen.page.get_by_text(text).first.wait_for()
    seen.page.get_by_role("button", name="Confirm").click()
    seen.page.get_by_role("button", name="Confirm").wait_for(state="hidden")


def test_a_backfill_is_begun_by_clicks(seen: Seen, web: Web) -> None:
    seen.open("dags/web_clicks", "web_clicks")
    seen.page.get_by_test_id("trigger-dag-button").click()
    seen.page.get_by_text("Backfill", exact=True).last.click()
    for day in ("2026/01/01", "2026/01/02"):
        seen.page.get_by_text("Select date and time").first.click()
        date = seen.page.get_by_placeholder("YYYY/MM/DD").last
        date.fill(day)
        date.press("Enter")
        seen.page.keyboard.press("Escape")
    seen.page.get_by_text("All Runs", exact=True).click()
    seen.page.get_by_text("2 runs").first.wait_for()
    seen.page.get_by_role("button", name="Run Backfill").click()
    web.ask(backfilled(web))


def test_an_approval_is_given_by_a_click(seen: Seen, web: Web) -> None:
    web.ask(web.here.tidemill.runs.trigger("web_hand", TriggerRequest(run_id="clicked")))
    seen.open("dags/web_hand/runs/clicked/tasks/ask/required_actions", "Go on?")
    seen.page.get_by_role("button", name="Approve").click()
    details = web.ask(web.here.finished("web_hand", "clicked"))
    assert details.state == "success"


def test_a_log_is_followed_to_its_end(seen: Seen, web: Web) -> None:
    web.ask(web.here.tidemill.runs.trigger("web_talks", TriggerRequest(run_id="followed")))
    seen.open("dags/web_talks/runs/followed/tasks/talks", "line 1 of 8")
    seen.page.get_by_text("line 8 of 8").first.wait_for(timeout=120_000)  # without that anybody loads the page again


@pytest.mark.thorough
def test_what_failed_at_night_is_noted_mended_and_cleared_by_check_boxes(seen: Seen, web: Web) -> None:
    runs = [
        web.ask(web.here.tidemill.runs.trigger("web_mend", TriggerRequest(run_id=run_id))) for run_id in ("m1", "m2")
    ]
    for run in runs:
        assert web.ask(web.here.finished("web_mend", run.run_id)).state == "failed"
    page = seen.page
    seen.open("dags/web_mend/runs/m1", "mend failed")  # why it has failed stands where a note would
    page.get_by_role("button", name="Show Gantt").click()
    page.locator("a[href*='tasks/mend'][href*='try_number=1']").first.wait_for()  # each try has a bar
    page.get_by_role("button", name="Edit note").click()
    page.get_by_role("dialog").get_by_role("button", name="Edit").click()
    page.get_by_role("dialog").locator("textarea").fill("the vendor is told")
    page.get_by_role("dialog").get_by_role("button", name="Confirm").click()
    noted = web.ask(eventually(note_of(web, "m1"), bool))
    assert noted == "the vendor is told"

    (web.folder / "mended").touch()
    seen.open("dag_runs?state=failed&dag_id_pattern=web_mend", "m1", "m2")
    page.locator("th [data-scope=checkbox][data-part=control]").first.click()
    page.get_by_text("2 Selected").wait_for()
    page.get_by_role("button", name="Clear Dag Runs").click()
    page.get_by_role("button", name="Confirm").click()
    for run in runs:
        web.ask(
            eventually(
                lambda run=run: web.here.tidemill.runs.describe("web_mend", run.run_id), lambda d: d.state == "success"
            )
        )
    seen.open("dag_runs?state=failed&dag_id_pattern=web_mend", "No Dag Runs found")


def note_of(web: Web, run_id: str) -> Any:
    async def found() -> str | None:
        run = (await asyncio.to_thread(web.get, f"/api/v2/dags/web_mend/dagRuns/{run_id}")).json()
        return run["note"] if run["note"] != "mend failed" else None

    return found


def test_a_variable_is_added_by_clicks(seen: Seen, web: Web, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a store it is said why not, once; with one it is there."""
    page = seen.page
    seen.open("variables", "web_region")
    page.get_by_role("button", name="Add Variable").first.click()
    page.get_by_role("textbox", name="Key").fill("clicked")
    page.get_by_role("textbox", name="Value").fill("by hand")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("set TIDEMILL_FERNET_KEY").wait_for()
    for _ in range(600):  # the page may show it before the answer is told here
        if seen.wrong:
            break
        page.wait_for_timeout(100)
    [refused] = seen.wrong
    assert refused.startswith("409 /api/v2/variables")
    seen.wrong.clear()

    monkeypatch.setenv("TIDEMILL_SECRETS_DATABASE", f"sqlite:///{tmp_path / 'kept.db'}")
    monkeypatch.setenv("TIDEMILL_FERNET_KEY", Fernet.generate_key().decode())
    for known in (secrets.backends, secrets._encrypted):
        known.cache_clear()
    try:
        page.get_by_role("button", name="Save").click()
        page.get_by_role("dialog").wait_for(state="hidden")
        page.get_by_text("clicked").first.wait_for()
        assert web.get("/api/v2/variables/clicked").json()["value"] == "by hand"
    finally:
        monkeypatch.undo()
        for known in (secrets.backends, secrets._encrypted):
            known.cache_clear()


async def state_of(web: Web, task_id: str, state: str, try_number: int) -> None:
    async def found() -> Any:
        runs = await web.here.tidemill.runs.list("web_clicks")
        run = next(view for view in runs if view.run_id.endswith("2026-01-01T00:00:00+00:00"))
        if run.state == "queued":
            return None
        details = await web.here.tidemill.runs.describe_workflow(run.workflow_id)
        task = next(view for view in details.tasks if view.task_id == task_id)
        return task.state, task.try_number, details.state.finished

    await eventually(found, lambda got: got == (state, try_number, True))


async def run_state(web: Web, state: str) -> None:
    async def found() -> Any:
        runs = await web.here.tidemill.runs.list("web_clicks")
        return next(view.state for view in runs if view.run_id.endswith("2026-01-01T00:00:00+00:00"))

    await eventually(found, lambda got: got == state)


async def backfilled(web: Web) -> None:
    async def found() -> Any:
        return [view.state for view in await web.here.tidemill.runs.list("web_clicks") if view.run_type == "backfill"]

    await eventually(found, lambda states: [str(state) for state in states] == ["success", "success"])


async def first_run(web: Web, dag_id: str, name: str) -> Any:
    async def found() -> Any:
        for view in await web.here.tidemill.runs.list(dag_id):
            if view.state != "queued":
                details = await web.here.tidemill.runs.describe_workflow(view.workflow_id)
                if details.run.conf.get("name") == name:
                    return details
        return None

    return await eventually(found, bool)


async def paused(web: Web, dag_id: str) -> None:
    await eventually(lambda: web.here.tidemill.dags.describe(dag_id), lambda view: view.is_paused)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("/api/v2/plugins", ("dags/web_daily", "web_daily")),
        ("/ui/grid/ti_summaries/web_daily", ("dags/web_daily", "Last 3 Dag Runs")),
        ("/api/v2/monitor/health", ("", "tidemill")),
    ],
)
def test_an_operation_that_fails_leaves_the_page_standing(
    browser: Any, web: Web, path: str, texts: tuple[str, str]
) -> None:
    page = browser.new_page()
    page.route(f"**{path}*", lambda route: route.fulfill(status=404, json={"detail": "it fails alone"}))
    seen = Seen(page, web.url)
    seen.open(texts[0], texts[1])
    page.close()
    assert [told for told in seen.wrong if told.startswith("page error")] == []


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("", "tidemill"),
        ("dags", "web_daily"),
        ("dags/web_daily", "web_daily"),
        ("dags/web_daily/runs", "web_daily"),
        ("dags/web_daily/code", "web_daily"),
        ("dags/web_daily/runs/RUN", "web_daily"),
        ("dags/web_daily/runs/RUN/tasks/make", "make"),
        ("assets", "Assets"),
        ("pools", "Pools"),
    ],
)
def test_whichever_operation_fails_the_page_stands(browser: Any, web: Web, path: str, text: str) -> None:
    """Each operation that a page calls fails by itself; `/ui/config` says what the page is, and is left out."""
    path = path.replace("RUN", quote(web.failed_run, safe=""))
    asked = operations_of(browser, web, path, text)
    assert len(asked) >= 5
    for one in sorted(asked):
        page = browser.new_page()
        page.route(f"{web.url}{one}*", lambda route: route.fulfill(status=500, json={"detail": "it fails alone"}))
        seen = Seen(page, web.url)
        seen.open(path)
        page.get_by_test_id("nav-home-link").wait_for(timeout=120_000)
        page.close()
        assert [told for told in seen.wrong if told.startswith("page error")] == [], one


def operations_of(browser: Any, web: Web, path: str, text: str) -> set[str]:
    """What a page asks the server for."""
    page = browser.new_page()
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url.removeprefix(web.url).partition("?")[0]))
    seen = Seen(page, web.url)
    seen.open(path, text)
    page.wait_for_timeout(2000)
    page.close()
    return {one for one in asked if one.startswith(("/ui/", "/api/")) and one != "/ui/config"}
