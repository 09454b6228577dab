"""Versions of a DAG count from 1, one that comes back among them, and each run has its own (as in Airflow)."""

from pathlib import Path
from typing import Any

import httpx
from support import bash, dag, empty, stack
from web_stack import asking_web


async def versions(web: httpx.AsyncClient, order: str) -> list[dict[str, Any]]:
    answer = await web.get("/dags/counts/dagVersions", params={"order_by": order})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["dag_versions"])


async def test_versions_count(server: str, tmp_path: Path) -> None:
    first, second = dag("counts", [empty("t")]), dag("counts", [empty("t"), bash("u", "true")])
    async with stack(server, tmp_path / "home") as here, asking_web(here, tmp_path / "web") as web:
        for n, spec in enumerate((first, second, first)):
            await here.tidemill.dags.register(spec)
            await here.tidemill.dags.register(spec)  # the same again is no other version
            await here.run_once(spec, run_id=f"r{n}")
        assert [one["version_number"] for one in await versions(web, "version_number")] == [1, 2, 3]
        newest, *_ = found = await versions(web, "-version_number")
        assert len({one["id"] for one in found}) == 3
        for n in range(3):
            shown = (await web.get(f"/dags/counts/dagRuns/r{n}")).json()["dag_versions"]
            assert [one["version_number"] for one in shown] == [n + 1]
            instance = (await web.get(f"/dags/counts/dagRuns/r{n}/taskInstances/t")).json()
            assert instance["dag_version"] == shown[0]
        details = (await web.get("/dags/counts/details")).json()
        assert details["latest_dag_version"] == newest
        assert (await web.get("/dags/counts/dagVersions/2")).json()["version_number"] == 2
        assert (await web.get("/dags/counts/dagVersions/4")).status_code == 404
        assert (await web.get("/dags/counts/dagVersions/0")).status_code == 404
