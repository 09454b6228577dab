"""Pages of the web for runs and tasks, as Airflow's user interface has them: where links in alerts lead."""

from urllib.parse import quote


def run_page(base_url: str, dag_id: str, run_id: str) -> str:
    """Returns the address of a run's page below *base_url*."""
    return f"{base_url.rstrip('/')}/dags/{dag_id}/runs/{quote(run_id)}"


def task_page(base_url: str, dag_id: str, run_id: str, task_id: str, map_index: int, try_number: int) -> str:
    """Returns the address of a try's page, with its log (Airflow: TaskInstance.log_url)."""
    mapped = f"/mapped/{map_index}" if map_index >= 0 else ""
    shown = f"?try_number={try_number}" if try_number > 0 else ""
    return f"{run_page(base_url, dag_id, run_id)}/tasks/{task_id}{mapped}{shown}"
