"""Airflow's arguments that tidemill has not, and what becomes of each: the source of notices, errors and documentation.

What is not in these tables either works, or no release of Airflow that is of interest has it.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from ..dropped_arguments import DROPPED
from ..errors import InvalidInputError
from ..spec.tasks import BashFunctionTask, BashSensorTask, BashTask, CallTask, SparkWork, WaitingTask, kinds_of

MAIL = "no mail is sent for it. Give on_failure_callback or on_retry_callback an EmailNotifier(to=...)"
LOOKS = "it is not kept: the web has its own looks"
EXECUTORS = "there are no executors. `queue` names the Temporal task queue, and so the workers, that a task goes to"

ACCEPTED: dict[str, dict[str, str]] = {
    "DAG": {
        "access_control": "who may do what is decided by roles and tags of API tokens, and by Temporal's namespaces",
        "auto_register": "a DAG that is made while its file is imported is registered",
        "owner_links": LOOKS,
        "task_group": "the DAG makes its groups by itself",
        "template_undefined": "a name that is not there is an error, as by Airflow's default",
    },
    "group": {
        "ui_color": LOOKS,
        "ui_fgcolor": LOOKS,
        "group_display_name": LOOKS,
        "add_suffix_on_collision": "a group_id is used once",
    },
    "task": {
        "email": MAIL,
        "email_on_failure": MAIL,
        "email_on_retry": MAIL,
        "executor": EXECUTORS,
        "executor_config": EXECUTORS,
        "resources": EXECUTORS,
        "allow_nested_operators": "operators may be made anywhere in the DAG file",
        "wait_for_past_depends_before_skipping": "a task that is skipped is skipped at once",
        "run_as_user": "every task runs as the user that the worker's TIDEMILL_RUN_AS names",
        "ui_color": LOOKS,
        "ui_fgcolor": LOOKS,
        "map_index_template": LOOKS,
        "doc": "write it as doc_md",
        "doc_json": "write it as doc_md",
        "doc_yaml": "write it as doc_md",
        "doc_rst": "write it as doc_md",
        "logger_name": "what a task logs goes to its log, whatever the logger",
        "output_encoding": "what a command prints is read as UTF-8",
        "append_env": "`env` comes on top of the environment that tasks are given (docs/operating.md)",
        "show_return_value_in_logs": "results are not logged",
        "mode": "waiting never holds a worker",
        "deferrable": "waiting never holds a worker",
        "verbose": "what spark-submit prints is in the task's log",
        "spark_binary": "the pip package pyspark, or SPARK_HOME, decides which Spark submits",
        "status_poll_interval": "how often an application is asked after is a setting of the worker",
        "durable": "an application is found again by whoever goes on with its try",
        "reconnect_on_retry": "an application is found again by whoever goes on with its try",
        "yarn_track_via_rm_api": "applications are followed by YARN's REST API",
        "yarn_rm_auth": "the ResourceManager's REST API is asked as the worker's user",
        "post_submit_commands": "give the task an on_success_callback",
        "use_krb5ccache": "a ticket of the worker's user is used where there is one",
        "track_driver_via_k8s_api": "drivers in cluster mode are always followed",
        "openlineage_inject_parent_job_info": "applications are told of their task wherever OpenLineage is configured",
        "openlineage_inject_transport_info": "where events go is openlineage-spark's own configuration",
        "poll_interval": "waiting never holds a worker: poke_interval says how often is looked",
        "silent_fail": "a poke that fails costs a try",
        "never_fail": "write soft_fail",
        "recursive": "a pattern may have ** in it",
        "start_from_trigger": "waiting never holds a worker",
        "end_from_trigger": "waiting never holds a worker",
        "trigger_kwargs": "waiting never holds a worker",
        "note": "notes are written through the API and in the web",
        "openlineage_inject_parent_info": "runs that are triggered are told of as runs of their own",
    },
}
"""By whose it is: arguments that are accepted with a notice and change nothing, with what holds instead."""

WAITS, CALLS, SPARKS = kinds_of(WaitingTask), kinds_of(CallTask), kinds_of(SparkWork)
SHELLS = kinds_of(BashTask, BashFunctionTask, BashSensorTask)
OF_KINDS: dict[str, frozenset[str]] = {
    "poll_interval": frozenset({"external_task", "trigger_dag"}),
    "silent_fail": WAITS | CALLS,
    "never_fail": WAITS | CALLS,
    "recursive": frozenset({"file_sensor"}),
    "start_from_trigger": WAITS,
    "end_from_trigger": WAITS,
    "trigger_kwargs": WAITS,
    "note": frozenset({"trigger_dag"}),
    "openlineage_inject_parent_info": frozenset({"trigger_dag"}),
    "durable": SPARKS,
    "reconnect_on_retry": SPARKS,
    "yarn_track_via_rm_api": SPARKS,
    "yarn_rm_auth": SPARKS,
    "mode": WAITS | CALLS,
    "deferrable": WAITS | CALLS,
    "show_return_value_in_logs": CALLS,
    "output_encoding": SHELLS,
    "append_env": SHELLS,
    "verbose": SPARKS,
    "spark_binary": SPARKS,
    "status_poll_interval": SPARKS,
    "post_submit_commands": SPARKS,
    "use_krb5ccache": SPARKS,
    "track_driver_via_k8s_api": SPARKS,
    "openlineage_inject_parent_job_info": SPARKS,
    "openlineage_inject_transport_info": SPARKS,
}
"""Arguments that only some kinds of task have in Airflow; on any other they are unknown. The rest is for all."""

UNSAID = frozenset({
    "mode", "deferrable", "show_return_value_in_logs", "recursive", "start_from_trigger", "end_from_trigger",
    "trigger_kwargs", "poll_interval", "durable", "reconnect_on_retry", "allow_nested_operators",
})  # fmt: skip
"""Of these, what is as the author wants it either way: nothing is said of it."""


def sorted_out(
    whose: str, what: str, given: Mapping[str, Any], notices: list[str], kind: str | None = None
) -> dict[str, Any]:
    """*given* without what changes nothing here, of which a notice is kept in *notices*.

    *whose* is "DAG", "group" or "task"; *what* names the thing in messages, *kind* is that of the task; None: of
    arguments that are meant for all.

    Raises InvalidInputError for a name that something else has to be written for.
    """
    for name in given:
        if name in DROPPED[whose]:
            raise InvalidInputError(f"{what}: {name} is no argument here. {DROPPED[whose][name]}")
    accepted = {n: reason for n, reason in ACCEPTED[whose].items() if kind is None or kind in OF_KINDS.get(n, {kind})}
    for name, value in given.items():
        notice = f"{whose} argument {name} changes nothing: {accepted.get(name)}"
        if name in accepted and name not in UNSAID and value not in (None, False) and notice not in notices:
            notices.append(notice)
    return {name: value for name, value in given.items() if name not in accepted}


def refuse_unknown(what: str, given: Collection[str], known: Collection[str]) -> None:
    """Raises InvalidInputError for the first of *given*, none of which is known, with what may be meant."""
    for name in given:
        close = difflib.get_close_matches(name, known, 1)
        hint = f"Do you mean {close[0]}?" if close else "Leave it out, or correct its name"
        raise InvalidInputError(f"{what}: there is no argument {name!r}. {hint}")
