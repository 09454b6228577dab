"""Airflow's BaseHook: what hooks of one's own are derived from."""

import logging
from typing import Any

from .secrets import Connection


class BaseHook:
    """A way to another system; ``get_connection`` says where that is and who may enter (Airflow: BaseHook)."""

    def __init__(self, logger_name: str | None = None, **_: Any) -> None:
        self._logger_name = logger_name

    @classmethod
    def get_connection(cls, conn_id: str) -> Connection:
        """The connection of that id. Raises InvalidInputError if nobody has it."""
        return Connection.get(conn_id)

    def get_conn(self) -> Any:
        """A client of the other system. Overridden by every hook that has one."""
        raise NotImplementedError(f"class {type(self).__name__} has no get_conn(). Write one")

    @property
    def log(self) -> logging.Logger:
        """Goes to the task's log."""
        name = self._logger_name or f"airflow.task.hooks.{type(self).__module__}.{type(self).__name__}"
        return logging.getLogger(name)
