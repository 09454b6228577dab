"""Texts that are too long for a DAG's line: lists find and show the whole of them."""

from pathlib import Path

import httpx
from support import Stack, dag, empty, eventually
from tidemill.worker.cli.web import web_server
from tidemill.worker.settings.reading import Settings

TAGS = [f"{n:03}{'w' * 60}" for n in range(12)]


async def test_a_dag_is_found_by_its_last_tag_and_its_last_owner(here: Stack, tmp_path: Path) -> None:
    owner = ", ".join(f"{n:02}{'v' * 50}" for n in range(10))
    name = f"{'n' * 250} end"
    await here.tidemill.dags.register(dag("tagged", [empty("a", owner=owner)], tags=TAGS, dag_display_name=name))

    async with (
        web_server(here.tidemill, Settings(home=tmp_path / "web"), "127.0.0.1", 0) as url,
        httpx.AsyncClient(base_url=f"{url}/api/v2", timeout=60) as client,
    ):

        async def found(**filters: str) -> list[str]:
            answer = (await client.get("/dags", params=filters)).raise_for_status()
            return [one["dag_id"] for one in answer.json()["dags"]]

        for filters in ({"tags": TAGS[-1]}, {"owners": f"09{'v' * 50}"}, {"dag_display_name_pattern": "n end"}):
            assert await eventually(lambda filters=filters: found(**filters), bool) == ["tagged"]
        known = (await client.get("/dagTags", params={"limit": 100})).raise_for_status().json()["tags"]
        assert {*TAGS} <= {*known}
