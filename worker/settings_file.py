"""The settings file: TOML, with tidemill's names below `[tidemill]`, or Airflow's sections where they mean the same."""

import logging
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

from ..model.errors import InvalidInputError

DEFAULT_FILE = "tidemill.toml"
OWN = "tidemill"


def _same(value: Any) -> Any:
    return value


AIRFLOWS: dict[tuple[str, str], tuple[str, Callable[[Any], Any]]] = {
    ("core", "dags_folder"): ("dags_folder", _same),
    ("core", "parallelism"): ("max_concurrent_activities", _same),
    ("logging", "remote_base_log_folder"): ("log_url", _same),
    ("logging", "json_format"): ("log_format", lambda value: "json" if value else "text"),
    ("celery", "worker_concurrency"): ("max_concurrent_activities", _same),
    ("core", "default_impersonation"): ("run_as", lambda value: value or None),
    ("core", "killed_task_cleanup_time"): ("grace_seconds", _same),
}
"""Airflow's settings that have a counterpart: its field, and how the value is read."""
NOT_QUITE = {("core", "parallelism"): "it counts for each worker, not for all together (docs/limits.md)"}
"""Those among them that mean less here."""

log = logging.getLogger(__name__)


class FileSource(PydanticBaseSettingsSource):
    """What the file says that TIDEMILL_CONFIG names, or `tidemill.toml` in the working folder."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        named = os.environ.get("TIDEMILL_CONFIG")
        path = Path(named or DEFAULT_FILE)
        if named is None and not path.is_file():
            return {}
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise InvalidInputError(f"settings file {path}: {error}. Correct it, or set TIDEMILL_CONFIG") from None
        return self._read(path, content)

    def _read(self, path: Path, content: dict[str, Any]) -> dict[str, Any]:
        own = dict(content.get(OWN, {}))
        if unknown := sorted(own.keys() - self.settings_cls.model_fields.keys()):
            raise InvalidInputError(
                f"settings file {path}: [{OWN}] {', '.join(unknown)}: no such setting. "
                "docs/operating.md lists those there are"
            )
        found: dict[str, Any] = {}
        without: list[str] = []
        for section, settings in content.items():
            for name, value in settings.items() if section != OWN and isinstance(settings, dict) else ():
                if (known := AIRFLOWS.get((section, name))) is None:
                    without.append(f"[{section}] {name}")
                else:
                    found[known[0]] = known[1](value)
                    if (section, name) in NOT_QUITE:
                        log.warning("settings file %s: [%s] %s: %s", path, section, name, NOT_QUITE[section, name])
        if without:
            log.warning("settings file %s: tidemill has no counterpart of %s", path, ", ".join(sorted(without)))
        return {**found, **own}
