"""What a benchmark finds, and how it is shown."""

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass
class Figure:
    """One thing measured; the floor is the same by hand in plain Temporal, in the same run."""

    name: str
    unit: str
    tidemill: float
    floor: float | None = None
    """None: there is no such thing by hand."""

    @property
    def ratio(self) -> float | None:
        return self.tidemill / self.floor if self.floor else None


def show(figures: list[Figure]) -> None:
    table = Table("", "tidemill", "floor", "ratio", title="tidemill beside the same in plain Temporal, same run")
    for f in figures:
        floor = "" if f.floor is None else f"{f.floor:.4g} {f.unit}"
        table.add_row(f.name, f"{f.tidemill:.4g} {f.unit}", floor, "" if f.ratio is None else f"{f.ratio:.2f}")
    Console().print(table)


def write(figures: list[Figure], path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    machine = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "commit": subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True
        ).stdout.strip(),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    measured = [{**asdict(figure), "ratio": figure.ratio} for figure in figures]
    path.write_text(json.dumps({"machine": machine, "figures": measured}, indent=2) + "\n")
