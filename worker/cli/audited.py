"""What people change by the command line, as lines of the audit log in the home of this host."""

import getpass
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import typer

CHANGES = frozenset((
    "dags trigger", "dags pause", "dags unpause", "dags assign", "dags delete", "dags register",
    "runs clear", "runs mark", "runs set-conf", "runs cancel", "runs delete",
    "tasks clear", "tasks mark", "tasks respond",
    "pools set", "pools delete", "assets pause", "assets unpause", "assets emit", "assets materialize",
    "variables set", "variables delete", "connections add", "connections delete",
    "backfill create", "backfill pause", "backfill resume", "backfill cancel",
    "bundles set", "bundles refresh", "bundles delete", "migrate import", "cleanup", "doctor",
    "api-tokens create", "api-tokens revoke",
))  # fmt: skip
"""The commands after which something is not as it was."""
NAMED = frozenset((
    "dag_id", "run_id", "tasks", "task", "state", "name", "slots", "key", "conn_id", "backfill_id", "dag", "since",
    "failed", "only_failed", "upstream", "downstream", "past", "future", "latest", "logical_date", "from_date",
    "to_date", "reprocess", "max_active_runs", "chosen", "by", "role", "older_than", "bundle", "by_hand",
    "all_removed", "partition", "paths", "path", "no_logical_date", "run_after", "cancel_runs", "run_backwards",
    "include_deferred", "ref", "subdir", "interval", "min_interval", "parsing_processes", "keep_running", "regexp",
    "all_files", "owns", "tag", "security", "repairs", "lake",
))  # fmt: skip
"""Which of their parameters say what a change is about. Confs and values may hold anything, and are left out."""


def keep_changes(command: Any) -> None:
    """Has *command*, or those of the group, write a line after each change."""
    for inner in getattr(command, "commands", {}).values():
        keep_changes(inner)
    if not hasattr(command, "commands"):
        command.invoke = partial(_invoke, command.invoke)


def _invoke(invoke: Callable[[Any], Any], ctx: Any) -> Any:
    path = ctx.command_path.partition(" ")[2]
    if path not in CHANGES or ctx.params.get("dry_run") or (path == "doctor" and not ctx.params.get("repairs")):
        return invoke(ctx)
    status = 500
    try:
        result = invoke(ctx)
        status = 200
        return result
    except typer.Exit as end:
        status = 200 if end.exit_code == 0 else 400
        raise
    finally:
        with suppress(Exception):  # what is done is done, whatever becomes of the line
            _write(path, ctx.params, status)


def _write(path: str, params: Mapping[str, Any], status: int) -> None:
    from ...activities.audit import AUDIT_FILE, LONGEST, AuditLog
    from .home import with_home

    home = with_home(params.get("home")).home
    if not os.access(home, os.W_OK):  # no home of this user's is here: Temporal's own history is all there is
        return
    about = {name: str(value)[:LONGEST] for name, value in params.items() if name in NAMED and value}
    line = {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "who": _user(),
        "role": "command line",
        "address": socket.gethostname(),
        "operation": f"cli.{path.replace(' ', '.')}",
        "method": None,
        "path": "",
        "status": status,
        "about": about,
    }
    AuditLog(home / AUDIT_FILE).add(line)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container there may be a number only
        return str(os.getuid())
