"""Runs the DAGs of one file by Airflow's own `dag.test()`, with a metadata database; prints the end states as JSON.

For the Python of an environment with Airflow. Usage: reference_run.py FILE SECONDS_PER_DAG LOGICAL_DATE CONF_BY_DAG
"""

import json
import os
import signal
import sys
from pathlib import Path

LINE = "REFERENCE "


class TooLongError(BaseException):
    """A DAG was not done in its time."""


def _too_long(*_: object) -> None:
    raise TooLongError


def main(path: str, seconds: str, date: str, conf: str) -> None:
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db

    signal.signal(signal.SIGALRM, _too_long)
    DagBundlesManager().sync_bundles_to_db()
    bag = BundleDagBag(dag_folder=path, bundle_path=Path(path).parent, bundle_name="dags-folder")
    sync_bag_to_db(bag, "dags-folder", None)
    for dag_id in sorted(bag.dags):
        states = _states(bag.dags[dag_id], int(seconds), date, json.loads(conf).get(dag_id))
        print("\n" + LINE + json.dumps({dag_id: states}), flush=True)


def _states(dag: object, seconds: int, date: str, conf: object) -> dict[str, str | None] | str:
    import pendulum

    signal.alarm(seconds)
    try:
        run = dag.test(logical_date=pendulum.parse(date), run_conf=conf)
        instances = run.get_task_instances()
    except TooLongError:
        return "too long"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:200]
    finally:
        signal.alarm(0)
    return {
        one.task_id + (f"[{one.map_index}]" if one.map_index >= 0 else ""): str(one.state) if one.state else None
        for one in instances
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)
