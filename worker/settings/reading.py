"""Tidemill's settings: environment variables `TIDEMILL_*`, a settings file, and Temporal's own for the connection."""

import os
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar, get_origin

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from ...model.errors import InvalidInputError, explain
from .file import FileSource
from .groups import (
    DagSettings,
    FolderSettings,
    SparkSettings,
    TaskSettings,
    WebSettings,
    WorkerSettings,
)

PREFIX = "TIDEMILL_"
OTHERS = (
    "CONFIG",
    "CLIENT_PLUGINS",
    "SECRETS_FILE",
    "SECRETS_BACKEND",
    "SECRETS_BACKEND_KWARGS",
    "FERNET_KEY",
    "SECRETS_DATABASE",
)
"""Variables that are no fields of `Settings`."""
FREE = ("CONN_", "VAR_")
"""Beginnings of those whose names are the user's own."""


class Settings(FolderSettings, DagSettings, TaskSettings, SparkSettings, WorkerSettings, WebSettings, BaseSettings):
    """What a worker and the CLI need to know. Each field is `TIDEMILL_<FIELD>` in the environment.

    The connection to Temporal follows Temporal's own configuration instead: `TEMPORAL_ADDRESS`,
    `TEMPORAL_NAMESPACE`, `TEMPORAL_TLS`, `TEMPORAL_API_KEY`, or a profile in its configuration file.
    """

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(env_prefix="TIDEMILL_", extra="ignore")

    @property
    def results_url(self) -> str:
        """Where results of tasks are kept, and values that tasks keep themselves."""
        return self.xcom_url or (self.home.resolve() / "xcom").as_uri()

    @property
    def web_home(self) -> Path:
        """Where the web keeps its own, as an absolute path."""
        return (self.api_home or self.home).resolve()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - there is none
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment first, then the settings file."""
        return init_settings, env_settings, FileSource(settings_cls)


def read_settings() -> Settings:
    """The settings that hold here. Raises InvalidInputError that names what is wrong, also a misspelt variable."""
    known = {name.upper() for name in Settings.model_fields} | {*OTHERS}
    for name in os.environ:
        rest = name.removeprefix(PREFIX)
        if rest != name and rest not in known and not rest.startswith(FREE):
            nearest = get_close_matches(rest, known, n=1)
            remedy = f"Did you mean {PREFIX}{nearest[0]}?" if nearest else "docs/operating.md lists those there are"
            raise InvalidInputError(f"{name} is no setting of tidemill. {remedy}")
    try:
        return Settings()
    except SettingsError as error:
        raise _not_json(error) from None
    except ValidationError as error:
        raise explain(error, "settings (TIDEMILL_* in the environment, or the settings file)", Settings) from None


def _not_json(error: SettingsError) -> InvalidInputError:
    """Return what to say of a variable whose text is no JSON, though its setting is a list or an object."""
    for name, field in Settings.model_fields.items():
        text = os.environ.get(PREFIX + name.upper())
        if text is not None and f'"{name}"' in str(error):
            form = '{"name": "value"}' if get_origin(field.annotation) is dict else '["A", "B"]'
            return InvalidInputError(f"{PREFIX}{name.upper()} = {text!r} is no JSON. Write it as {form}")
    return InvalidInputError(f"settings: {error}")
