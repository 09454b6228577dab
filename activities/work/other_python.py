"""Calls a function by another Python interpreter: in a virtual environment of its own, or one that is there."""

from __future__ import annotations

import ast
import fcntl
import importlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from ...model.authoring.other_python import OtherPython
from ...model.errors import InvalidInputError
from ...model.exceptions import AirflowException, AirflowSkipException
from ..processes.supervisor import die_with_parent

CALLER = Path(__file__).with_name("other_python_main.py")
GIVEN = (
    "conf", "ds", "ds_nodash", "map_index_template", "params", "run_id", "task_instance_key_str", "templates_dict",
    "ts", "ts_nodash", "ts_nodash_with_tz",
)  # fmt: skip
"""What of the context may go to another interpreter: plain data (Airflow: BASE_SERIALIZABLE_CONTEXT_KEYS)."""


def call(
    work: OtherPython,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    values: Mapping[str, Any],
    stopping: list[Callable[[], Any]],
) -> Any:
    """What the function returns. What it prints goes to the task's log; *stopping* gets what ends it early.

    Raises an exception of the name and message that it failed with.
    """
    with tempfile.TemporaryDirectory(prefix="tidemill-python-") as folder:
        place = Path(folder)
        python = work.python or _environment(work, place, stopping)
        _leave_call(work, place, args, {**kwargs, **_of_context(work.function, kwargs, len(args), values)})
        environment = {**(os.environ if work.inherit_env else {}), **work.env_vars}
        code = _run([python, "-I", str(CALLER), str(place), work.serializer], stopping, environment)
        if code in work.skip_on_exit_code:
            raise AirflowSkipException(f"exit code {code}")
        return _answer(work, place, python, code)


def _leave_call(work: OtherPython, place: Path, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    (place / "function.py").write_text(source_of(work.function))
    call = {"args": [*args], "kwargs": dict(kwargs)}
    (place / "call").write_bytes(importlib.import_module(work.serializer).dumps(call, protocol=4))
    (place / "name").write_text(work.function.__name__)


def _answer(work: OtherPython, place: Path, python: str, code: int) -> Any:
    if (place / "failure.json").exists():
        failure = json.loads((place / "failure.json").read_text())
        raise type(failure["type"], (AirflowException,), {})(failure["message"])
    if code != 0 or not (place / "result").exists():
        raise AirflowException(f"{python} ended with exit code {code} and left no result; its last words are above")
    return importlib.import_module(work.serializer).loads((place / "result").read_bytes())


def source_of(function: Callable[..., Any]) -> str:
    """The function alone, without its decorators. Raises InvalidInputError where it has no source, such as a lambda."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(text)
    except (OSError, SyntaxError, TypeError):
        tree = ast.Module(body=[], type_ignores=[])
    found = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
    if found is None:
        raise InvalidInputError(f"{function}: only a function that is written with `def` goes to another interpreter")
    found.decorator_list = []
    return f"from __future__ import annotations\n{ast.unparse(found)}\n"


def _of_context(
    function: Callable[..., Any], kwargs: Mapping[str, Any], positional: int, values: Mapping[str, Any]
) -> dict[str, Any]:
    parameters = [*inspect.signature(function).parameters.values()][positional:]
    names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        names = [*GIVEN]
    return {name: values[name] for name in names if name in GIVEN and name in values and name not in kwargs}


def _environment(work: OtherPython, place: Path, stopping: list[Callable[[], Any]]) -> str:
    """The interpreter of an environment with what *work* requires."""
    if work.venv_cache_path is None:
        return _made(work, place / "venv", stopping)
    key = json.dumps([sys.version, work.python_version, work.requirements, work.system_site_packages,
                      work.pip_install_options, work.index_urls])  # fmt: skip
    folder = Path(work.venv_cache_path, f"venv-{sha256(key.encode()).hexdigest()[:16]}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _made(work, folder, stopping)
            (folder / "complete").touch()
    return str(folder / "bin" / "python")


def _made(work: OtherPython, folder: Path, stopping: list[Callable[[], Any]]) -> str:
    python = sys.executable if work.python_version is None else shutil.which(f"python{work.python_version}")
    if python is None:
        raise InvalidInputError(
            f"python_version = {work.python_version!r}: there is no python{work.python_version} on this worker's PATH. "
            "Install it there, or leave python_version out"
        )
    site = ["--system-site-packages"] if work.system_site_packages else []
    _must(["-m", "venv", *site, str(folder)], python, stopping)
    mine = str(folder / "bin" / "python")
    if work.requirements:
        needed = folder / "requirements.txt"
        needed.write_text("\n".join(work.requirements))
        index = [part for url, flag in zip(work.index_urls, _flags(), strict=False) for part in (flag, url)]
        options = ["--disable-pip-version-check", "--quiet", *index, *work.pip_install_options]
        _must(["-m", "pip", "install", *options, "-r", str(needed)], mine, stopping)
    return mine


def _flags() -> Sequence[str]:
    return ["--index-url", *["--extra-index-url"] * 20]


def _must(arguments: list[str], python: str, stopping: list[Callable[[], Any]]) -> None:
    code = _run([python, *arguments], stopping, os.environ)
    if code != 0:
        raise AirflowException(f"the environment could not be made: {' '.join(arguments[:3])} ended with {code}")


def _run(argv: Sequence[str], stopping: list[Callable[[], Any]], environment: Mapping[str, str]) -> int:
    try:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=dict(environment), preexec_fn=die_with_parent)
    except OSError as error:
        raise InvalidInputError(f"python = {argv[0]!r}: {error}. Give an interpreter of this worker's host") from None
    stopping.append(process.terminate)
    try:
        return process.wait()
    finally:
        stopping.remove(process.terminate)
