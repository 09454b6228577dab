"""Makes a process one that has imported Airflow: once for all DAG files and tasks that need it, before the first fork.

Nothing of Airflow's own machinery comes with it: no metadata database, no configuration file, no folders.
"""

import os
from typing import Any

from .decoding import keep

AS_LIBRARY = "_AIRFLOW__AS_LIBRARY"
"""Without it, importing Airflow sets up its database access and its logging."""


def warm_up() -> None:
    """Imports what tasks need, and does once what Airflow leaves to its own start."""
    os.environ[AS_LIBRARY] = "1"
    try:
        from airflow import settings

        settings.configure_vars()
        settings.prepare_syspath_for_config_and_plugins()  # an XCom backend may be there, which the next line imports
        from airflow.sdk.execution_time import comms, supervisor, task_runner  # noqa: F401
        from pydantic import TypeAdapter
    finally:
        # Left in place, it would be told to environments of other Pythons below a task, which it stops.
        del os.environ[AS_LIBRARY]
    _log_as_others_do()
    settings.load_policy_plugins(settings.get_policy_plugin_manager())
    settings.import_local_settings()
    # What the module makes for itself is made anew for each task; built once, it costs nothing.
    keep(TypeAdapter(comms.ToTask))
    _import_what_most_use()
    supervisor.block_orm_access()
    from . import warm_task

    warm_task.run()


def _log_as_others_do() -> None:
    """Has Airflow's loggers write where all of a child's loggers write."""
    import structlog

    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.processors.StackInfoRenderer(),
            _as_one_line,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _as_one_line(_logger: Any, _method: str, event: dict[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
    """An event and its values, as one text for `logging`."""
    text = str(event.pop("event", ""))
    known: dict[str, Any] = {
        name: event.pop(name) for name in ("exc_info", "stack_info", "stacklevel") if name in event
    }
    values = " ".join(f"{name}={value!r}" for name, value in event.items() if name not in ("logger", "level"))
    return (f"{text} {values}".strip(),), known


def _import_what_most_use() -> None:
    import jinja2.sandbox  # noqa: F401
    from airflow.providers.standard.operators import bash, empty, python  # noqa: F401
    from airflow.sdk import plugins_manager
    from airflow.sdk.execution_time import context, xcom  # noqa: F401
    from airflow.sdk.serde import serialize
    from airflow.serialization import encoders  # noqa: F401

    serialize({"warm": [1]})
    plugins_manager.integrate_macros_plugins()
