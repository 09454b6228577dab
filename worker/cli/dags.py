"""`tidemill dags`, put together."""

import typer

from .lazy import LazyGroup


class DagCommands(LazyGroup):
    places = {
        "list": ("dag_list:list_dags", "List the registered DAGs."),
        "show": ("dag_commands:show_dag", "Show a DAG: when it runs next and why, its limits, its last decisions."),
        "explain": (
            "dag_commands:explain",
            "Say why the next run is due when it is, or why nothing is created, and what was decided last.",
        ),
        "preview": (
            "preview:preview",
            "Show the next runs: logical date, data interval, and when each is due, in UTC and by the local clock.",
        ),
        "test": (
            "dag_commands:try_dag",
            "Run a DAG here and now, without a server: Python functions in this process, as for a debugger.",
        ),
        "trigger": ("dag_commands:trigger", "Create a manual run."),
        "pause": (
            "dag_commands:pause",
            "Create and start no more runs of a DAG, and no more tasks of those under way. Tasks that run go on.",
        ),
        "assign": (
            "dag_commands:assign",
            "Say whose a DAG is: which bundle may replace it. Its file takes effect when it is registered next.",
        ),
        "delete": (
            "dag_commands:delete",
            "End a DAG and forget it, with the histories of its runs. Refused while runs are under way.",
        ),
        "unpause": ("dag_commands:unpause", "Create runs again, as `catchup` says."),
        "register": (
            "dag_files:register",
            "Register the DAGs of a file or folder, or put their new versions in place.",
        ),
        "validate": (
            "dag_files:validate",
            "Check DAG files without a server: exit code 0 if every one can be registered.",
        ),
        "diff": (
            "dag_files:diff",
            "Show what registering a file would do to the schedules of its DAGs, without doing it.",
        ),
        "files": (
            "dag_files:list_files",
            "List the DAG files of every bundle: when they were parsed last, how long that took, their DAGs.",
        ),
        "errors": (
            "dag_files:list_errors",
            "List what is wrong with DAG files, and with bundles as a whole. Exit code 1 if anything is.",
        ),
    }


app = typer.Typer(cls=DagCommands, no_args_is_help=True, add_completion=False)


@app.callback()
def main() -> None:
    """Register, look at, pause and trigger DAGs."""
