"""A folder of DAG files that tests write, and the bundle that looks after it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from support import Stack
from tidemill.model.bundle.data import BundleSettings, FileView
from tidemill.model.dag.views import DagView
from tidemill.model.run.identity import TriggerRequest

ONE = """
from tidemill import DAG, BashOperator
with DAG({dag_id!r}, heartbeat_timeout=4) as dag:
    BashOperator("a", bash_command={command!r})
"""


class Folder:
    """A bundle of the test's own."""

    def __init__(self, here: Stack, path: Path, name: str) -> None:
        self.here = here
        self.path = path
        self.name = name

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def one(self, name: str, dag_id: str, command: str = "echo done") -> Path:
        """A file with one DAG of one command."""
        return self.write(name, ONE.format(dag_id=f"{self.name}_{dag_id}", command=command))

    async def begin(self, **settings: Any) -> None:
        quick = {
            "dag_dir_list_interval": timedelta(seconds=1),
            "min_file_process_interval": timedelta(0),
            "stale_dag_threshold": timedelta(seconds=1),
            "parsing_processes": 4,
        }
        fields = {"path": str(self.path), **quick, **settings}
        await self.here.tidemill.bundles.configure(BundleSettings(name=self.name, **fields))

    async def look(self) -> dict[str, FileView]:
        """The files once everything that has changed is parsed and registered."""
        return {file.path: file for file in await self.here.tidemill.bundles.look(self.name)}

    async def dag(self, dag_id: str) -> DagView:
        return await self.here.tidemill.dags.describe(f"{self.name}_{dag_id}")

    async def run(self, dag_id: str, **trigger: Any) -> str:
        run = await self.here.tidemill.runs.trigger(f"{self.name}_{dag_id}", TriggerRequest(**trigger))
        return run.run_id
