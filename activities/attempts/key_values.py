"""Small values that tasks keep over their tries and runs: a JSON file each, where results are kept, too."""

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import fsspec
from fsspec.implementations.local import LocalFileSystem
from pydantic import BaseModel

from ...model.errors import InvalidInputError, NotAllowedError

LARGEST = 1024 * 1024
LONGEST_NAME = 200
"""In bytes: of a file's name, without its ending and what is put before it while it is written."""
CUT = "%~"
"""In the name of a file: what stands for the rest of its key. No quoted key has it."""
ANY_TASK = "*"
VARIABLES = "variables"
"""Where variables are kept that tasks have set."""


class Kept(BaseModel):
    """A value that is kept."""

    value: Any
    updated_at: datetime
    expires_at: datetime | None = None
    description: str | None = None


@dataclass(frozen=True)
class KeyValues:
    """Values by scope and key, below a URL that fsspec knows. The last one that is written holds.

    A scope is a path; where it names a run by `run_id=`, its values go when nobody knows the run any more.
    """

    url: str

    @classmethod
    def beside(cls, results: str) -> "KeyValues":
        """Those of an installation whose results are at the URL *results*."""
        return cls(f"{results.rstrip('/')}/_values")

    def answer(self, question: dict[str, Any], task: str | None = None) -> dict[str, Any]:
        """What a child asks: `store` is get, set, delete, clear or keys.

        The scope is the worker's to say: *task* is the path of the task instance that the child works for; None where
        it works for none, and ANY_TASK where it works for several, as triggers do, and names them itself. Raises
        InvalidInputError for a scope that there is not.
        """
        scope, key = scope_of(question, task), question.get("key", "")
        match question["store"]:
            case "get":
                return self.get(scope, key)
            case "set":
                self.put(scope, key, question["value"], question.get("expires_at"))
            case "delete":
                self.delete(scope, key)
            case "clear":
                for name in self.keys(scope):
                    self.delete(scope, name)
            case "keys":
                return {"keys": self.keys(scope)}
        return {}

    def get(self, scope: str, key: str) -> dict[str, Any]:
        """`found`, and then the `value`."""
        kept = self.find(scope, key)
        return {"found": False} if kept is None else {"found": True, "value": kept.value}

    def find(self, scope: str, key: str) -> "Kept | None":
        """Returns what is kept as *key*; None where nothing is, and where it has expired."""
        store, path = fsspec.core.url_to_fs(self._path(scope, key))
        try:
            with store.open(path, "r") as file:
                kept = json.load(file)
            kept = Kept.model_validate({"updated_at": kept.get("updated_at") or store.modified(path), **kept})
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_over = kept.expires_at is not None and kept.expires_at <= datetime.now(UTC)
        return None if is_over else kept

    def put(
        self, scope: str, key: str, value: Any, expires_at: str | None = None, description: str | None = None
    ) -> None:
        """Keeps *value* as *key* until *expires_at*, in ISO 8601. Raises InvalidInputError if it is too large."""
        known = {"expires_at": expires_at, "updated_at": datetime.now(UTC).isoformat(), "description": description}
        text = json.dumps({"key": key, "value": value, **known})
        if len(text) > LARGEST:
            raise InvalidInputError(f"{key!r} has {len(text):,} bytes, and may have {LARGEST:,}. Keep a path instead")
        store, path = fsspec.core.url_to_fs(self._path(scope, key))
        if not isinstance(store, LocalFileSystem):  # object stores show a file when it is whole
            with store.open(path, "wb") as file:
                file.write(text.encode())
            return
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.urandom(8).hex()}")
        opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # a variable may be a secret
        with os.fdopen(opened, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(target)

    def delete(self, scope: str, key: str) -> None:
        store, path = fsspec.core.url_to_fs(self._path(scope, key))
        if store.exists(path):
            store.rm(path)

    def keys(self, scope: str) -> list[str]:
        """The keys of *scope*, in order."""
        store, path = fsspec.core.url_to_fs(self._folder(scope))
        try:
            found = store.ls(path, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        names = [str(name).rpartition("/")[2] for name in found if str(name).endswith(".json")]
        return sorted(self._key_of(scope, name.removesuffix(".json")) for name in names)

    def _key_of(self, scope: str, name: str) -> str:
        """The key that is kept under the name of a file."""
        if CUT not in name:
            return unquote(name)
        with fsspec.open(f"{self._folder(scope)}/{name}.json", "r") as file:
            return str(json.load(file)["key"])

    def _folder(self, scope: str) -> str:
        if any(part in ("", ".", "..") for part in scope.split("/")):
            raise NotAllowedError(f"{scope!r} is no place where values are kept")
        return f"{self.url}/{quote(scope, safe='/=')}"

    def _path(self, scope: str, key: str) -> str:
        name = quote(key, safe="")
        if len(name) > LONGEST_NAME:  # no file may be called so
            name = f"{name[: LONGEST_NAME // 2]}{CUT}{sha256(key.encode()).hexdigest()[:32]}"
        return f"{self._folder(scope)}/{name}.json"


def _asset_scope(kind: str, asset: str) -> str:
    return f"{kind}={quote(asset, safe='')}"


def asset_scopes(name: str, uri: str) -> tuple[str, str]:
    """Returns where values of an asset are kept: those that were kept by its name, and those by its URI."""
    return _asset_scope("asset_name", name), _asset_scope("asset_uri", uri)


def scope_of(question: dict[str, Any], task: str | None) -> str:
    """Return where the values are kept that *question* is `of`: variables, an asset, or the task instance itself."""
    match question["of"]:
        case "variables":
            return VARIABLES
        case "asset_name" | "asset_uri" as kind:
            return _asset_scope(kind, question["asset"])
        case "task":
            if task is None:
                raise InvalidInputError("no task is asking: only tasks and their triggers keep values of a task")
            return str(question["task"]) if task == ANY_TASK else task
        case other:
            raise NotAllowedError(f"no values of {other!r} are kept. Ask for those of a task, an asset, or variables")
