"""The fork servers of a worker: whose children they make, and how one is started that has Airflow imported."""

import os
import threading
from dataclasses import replace
from pathlib import Path

from .call import ForkSettings
from .forks import Forks
from .users import RunAs

WARM_UP = "tidemill.activities.work.airflow.prefork:warm_up"
NO_DATABASE = "airflow-db-not-allowed:///"
"""No task and no DAG file has Airflow's metadata database: there is none."""
PASSED_ON = ("AIRFLOW_HOME", "AIRFLOW__*")


class Children:
    """Fork servers of one worker: one for each user that code runs as, and each interpreter that has imported Airflow.

    Safe to use from many threads.
    """

    def __init__(self, settings: ForkSettings, home: Path) -> None:
        self._settings = settings
        self._home = home
        self._forks: dict[tuple[RunAs | None, str | None], Forks] = {}
        self._lock = threading.Lock()

    def of(self, run_as: RunAs | None, airflow_python: str | None = None) -> Forks:
        """The one for code of *user*, of the interpreter *airflow_python* where the code needs Airflow."""
        with self._lock:
            if (run_as, airflow_python) not in self._forks:
                settings = replace(self._settings, run_as=run_as)
                if airflow_python is not None:
                    settings = settings_with_airflow(settings, airflow_python, self._home)
                self._forks[run_as, airflow_python] = Forks(settings)
            return self._forks[run_as, airflow_python]

    def close(self) -> None:
        """Ends every child."""
        with self._lock:
            for forks in self._forks.values():
                forks.close()


def settings_with_airflow(settings: ForkSettings, python: str, home: Path) -> ForkSettings:
    """*settings* for children of the interpreter *python*; Airflow's own files, if it needs any, are below *home*."""
    return replace(
        settings,
        log=settings.log.with_name("airflow_dag_files.log"),
        preload=(*settings.preload, WARM_UP),
        environment=(*settings.environment, *PASSED_ON),
        python=python,
        fixed_environment={**settings.fixed_environment, **airflow_variables(python, home)},
    )


def airflow_variables(python: str, home: Path) -> dict[str, str]:
    """What processes with Airflow find in their environment, whatever the worker's own says."""
    return {
        "AIRFLOW_HOME": os.environ.get("AIRFLOW_HOME", str((home / "airflow").absolute())),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": NO_DATABASE,
        # `python` is what Airflow makes virtual environments with.
        "PATH": os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", os.defpath)]),
    }
