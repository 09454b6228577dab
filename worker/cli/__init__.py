"""The command line, put together."""

from importlib.metadata import version
from typing import Annotated

import typer

from ...activities.processes.supervisor import hide_memory
from .lazy import LazyGroup


class Commands(LazyGroup):
    places = {
        "dags": ("dags:app", "Register, look at, pause and trigger DAGs."),
        "runs": ("runs:app", "List runs, look into one, run one again."),
        "tasks": ("tasks:app", "Clear and mark tasks of a run, explain them, read their logs."),
        "pools": ("pools:app", "Make pools, and see who holds their slots."),
        "assets": ("assets:app", "See which data DAGs write and wait for, and tell of data from outside."),
        "variables": ("secrets:variables", "Look up variables as a task on this host would."),
        "connections": ("secrets:connections", "Look up connections as a task on this host would, and test them."),
        "backfill": ("backfills:app", "Run a DAG over a range of the past."),
        "migrate": (
            "migrate:app",
            "Move here from an Airflow: check its DAG files, bring over what it knows.",
        ),
        "simulate": (
            "simulate:simulate_command",
            "Say what DAGs will do over a time: runs, delays, queues. Nothing is run.",
        ),
        "replay": (
            "replay:replay_command",
            "Tell the decisions of a run or a DAG step by step: what was known, what was decided, why nothing else.",
        ),
        "bundles": ("bundles:app", "Keep the DAGs of folders and repositories registered."),
        "worker": (
            "processes:worker",
            "Run a worker: it polls the task queue until it is stopped by SIGINT or SIGTERM.",
        ),
        "api-server": (
            "web:api_server",
            "Serve Airflow's REST API and user interface, for the DAGs of a Temporal namespace.",
        ),
        "api-tokens": ("web:tokens", "Make and take back tokens by which people and programs use the API."),
        "audit": (
            "web:audit",
            "List who changed what, through the web or by commands on this host, and what was refused.",
        ),
        "ui": ("web:ui", "The user interface is Apache Airflow's, unchanged: its files come from the package index."),
        "init": (
            "init:init",
            "Begin a project: a DAG, where Spark is installed another for it, a test, and files for git and CI.",
        ),
        "dev": (
            "processes:dev",
            "Run everything for daily use on one machine: Temporal, a worker, Spark Connect, and a folder of DAGs.",
        ),
        "connect": (
            "connect:connect",
            "Run a Spark Connect server, and start it again when it ends or does not answer any more.",
        ),
        "demo": (
            "processes:demo",
            "Catch up on a real week of flights with Spark, from an empty folder to a chart.",
        ),
        "doctor": (
            "doctor:doctor",
            "Check Python, Java, Spark and Temporal, and say what to do about what is missing.",
        ),
        "health": (
            "health:health",
            "Say which workers poll the task queue; the exit code is 1 if there is none (Airflow: jobs check).",
        ),
        "cleanup": (
            "processes:cleanup",
            "Remove logs, attempts, results and kept code that nobody needs any more, from this host and the store.",
        ),
    }


app = typer.Typer(
    name="tidemill",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidemill {version('tidemill')}")
        raise typer.Exit


@app.callback()
def main(
    _: Annotated[
        bool, typer.Option("--version", callback=say_version, is_eager=True, help="Print the version, and end.")
    ] = False,
) -> None:
    """Airflow's contract, Temporal's guarantees: DAGs scheduled and run by durable workflows."""
    hide_memory()  # of commands, too: they have the keys to Temporal and the secrets that workers have
