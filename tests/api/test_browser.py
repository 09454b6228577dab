"""Airflow's user interface in a real Chromium: each page, and what people do there by clicks."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, sync_playwright
from support import eventually
from web_stack import Web

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
KNOWN = (
    "404 /static/wasm/sqlparser_rs_wasm.js",  # missing in Airflow's own wheel
    "501 /api/v2/dags/~/dagRuns/~/taskInstances/~/xcomEntries",  # not in the menu; said to be not offered
)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this host (apt-get install chromium)"),
    pytest.mark.timeout(280),
]


class Seen:
    """A page of the browser, and what went wrong in it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url, self.wrong = page, url, list[str]()
        page.on("pageerror", lambda error: self.wrong.append(f"page error: {str(error)[:200]}"))
        page.on("response", self._response)

    def _response(self, response: Any) -> None:
        path = response.url.removeprefix(self.url)
        told = f"{response.status} {path}"
        if response.status >= 400 and not told.startswith(KNOWN):
            self.wrong.append(told)

    def open(self, path: str, *texts: str) -> None:
        """Goes to *path* and waits until all of *texts* are there."""
        self.page.goto(f"{self.url}/{path}")
        for text in texts:
            self.page.get_by_text(text).first.wait_for(timeout=60_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def seen(browser: Any, web: Web) -> Iterator[Seen]:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    found = Seen(page, web.url)
    yield found
    page.close()
    assert found.wrong == []


def test_every_page_is_there(seen: Seen, web: Web, tmp_path: Path) -> None:
    run = f"dags/web_daily/runs/{quote(web.failed_run, safe='')}"
    pages = {
        "": ("tidemill", "not a project of the Apache Software Foundation"),
        "dags": ("web_daily", "web_hand"),
        "dags/web_daily": ("Last 3 Dag Runs",),
        "dags/web_daily/runs": ("2026-01-03",),
        "dags/web_daily/tasks": ("fails",),
        "dags/web_daily/calendar": ("Daily",),
        "dags/web_daily/backfills": ("Backfill",),
        "dags/web_daily/events": ("finished",),
        "dags/web_daily/code": ("web_daily",),
        "dags/web_daily/details": ("Max Active Runs",),
        "dags/web_daily/plugin/explain": ("Explain",),
        "dags/web_daily/plugin/schedule": ("Schedule",),
        run: ("fails",),
        f"{run}/details": ("Run Type",),
        f"{run}/tasks/make": ("hello from the task",),
        f"{run}/tasks/make/xcom": ("return_value",),
        f"{run}/tasks/make/details": ("Operator",),
        f"{run}/tasks/make/rendered_templates": ("Rendered Templates",),
        f"{run}/tasks/fails/plugin/why": ("Why",),
        f"{run}/tasks/each/mapped/1": ("Logs",),
        f"{run}/tasks/group/group": ("say",),
        "dags/web_daily/tasks/make": ("Overview",),
        "assets": ("web_asset",),
        "dag_runs": ("web_daily",),
        "task_instances": ("fails",),
        "required_actions": ("Required Action",),
        "pools": ("web_pool",),
        "events": ("finished",),
        "plugin/slots": (),
        "plugin/bundles": (),
    }
    for path, texts in pages.items():
        seen.open(path, *texts)
        seen.page.screenshot(path=tmp_path / f"{path.replace('/', '_')[:80] or 'home'}.png")
    seen.open("dags/web_daily", "Last 3 Dag Runs")
    seen.page.keyboard.press("g")
    seen.page.locator(".react-flow__node").nth(3).wait_for(timeout=60_000)
    frame = "iframe"
    seen.open("dags/web_daily/plugin/explain")
    seen.page.frame_locator(frame).get_by_text("What was decided last").wait_for()
    seen.open(f"{run}/tasks/fails/plugin/why")
    seen.page.frame_locator(frame).get_by_text("exit code 3").first.wait_for()


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


async def first_run(web: Web, dag_id: str, name: str) -> Any:
    async def found() -> Any:
        for view in await web.here.tidemill.runs(dag_id):
            if view.state != "queued":
                details = await web.here.tidemill.run_by_workflow(view.workflow_id)
                if details.run.conf.get("name") == name:
                    return details
        return None

    return await eventually(found, bool)


async def paused(web: Web, dag_id: str) -> None:
    await eventually(lambda: web.here.tidemill.describe(dag_id), lambda view: view.is_paused)


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("/api/v2/pools", ("dags", "web_daily")),
        ("/ui/auth/menus", ("dags", "web_daily")),
        ("/api/v2/plugins", ("dags/web_daily", "web_daily")),
        ("/ui/grid/ti_summaries/web_daily", ("dags/web_daily", "Last 3 Dag Runs")),
        ("/ui/structure/structure_data", ("dags/web_daily", "Last 3 Dag Runs")),
        ("/api/v2/monitor/health", ("", "tidemill")),
        ("/ui/dashboard/dag_stats", ("", "tidemill")),
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
