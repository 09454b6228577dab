"""Names of Airflow's that are written no more, with what to write instead."""

DROPPED: dict[str, dict[str, str]] = {
    "DAG": {
        "schedule_interval": "Write schedule=...",
        "timetable": "Write schedule=...",
        "concurrency": "Write max_active_tasks=...",
        "fail_stop": "Write fail_fast=...",
        "default_view": "Leave it out",
        "orientation": "Leave it out",
        "full_filepath": "Leave it out",
    },
    "group": {},
    "task": {
        "provide_context": "Leave it out: a function is given what it has an argument for, or **kwargs",
        "execution_date": "Write logical_date=...",
        "task_concurrency": "Write max_active_tis_per_dag=...",
        "execution_date_fn": "Write execution_delta=..., or what it finds out as a @task.sensor",
        "logical_date_fn": "Write execution_delta=..., or what it finds out as a @task.sensor",
        "retry_policy": "Write no_retry_on=[...] or retry_only_on=[...], with the names of exceptions",
        "output_processor": "Write the command as @task.bash, or work on its result in the next task",
        "index_urls_from_connection_ids": "Write index_urls=[...], or set PIP_INDEX_URL for the worker's tasks",
        "use_dill": "Leave it out",
        "schedule_interval": "It belongs to the DAG: DAG(schedule=...)",
    },
}
"""By whose it is: names that Airflow 3 has dropped, or that would change what is done, with what to write instead."""
