"""Variables and connections: from the environment, a file, or a class of the user's own. Never from history.

They are looked up where a task runs, by the process that needs them; what they hold is masked in
what that process prints, and in what it fails with.
"""

import importlib
import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TextIO
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from ..model.errors import InvalidInputError

MASK = "***"
SHORTEST_MASKED = 4
SENSITIVE = ("password", "secret", "token", "api_key", "apikey", "passphrase", "private_key", "access_key")

_masked: set[str] = set()


class Backend(Protocol):
    """Where variables and connections are kept. Named as `module:Class` in TIDEMILL_SECRETS_BACKEND."""

    def get_variable(self, key: str) -> str | None: ...

    def get_connection(self, conn_id: str) -> str | None:
        """The connection as a URI, or as a JSON object in a text."""


class Environment:
    """`TIDEMILL_VAR_<KEY>` and `TIDEMILL_CONN_<ID>`; Airflow's own `AIRFLOW_VAR_`, `AIRFLOW_CONN_` are read, too."""

    def get_variable(self, key: str) -> str | None:
        return _of_environment("VAR", key)

    def get_connection(self, conn_id: str) -> str | None:
        return _of_environment("CONN", conn_id)


def _of_environment(kind: str, name: str) -> str | None:
    return os.environ.get(f"TIDEMILL_{kind}_{name.upper()}") or os.environ.get(f"AIRFLOW_{kind}_{name.upper()}")


class File:
    """A JSON file with `variables` and `connections`, named by TIDEMILL_SECRETS_FILE."""

    def __init__(self, path: Path) -> None:
        self._content = json.loads(path.read_text())

    def get_variable(self, key: str) -> str | None:
        return _text(self._content.get("variables", {}).get(key))

    def get_connection(self, conn_id: str) -> str | None:
        return _text(self._content.get("connections", {}).get(conn_id))


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


@cache
def backends() -> list[Backend]:
    """Those that are asked, in order: the user's own, the environment, the file (Airflow's order)."""
    found: list[Backend] = []
    if name := os.environ.get("TIDEMILL_SECRETS_BACKEND"):
        module, _, attribute = name.partition(":")
        arguments = json.loads(os.environ.get("TIDEMILL_SECRETS_BACKEND_KWARGS", "{}"))
        found.append(getattr(importlib.import_module(module), attribute)(**arguments))
    found.append(Environment())
    if path := os.environ.get("TIDEMILL_SECRETS_FILE"):
        found.append(File(Path(path)))
    return found


_MISSING: Any = object()


class Variable:
    """Airflow's Variable, as far as tasks read it."""

    @staticmethod
    def get(key: str, default: Any = _MISSING, deserialize_json: bool = False) -> Any:
        """The variable's value. Raises InvalidInputError if there is none and no default."""
        for backend in backends():
            text = backend.get_variable(key)
            if text is not None:
                if any(word in key.lower() for word in SENSITIVE):
                    mask(text)
                return json.loads(text) if deserialize_json else text
        if default is not _MISSING:
            return default
        raise InvalidInputError(
            f"variable {key!r} is not set. Set TIDEMILL_VAR_{key.upper()}, or add it to your backend"
        )


class Connection:
    """Airflow's Connection: how something is reached."""

    def __init__(
        self,
        conn_id: str,
        conn_type: str = "",
        host: str | None = None,
        login: str | None = None,
        password: str | None = None,
        schema: str | None = None,
        port: int | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        self.conn_id = conn_id
        self.conn_type = conn_type
        self.host = host
        self.login = login
        self.password = password
        self.schema = schema
        self.port = port
        self.extra_dejson = extra or {}
        for secret in (password, *(v for k, v in self.extra_dejson.items() if any(w in k.lower() for w in SENSITIVE))):
            mask(secret)

    @classmethod
    def get(cls, conn_id: str) -> "Connection":
        """The connection. Raises InvalidInputError if there is none, or it cannot be read."""
        for backend in backends():
            text = backend.get_connection(conn_id)
            if text is not None:
                return cls._of_json(conn_id, text) if text.lstrip().startswith("{") else cls._of_uri(conn_id, text)
        name = f"TIDEMILL_CONN_{conn_id.upper()}"
        raise InvalidInputError(f"connection {conn_id!r} is not set. Set {name} to a URI, or add it to your backend")

    @classmethod
    def _of_json(cls, conn_id: str, text: str) -> "Connection":
        fields = json.loads(text)
        extra = fields.pop("extra", None)
        known = {k: v for k, v in fields.items() if k in ("conn_type", "host", "login", "password", "schema", "port")}
        return cls(conn_id, **known, extra=json.loads(extra) if isinstance(extra, str) else extra)

    @classmethod
    def _of_uri(cls, conn_id: str, uri: str) -> "Connection":
        parts = urlsplit(uri)
        return cls(
            conn_id,
            conn_type=parts.scheme,
            host=unquote(parts.hostname) if parts.hostname else None,
            login=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
            schema=unquote(parts.path[1:]) or None,
            port=parts.port,
            extra=dict(parse_qsl(parts.query)),
        )

    @property
    def uri(self) -> str:
        login, password = (quote(part or "", safe="") for part in (self.login, self.password))
        who = f"{login}:{password}@" if login or password else ""
        port = f":{self.port}" if self.port else ""
        extra = f"?{urlencode(self.extra_dejson)}" if self.extra_dejson else ""
        return f"{self.conn_type}://{who}{self.host or ''}{port}/{quote(self.schema or '', safe='')}{extra}"


class _Reader:
    """`var.value.x`, `var.json.x` and `conn.x` in templates."""

    def __init__(self, read: Any) -> None:
        self._read = read

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._read(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or *default* where there is none."""
        try:
            return self._read(name)
        except InvalidInputError:
            return default


class _Variables:
    value = _Reader(Variable.get)
    json = _Reader(lambda key: Variable.get(key, deserialize_json=True))


TEMPLATE_NAMES = {"var": _Variables(), "conn": _Reader(Connection.get)}
"""What templates may use beside the context of their run."""


def mask(secret: Any) -> None:
    """Has *secret* replaced in all that this process prints from now on."""
    if isinstance(secret, str) and len(secret) >= SHORTEST_MASKED:
        _masked.add(secret)


def masked(text: str) -> str:
    """*text* without any secret that was looked up here."""
    for secret in sorted(_masked, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


class MaskingStream:
    """A text stream that prints no secret."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(masked(text) if _masked else text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def mask_output() -> None:
    """Masks what this process prints."""
    sys.stdout = MaskingStream(sys.stdout)
    sys.stderr = MaskingStream(sys.stderr)
