"""Changes by the command line are in the audit log: who, where, which command, about what, and how it ended."""

import getpass
import socket
from pathlib import Path
from typing import Any

from support import Stack, dag, empty, told
from tidemill.worker.cli import Commands, app
from tidemill.worker.cli.audited import CHANGES, NAMED
from typer.main import get_command

READS = {
    *("dags list", "dags show", "dags explain", "dags preview", "dags test", "dags validate", "dags diff"),
    *("dags files", "dags errors", "runs list", "runs show", "runs gantt", "tasks explain", "tasks show", "tasks list"),
    *("tasks test", "tasks render", "tasks logs", "pools list", "pools show", "assets list", "assets show"),
    *("assets events", "assets graph", "variables list", "variables get", "variables test", "variables new-key"),
    "connections list",
    *("connections get", "connections test", "backfill list", "backfill show", "migrate check", "simulate", "replay"),
    *("bundles list", "api-tokens list", "audit", "health"),
}
PROCESSES = {"worker", "api-server", "dev", "connect", "demo", "ui install", "init"}


def names(group: Any, before: str = "") -> set[str]:
    """Every command below *group*, as it is called."""
    found = set()
    for name, inner in group.commands.items():
        command = group._imported(name) if hasattr(group, "_imported") else inner
        found |= names(command, f"{before}{name} ") if hasattr(command, "commands") else {f"{before}{name}"}
    return found


def test_of_every_command_it_is_said_whether_it_changes_something() -> None:
    group = get_command(app)
    assert isinstance(group, Commands)
    assert names(group) == CHANGES | READS | PROCESSES
    assert not CHANGES & (READS | PROCESSES)


CONTENTS = {
    *("conf", "params", "extra", "cause", "value", "text", "description", "token", "secrets_file"),
    *("git", "airflow_db", "airflow_api"),  # addresses may hold passwords
    *("as_json", "yes", "watch", "home", "dry_run", "help"),  # how a command is used
}
"""Parameters of changes that are in no line."""


def test_of_each_parameter_of_a_change_it_is_known_whether_its_line_has_it() -> None:
    group = get_command(app)
    found = set()
    for path in CHANGES:
        command: Any = group
        for name in path.split():
            command = command._imported(name) if hasattr(command, "_imported") else command.commands[name]
        found |= {parameter.name for parameter in command.params}
    assert found - NAMED - CONTENTS == set()
    assert found >= NAMED, "a name of nothing"
    assert not NAMED & CONTENTS


async def lines(here: Stack) -> list[tuple[str, int, dict[str, str]]]:
    found = await told(here, "audit", "--json")
    for line in found:
        assert (line["who"], line["role"], line["address"]) == (getpass.getuser(), "command line", socket.gethostname())
    return [(line["operation"], line["status"], line["about"]) for line in reversed(found)]


async def test_changes_are_kept_and_what_only_looks_is_not(here: Stack, tmp_path: Path) -> None:
    await here.tidemill.dags.register(dag("audited_cli", [empty("a")]))
    await told(here, "dags", "list")
    await told(here, "dags", "pause", "audited_cli")
    await told(here, "dags", "pause", "not_there", code=1)
    await told(here, "dags", "trigger", "audited_cli", "--run-id", "r", "--conf", '{"password": "s3cret"}')
    await told(here, "pools", "set", "audited_pool", "3")
    await told(here, "runs", "clear", "--failed", "--since", "1h", "--dry-run")
    assert await lines(here) == [
        ("cli.dags.pause", 200, {"dag_id": "audited_cli"}),
        ("cli.dags.pause", 400, {"dag_id": "not_there"}),
        ("cli.dags.trigger", 200, {"dag_id": "audited_cli", "run_id": "r"}),
        ("cli.pools.set", 200, {"name": "audited_pool", "slots": "3"}),
    ]
    assert "s3cret" not in (here.home / "audit.jsonl").read_text()
    text = await told(here, "audit")
    assert "cli.dags.trigger" in text
