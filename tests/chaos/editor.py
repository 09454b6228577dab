"""Somebody who works on DAG files during a storm: changes, breaks, removes, renames and restores them."""

import asyncio
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from checker import Expected
from tidemill.model.bundle.data import BundleSettings

BUNDLE = "storm"
TEXT = """
from datetime import datetime, timedelta
from tidemill import DAG, BashOperator
with DAG({dag_id!r}, schedule=timedelta(seconds={step}), start_date=datetime.fromisoformat({start!r}),
         end_date=datetime.fromisoformat({end!r}), catchup=True, max_active_runs=2, heartbeat_timeout=4):
    BashOperator("work", bash_command="echo {edit}")
"""


@dataclass
class Editor:
    """A folder of DAG files whose every run is known beforehand, whatever happens to the files meanwhile."""

    folder: Path
    chance: random.Random
    files: int = 4
    ticks: int = 15
    edits: int = 0

    def begin(self) -> dict[str, Expected]:
        """Writes the files; what their DAGs have to do."""
        self.folder.mkdir(parents=True, exist_ok=True)
        now = datetime.now(UTC).replace(microsecond=0)
        self._start = now - timedelta(seconds=5)
        expected = {}
        for n in range(self.files):
            self.restore(n)
            ticks = {self._start + timedelta(seconds=2 * i) for i in range(self.ticks)}
            dates = {tick.isoformat().replace("+00:00", "Z") for tick in ticks}
            expected[self.dag_id(n)] = Expected(dates, max_active_runs=2)
        return expected

    def settings(self) -> BundleSettings:
        quick = {"dag_dir_list_interval": 1, "min_file_process_interval": 0, "stale_dag_threshold": 1}
        return BundleSettings.model_validate({"name": BUNDLE, "path": str(self.folder), **quick})

    @staticmethod
    def dag_id(n: int) -> str:
        return f"edited_{n}"

    def restore(self, n: int, name: str | None = None) -> None:
        """Writes a sound version of file *n*, with another command each time."""
        self.edits += 1
        end = self._start + timedelta(seconds=2 * (self.ticks - 1))
        text = TEXT.format(
            dag_id=self.dag_id(n), step=2, start=self._start.isoformat(), end=end.isoformat(), edit=self.edits
        )
        (self.folder / (name or f"file_{n}.py")).write_text(text)

    def clear(self, n: int) -> None:
        for path in self.folder.glob(f"*file_{n}.py"):
            path.unlink()

    async def work(self, stop: asyncio.Event) -> None:
        """Does one thing after the other to the files, and leaves them all in order."""
        while not stop.is_set():
            n = self.chance.randrange(self.files)
            match self.chance.choice(["change", "change", "break", "remove", "rename"]):
                case "change":
                    self.clear(n)
                    self.restore(n)
                case "break":
                    self.clear(n)
                    (self.folder / f"file_{n}.py").write_text("import os\nos._exit(1)\n")
                case "remove":
                    self.clear(n)
                case "rename":
                    self.clear(n)
                    self.restore(n, f"renamed_file_{n}.py")
            await asyncio.sleep(self.chance.random() * 2)
        for n in range(self.files):
            self.clear(n)
            self.restore(n)
