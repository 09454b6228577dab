"""Airflow's settings: which of them tidemill reads, and what takes the place of the others."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

Name = tuple[str, str]
"""Section and option."""
PREFIX = "AIRFLOW__"


def _same(value: Any) -> Any:
    return value


def _listed(value: Any) -> list[str]:
    return [name.strip() for name in str(value).split(",") if name.strip()]


READ: dict[Name, tuple[str, Callable[[Any], Any]]] = {
    ("core", "dags_folder"): ("dags_folder", _same),
    ("core", "dags_are_paused_at_creation"): ("dags_are_paused_at_creation", _same),
    ("core", "parallelism"): ("parallelism", lambda value: value or None),
    ("core", "default_impersonation"): ("run_as", lambda value: value or None),
    ("core", "sensitive_var_conn_names"): ("masked_names", _listed),
    ("core", "killed_task_cleanup_time"): ("grace_seconds", _same),
    ("celery", "worker_concurrency"): ("max_concurrent_activities", _same),
    ("logging", "remote_base_log_folder"): ("log_url", _same),
    ("api", "base_url"): ("base_url", _same),
    ("logging", "json_format"): ("log_format", lambda value: "json" if value else "text"),
}
"""Those that the settings file may have: the field of `Settings`, and how the value is read."""

_NO_LOOP = "it has no effect: no scheduler loop polls a database; a DAG wakes up when a run is due"
_NO_LOCK = "it has no effect: nothing is locked; one workflow creates all runs of a DAG"
_NO_DATABASE = "it has no effect: tidemill has no database; set TEMPORAL_ADDRESS for the Temporal service"
_IN_DAG = "set {} of DAG(...)"
_IN_DEFAULT_ARGS = "set {} in default_args of DAG(...)"
_OF_BUNDLE = "set it for each bundle: tidemill bundles set NAME PATH {}"

INSTEAD: dict[Name, str] = {
    (
        "core",
        "executor",
    ): "there are no executors: set queue of a task to the Temporal task queue of the workers it needs",
    ("core", "default_timezone"): _IN_DAG.format("timezone") + "; it is UTC by default",
    ("core", "max_active_tasks_per_dag"): _IN_DAG.format("max_active_tasks") + "; it is 16 by default",
    ("core", "max_active_runs_per_dag"): _IN_DAG.format("max_active_runs") + "; it is 16 by default",
    ("core", "max_consecutive_failed_dag_runs_per_dag"): _IN_DAG.format("max_consecutive_failed_dag_runs"),
    ("core", "default_task_retries"): _IN_DEFAULT_ARGS.format("retries"),
    ("core", "default_task_retry_delay"): _IN_DEFAULT_ARGS.format("retry_delay"),
    ("core", "default_task_execution_timeout"): _IN_DEFAULT_ARGS.format("execution_timeout"),
    ("core", "default_task_weight_rule"): _IN_DEFAULT_ARGS.format("weight_rule"),
    ("core", "default_pool_task_slot_count"): "tasks that name no pool are in none; set parallelism to limit all tasks",
    ("core", "load_examples"): "it has no effect: no DAG is loaded that is not in your folders",
    ("core", "lazy_load_plugins"): "it has no effect: plugins are Airflow's, and load with DAG files that import it",
    ("core", "dagbag_import_timeout"): "a file has 50 seconds to be imported",
    ("core", "fernet_key"): "set TIDEMILL_FERNET_KEY for variables and connections that are kept here; "
    "histories are encrypted by a codec of Temporal's client (TIDEMILL_CLIENT_PLUGINS)",
    ("scheduler", "scheduler_heartbeat_sec"): _NO_LOOP,
    ("scheduler", "scheduler_idle_sleep_time"): _NO_LOOP,
    ("scheduler", "num_runs"): _NO_LOOP,
    ("scheduler", "job_heartbeat_sec"): _NO_LOOP,
    ("scheduler", "max_dagruns_to_create_per_loop"): _NO_LOOP,
    ("scheduler", "max_dagruns_per_loop_to_schedule"): _NO_LOOP,
    ("scheduler", "max_tis_per_query"): _NO_LOOP,
    ("scheduler", "use_row_level_locking"): _NO_LOCK,
    ("scheduler", "run_duration"): "start workers with `tidemill worker --run-duration SECONDS`",
    ("scheduler", "catchup_by_default"): _IN_DAG.format("catchup") + "; it is off by default",
    ("scheduler", "create_cron_data_intervals"): _IN_DAG.format('schedule_kind ("data_interval" or "trigger")'),
    ("scheduler", "create_delta_data_intervals"): _IN_DAG.format('schedule_kind ("data_interval" or "trigger")'),
    ("scheduler", "task_instance_heartbeat_timeout"): _IN_DAG.format("heartbeat_timeout")
    + "; it is 5 minutes by default",
    ("scheduler", "scheduler_zombie_task_threshold"): _IN_DAG.format("heartbeat_timeout"),
    ("scheduler", "dag_dir_list_interval"): _OF_BUNDLE.format("--interval SECONDS"),
    ("scheduler", "min_file_process_interval"): _OF_BUNDLE.format("--min-interval SECONDS"),
    ("scheduler", "parsing_processes"): _OF_BUNDLE.format("--parsing-processes N"),
    ("dag_processor", "refresh_interval"): _OF_BUNDLE.format("--interval SECONDS"),
    ("dag_processor", "min_file_process_interval"): _OF_BUNDLE.format("--min-interval SECONDS"),
    ("dag_processor", "parsing_processes"): _OF_BUNDLE.format("--parsing-processes N"),
    ("dag_processor", "dag_bundle_config_list"): "make bundles: tidemill bundles set NAME PATH",
    ("database", "sql_alchemy_conn"): _NO_DATABASE,
    ("secrets", "backend"): "set TIDEMILL_SECRETS_BACKEND",
    ("secrets", "backend_kwargs"): "set TIDEMILL_SECRETS_BACKEND_KWARGS",
    ("metrics", "statsd_on"): "set TIDEMILL_METRICS_ADDRESS: metrics are served for Prometheus",
    ("traces", "otel_on"): "install tidemill[otel], and set OTEL_EXPORTER_OTLP_ENDPOINT",
}
"""Those that people look for and that are set elsewhere, or have no effect: what to do instead."""


def notice(name: Name) -> str:
    """What somebody is told who has set an option that is not read."""
    section, option = name
    if name in INSTEAD:
        return f"[{section}] {option}: {INSTEAD[name]}"
    known = {f"[{section}] {option}": None for section, option in (*READ, *INSTEAD)}
    nearest = get_close_matches(f"[{section}] {option}", known, n=1, cutoff=0.85)
    remedy = f". Did you mean {nearest[0]}?" if nearest else ""
    return f"[{section}] {option}: tidemill has no counterpart{remedy}"


def of_environment(variables: Mapping[str, str]) -> list[Name]:
    """The options that *variables* set as Airflow has it: `AIRFLOW__SECTION__OPTION`."""
    found = (name.removeprefix(PREFIX).lower().split("__", 1) for name in variables if name.startswith(PREFIX))
    return sorted((parts[0], parts[1]) for parts in found if len(parts) == 2)


def notices_of_environment(names: Iterable[Name], is_set: Callable[[str], bool]) -> list[str]:
    """What to say of *names* in the environment: tidemill does not read them, Airflow's own code does.

    *is_set* tells whether a field of `Settings` has been given a value.
    """
    notices: list[str] = []
    for name in names:
        variable = f"{PREFIX}{name[0].upper()}__{name[1].upper()}"
        if name in READ and not is_set(READ[name][0]):
            notices.append(f"{variable} is not read by tidemill. Set TIDEMILL_{READ[name][0].upper()}")
        elif name in INSTEAD:
            notices.append(f"{variable} is not read by tidemill: {INSTEAD[name]}")
    return notices
