"""Logs of tasks, read from where they are: this host's disk, or the store that workers upload them to."""

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ...activities.attempts.beside_log import LARGEST, RENDERED, SPARK
from ...activities.attempts.log_store import LogStore
from ...model.run.spark_figures import SparkFigures
from ..settings.reading import Settings


@dataclass(frozen=True)
class TaskLog:
    """The log of one try."""

    settings: Settings
    name: str
    """Its path below the folder of logs."""

    @property
    def places(self) -> str:
        """Where it is looked for."""
        local = self.settings.home / "logs" / self.name
        return str(local) if self.settings.log_url is None else f"{local} and at {self.settings.log_url}"

    @property
    def is_there(self) -> bool:
        """Whether this host has it, be it empty."""
        return (self.settings.home / "logs" / self.name).is_file()

    def read(self, offset: int = 0, max_bytes: int = -1) -> bytes:
        """What there is from byte *offset* on, at most *max_bytes*; nothing where there is no log yet."""
        path = self.settings.home / "logs" / self.name
        if path.is_file():
            with path.open("rb") as file:
                file.seek(min(offset, path.stat().st_size))
                return file.read(max_bytes)
        if self.settings.log_url is None:
            return b""
        found = LogStore(self.settings.log_url, self.settings.home / "logs").read(self.name, offset)
        return found if max_bytes < 0 else found[:max_bytes]

    @property
    def rendered(self) -> dict[str, Any]:
        """What the templated fields of the try came to; empty where that is not known."""
        return self._beside(RENDERED)

    @property
    def spark(self) -> SparkFigures | None:
        """What the try's Spark application came to; None where that is not known."""
        try:
            return SparkFigures.model_validate(self._beside(SPARK) or None, extra="ignore")
        except ValidationError:
            return None

    def _beside(self, suffix: str) -> dict[str, Any]:
        text = TaskLog(self.settings, self.name + suffix).read(max_bytes=LARGEST)
        try:
            found = json.loads(text)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}
