"""The settings file: TOML, with tidemill's names below `[tidemill]`, or Airflow's sections where they mean the same."""

import logging
import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

from ...model.errors import InvalidInputError
from .airflow import READ, notice

DEFAULT_FILE = "tidemill.toml"
OWN = "tidemill"


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
        for section, settings in content.items():
            for name, value in settings.items() if section != OWN and isinstance(settings, dict) else ():
                if (known := READ.get((section, name))) is None:
                    log.warning("settings file %s: %s", path, notice((section, name)))
                else:
                    found[known[0]] = known[1](value)
        return {**found, **own}
