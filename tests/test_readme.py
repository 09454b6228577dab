"""The README's first DAG, as a new user meets it: written, triggered, seen, broken, mended."""

import re
from pathlib import Path

from support import Stack, eventually, told
from tidemill.model.bundle.data import BundleSettings

README = (Path(__file__).parents[1] / "README.md").read_text()


async def test_the_first_dag(here: Stack, tmp_path: Path) -> None:
    section = README.partition("## Your first DAG")[2]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    file = tmp_path / "first.py"
    file.write_text(found[1])
    at_once = {"min_file_process_interval": 0, "dag_dir_list_interval": 1}
    await here.tidemill.bundles.configure(
        BundleSettings.model_validate({"name": "mine", "path": str(tmp_path), **at_once})
    )
    await here.tidemill.bundles.look("mine")

    run = await told(here, "dags", "trigger", "first", "--json")
    details = await here.finished("first", run["run_id"])
    assert details.state == "success"
    assert "the day is 20" in await told(here, "tasks", "logs", "first", "latest", "hello")
    assert await here.result_of(details, "count") == 4

    file.write_text(found[1].replace("{{ ds }}", "{{ dss }}"))
    await here.tidemill.bundles.look("mine")
    broken = await told(here, "dags", "trigger", "first", "--json")
    await here.finished("first", broken["run_id"])
    assert "'dss' is undefined" in await told(here, "tasks", "explain", "first", "latest", "hello")

    file.write_text(found[1])
    await here.tidemill.bundles.look("mine")
    await told(here, "runs", "clear", "first", "latest", "--latest")
    await eventually(lambda: here.tidemill.runs.find("first", broken["run_id"]), lambda view: view.state == "success")
