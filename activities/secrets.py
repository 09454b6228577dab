"""Variables and connections: from the environment, a file, or a class of the user's own. Never from history.

A task asks its worker for them, which knows where they are kept; a process that has no worker to ask, such as
a Spark driver, looks them up by itself. What they hold is masked in what a task prints, and in what it fails with.
"""

import importlib
import json
import os
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from ..model.errors import InvalidInputError
from ..model.spec.references import texts
from .masking import PROCESS_MASKER, Masker

if TYPE_CHECKING:
    from .attempts.key_values import KeyValues
    from .kept import Kind
    from .secret_store import SecretStore
    from .store import Store

SENSITIVE = (
    "password", "secret", "token", "api_key", "apikey", "passphrase", "private_key", "access_key", "passwd", "bearer",
    "authorization", "auth_header", "connection_string", "dsn", "proxy", "proxies", "service_account", "service_key",
    "keyfile_dict", "webhook_url",
)  # fmt: skip
"""What the names of secrets have in them: Airflow's list, and access_key."""
SENSITIVE_WORDS, WORDS = frozenset(("pass", "pwd", "sas")), re.compile("[^a-z0-9]+")
"""What is so only as a whole word of a name: `db_pass`, and no `passengers`."""
STORED = "the store"
"""Where those are found that tasks set, and that people keep through the web or the command line."""
SECRETS_COUNT_FOR_SECONDS = 60.0
"""How long an answer of a backend of the user's own is used before it is asked again."""


class Backend(Protocol):
    """Where variables and connections are kept. Named as `module:Class` in TIDEMILL_SECRETS_BACKEND.

    Airflow's secrets backends fit: one that has `get_conn_value` is asked by that name.
    """

    def get_variable(self, key: str) -> str | None: ...

    def get_connection(self, conn_id: str) -> str | None:
        """The connection as a URI, or as a JSON object in a text."""


class Environment:
    """`TIDEMILL_VAR_<KEY>` and `TIDEMILL_CONN_<ID>`; Airflow's own `AIRFLOW_VAR_`, `AIRFLOW_CONN_` are read, too."""

    def get_variable(self, key: str) -> str | None:
        return _of_environment("variable", key)

    def get_connection(self, conn_id: str) -> str | None:
        return _of_environment("connection", conn_id)


def _of_environment(kind: str, name: str) -> str | None:
    found = _name_in_environment(kind, name)
    return None if found is None else os.environ[found]


def _name_in_environment(kind: str, name: str) -> str | None:
    """The environment's variable that has *name*: case does not count there (as in Airflow)."""
    wanted = (f"{prefix}{name.upper()}" for prefix in _PREFIXES[kind])
    return next((each for each in wanted if _counts(kind, os.environ.get(each))), None)


def _counts(kind: str, text: str | None) -> bool:
    """Whether *text* is a value: an empty one is no connection."""
    return text is not None and (kind == "variable" or text != "")


_PREFIXES = {
    "variable": ("TIDEMILL_VAR_", "AIRFLOW_VAR_"),
    "connection": ("TIDEMILL_CONN_", "AIRFLOW_CONN_"),
}


class File:
    """A JSON file with `variables` and `connections`, named by TIDEMILL_SECRETS_FILE. Read again when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._read: dict[str, Any] = {}

    def get_variable(self, key: str) -> str | None:
        return _text(self.content.get("variables", {}).get(key))

    def get_connection(self, conn_id: str) -> str | None:
        return _text(self.content.get("connections", {}).get(conn_id))

    @property
    def content(self) -> dict[str, Any]:
        """What is in the file now. Raises InvalidInputError for a file that cannot be read."""
        try:
            state = self._path.stat()
            stamp = (state.st_mtime_ns, state.st_ino)
            if stamp != self._stamp:
                self._read, self._stamp = json.loads(self._path.read_text()), stamp
        except (OSError, ValueError) as error:
            raise InvalidInputError(
                f"TIDEMILL_SECRETS_FILE = {self._path}: {error}. Give a JSON file with variables and connections"
            ) from None
        return self._read


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


@cache
def backends() -> list[Backend]:
    """Those that are asked before the store, in order: the user's own, the environment, the file (as in Airflow)."""
    found: list[Backend] = []
    if name := os.environ.get("TIDEMILL_SECRETS_BACKEND"):
        found.append(CachingBackend(_made(name)))
    found.append(Environment())
    if path := os.environ.get("TIDEMILL_SECRETS_FILE"):
        found.append(File(Path(path)))
    return found


def store(key_values: "KeyValues | None" = None) -> "Store | None":
    """The store of variables and connections; *files* are where tasks keep values. None where nothing can be kept."""
    from .store import Store

    encrypted = _encrypted()
    return Store(encrypted, key_values) if encrypted is not None or key_values is not None else None


@cache
def _encrypted() -> "SecretStore | None":
    """The part of the store that has a key; None where this process has none."""
    if not os.environ.get("TIDEMILL_FERNET_KEY"):
        return None
    try:
        from .secret_store import SecretStore
    except ImportError as error:
        raise InvalidInputError(
            f"TIDEMILL_FERNET_KEY is set, and {error.name} is not installed: pip install 'tidemill[store]'"
        ) from None
    return SecretStore()


def _made(name: str) -> Any:
    """The backend *name*, made with its arguments. Raises InvalidInputError if that cannot be done."""
    module, _, attribute = name.partition(":")
    try:
        arguments = json.loads(os.environ.get("TIDEMILL_SECRETS_BACKEND_KWARGS", "{}"))
        return getattr(importlib.import_module(module), attribute)(**arguments)
    except Exception as error:
        raise InvalidInputError(
            f"TIDEMILL_SECRETS_BACKEND = {name!r}: {type(error).__name__}. Name a class that this process can import, "
            "as package.module:Class, and its arguments as JSON in TIDEMILL_SECRETS_BACKEND_KWARGS"
        ) from None


class CachingBackend:
    """A backend of the user's own, such as a vault: what it said counts for a while, and then it is asked again."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._cached: dict[tuple[str, str], tuple[float, str | None]] = {}

    def get_variable(self, key: str) -> str | None:
        return self._ask("get_variable", key)

    def get_connection(self, conn_id: str) -> str | None:
        return self._ask("get_conn_value" if hasattr(self._backend, "get_conn_value") else "get_connection", conn_id)

    def _ask(self, method: str, name: str) -> str | None:
        at, value = self._cached.get((method, name), (-SECRETS_COUNT_FOR_SECONDS, None))
        if time.monotonic() - at < SECRETS_COUNT_FOR_SECONDS:
            return value
        answer = getattr(self._backend, method)(name)
        value = answer if answer is None or isinstance(answer, str) else str(answer.get_uri())
        self._cached[method, name] = time.monotonic(), value
        return value


Question = Callable[..., dict[str, Any]]
_worker: Question | None = None


def ask_worker(ask: Question, tell: Callable[..., None]) -> None:
    """Has this process look up nothing by itself: *ask* asks its worker, and *tell* tells it what to mask."""
    global _worker
    _worker = ask
    PROCESS_MASKER.heard = lambda secret: tell(mask=secret)


def question_of_worker(**question: Any) -> dict[str, Any]:
    """What this process's worker answers. Raises InvalidInputError where there is none."""
    if _worker is None:
        raise InvalidInputError("there is no worker to ask here")
    return _worker(**question)


def _answer_of_worker(**question: Any) -> dict[str, Any]:
    """What the worker answers. Raises InvalidInputError for what it refuses."""
    answer = question_of_worker(**question)
    if "error" in answer:
        raise InvalidInputError(answer["error"])
    return answer


def refuse_lookups() -> None:
    """Has this process look up nothing from now on: what it works out comes into Temporal's history."""
    global _worker
    message = "a variable or connection would come into Temporal's history here. Read it where the work is done"
    _worker = lambda **_: {"error": message}  # noqa: E731


def look_up(kind: str, name: str, key_values: "KeyValues | None" = None) -> str | None:
    """The text of the `variable` or `connection` called *name*; None if nobody has it. *files*: as for `store`."""
    if _worker is not None:
        found: str | None = _answer_of_worker(look_up=kind, name=name)["text"]
        return found
    kept = store(key_values)
    for backend in [*backends(), *([kept] if kept is not None else [])]:
        text = backend.get_variable(name) if kind == "variable" else backend.get_connection(name)
        if text is not None:
            if not isinstance(backend, Environment | File):  # what these have, every process knows as secret anyway
                for secret in _secrets_of(kind, name, text):
                    PROCESS_MASKER.add(secret)
            return text
    return None


def names_of(kind: "Kind", key_values: "KeyValues | None" = None) -> dict[str, str]:
    """By name, where each `variable` or `connection` is found; those of a backend are known to it alone."""
    kept = store(key_values)
    found: dict[str, str] = dict.fromkeys(kept.names(kind), STORED) if kept is not None else {}
    for backend in backends():
        if isinstance(backend, File):
            found |= dict.fromkeys(backend.content.get(f"{kind}s", {}), "TIDEMILL_SECRETS_FILE")
    for name in [*found, *(name.split("_", 2)[2].lower() for name in _all_of_environment(kind))]:
        if (before := _name_in_environment(kind, name)) is not None:
            found[name] = before
    return found


def place_of(kind: "Kind", name: str, key_values: "KeyValues | None" = None) -> str | None:
    """Where the `variable` or `connection` called *name* is found; None where none but a backend may know it."""
    return _name_in_environment(kind, name) or names_of(kind, key_values).get(name)


_NO_FILE: dict[str, Any] = {}
_known: tuple[tuple[dict[str, str], dict[str, str]], dict[str, Any], set[str]] | None = None


def known_secrets() -> set[str]:
    """Whatever is secret in this process's environment and in its secrets file. Worked out anew when they change."""
    global _known
    content = _NO_FILE
    for backend in backends():
        if isinstance(backend, File):
            content = backend.content
    environment = _all_of_environment("variable"), _all_of_environment("connection")
    if _known is None or _known[0] != environment or _known[1] is not content:
        _known = environment, content, _secrets_in(content, *environment)
    return _known[2]


def _secrets_in(content: dict[str, Any], of_vars: dict[str, str], of_conns: dict[str, str]) -> set[str]:
    found: set[str] = set()
    collected = Masker(heard=found.add)
    for kind, values in (
        ("variable", {**content.get("variables", {}), **of_vars}),
        ("connection", {**content.get("connections", {}), **of_conns}),
    ):
        for name, value in values.items():
            for secret in _secrets_of(kind, name, _text(value) or ""):
                collected.add(secret)
    return found


def _secrets_of(kind: str, name: str, text: str) -> list[Any]:
    """What is secret of the `variable` or `connection` *name* that *text* describes."""
    if kind == "variable":
        return _leaves(text) if is_sensitive(name) else []
    with suppress(InvalidInputError):
        return Connection.read(name, text).secrets()
    return []


def _all_of_environment(kind: str) -> dict[str, str]:
    prefixes = _PREFIXES[kind]
    return {name: text for name, text in os.environ.items() if name.startswith(prefixes) and _counts(kind, text)}


def _leaves(text: str | None) -> list[str]:
    """*text*, and where it is JSON the texts in it."""
    if text is None:
        return []
    try:
        return [text, *texts(json.loads(text))]
    except ValueError:
        return [text]


def new_masker() -> Masker:
    """Knows what is secret in this worker's environment and file, and whatever was looked up through it."""
    return Masker({*known_secrets(), *PROCESS_MASKER.secrets})


_masked_names: tuple[str, ...] = ()


def mask_names(names: Sequence[str]) -> None:
    """Has this process take whatever has one of *names* in its name for a secret, beside the usual ones."""
    global _masked_names
    _masked_names = tuple(name.lower() for name in names)


def is_sensitive(name: str) -> bool:
    """Whether what is called so is secret."""
    low = name.lower()
    return any(word in low for word in (*SENSITIVE, *_masked_names)) or not SENSITIVE_WORDS.isdisjoint(WORDS.split(low))


def secrets_below(extra: Any, *, all_of_it: bool = False) -> Iterator[Any]:
    """What is secret in the extras of a connection, however deep, also where they are JSON in a text."""
    if isinstance(extra, str) and not all_of_it and extra.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            extra = json.loads(extra)
    if isinstance(extra, dict):
        for key, value in extra.items():
            yield from secrets_below(value, all_of_it=all_of_it or is_sensitive(str(key)))
    elif isinstance(extra, list):
        for value in extra:
            yield from secrets_below(value, all_of_it=all_of_it)
    elif all_of_it:
        yield extra


_MISSING: Any = object()


class NotKnownError(InvalidInputError):
    """Nobody has the variable or the connection."""


class Variable:
    """Airflow's Variable."""

    @staticmethod
    def get(key: str, default: Any = _MISSING, deserialize_json: bool = False) -> Any:
        """The variable's value. Raises InvalidInputError if there is none and no default."""
        text = look_up("variable", key)
        if text is not None:
            if is_sensitive(key):
                for secret in _leaves(text):
                    mask(secret)
            return json.loads(text) if deserialize_json else text
        if default is not _MISSING:
            return default
        raise NotKnownError(f"variable {key!r} is not set. Set TIDEMILL_VAR_{key.upper()}, or add it to your backend")

    @staticmethod
    def set(key: str, value: Any, description: str | None = None, serialize_json: bool = False) -> None:
        """Keeps the variable in the store. Raises InvalidInputError where that is refused, or cannot be."""
        text = json.dumps(value, indent=2) if serialize_json else str(value)
        _answer_of_worker(store="set", of="variables", key=key, value=text, description=description)

    @staticmethod
    def delete(key: str) -> None:
        """Removes the variable from the store. Raises InvalidInputError where that is refused."""
        _answer_of_worker(store="delete", of="variables", key=key)


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
        self.extra_dejson: dict[str, Any] = extra or {}
        for secret in self.secrets():
            mask(secret)

    def secrets(self) -> list[Any]:
        """What of the connection is not to be shown."""
        path = self.schema or ""
        is_hook = self.conn_type.startswith("http") and "/" in path  # as https://hooks/services/T/B/SECRET
        return [self.password, *([path, path.rpartition("/")[2]] if is_hook else []), *secrets_below(self.extra_dejson)]

    @classmethod
    def get(cls, conn_id: str) -> "Connection":
        """The connection. Raises InvalidInputError if there is none, or it cannot be read."""
        text = look_up("connection", conn_id)
        if text is not None:
            return cls.read(conn_id, text)
        name = f"TIDEMILL_CONN_{conn_id.upper()}"
        raise NotKnownError(f"connection {conn_id!r} is not set. Set {name} to a URI, or add it to your backend")

    @classmethod
    def read(cls, conn_id: str, text: str) -> "Connection":
        """The connection that *text* describes, a URI or a JSON object. Raises InvalidInputError if it is neither."""
        try:
            return cls._of_json(conn_id, text) if text.lstrip().startswith("{") else cls._of_uri(conn_id, text)
        except (ValueError, TypeError) as error:
            reason = type(error).__name__  # the error itself may quote a password
            raise InvalidInputError(
                f"connection {conn_id!r} cannot be read ({reason}). Write it as a URI or as a JSON object"
            ) from None

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
    def url(self) -> str:
        """Where an HTTP connection leads, as Airflow's HttpHook reads it; without a path."""
        host = self.host or ""
        scheme = self.schema or ("https" if self.conn_type in ("", "https") else self.conn_type)
        return (host if "://" in host else f"{scheme}://{host}") + (f":{self.port}" if self.port else "")

    @property
    def headers(self) -> dict[str, str]:
        """What an HTTP request by this connection carries: the extra fields, and the password as its authorization."""
        headers = {name: str(value) for name, value in self.extra_dejson.items()}
        if self.login:
            pair = b64encode(f"{self.login}:{self.password or ''}".encode()).decode()
            return {"Authorization": f"Basic {pair}", **headers}
        return {"Authorization": f"Bearer {self.password}", **headers} if self.password else headers

    def get_uri(self) -> str:
        """The connection as a URI, as Airflow writes it."""
        return self.uri.removesuffix("/") if not self.schema else self.uri

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
        """The value, or *default* where there is none. Raises InvalidInputError where that cannot be known."""
        try:
            return self._read(name)
        except NotKnownError:
            return default


class _Variables:
    value = _Reader(Variable.get)
    json = _Reader(lambda key: Variable.get(key, deserialize_json=True))


TEMPLATE_NAMES = {"var": _Variables(), "conn": _Reader(Connection.get)}
"""What templates may use beside the context of their run."""


def mask(secret: Any) -> None:
    """Has *secret* replaced in all that this process prints from now on."""
    PROCESS_MASKER.add(secret)


def masked(text: str) -> str:
    """*text* without any secret that was looked up here."""
    return PROCESS_MASKER.masked(text)
