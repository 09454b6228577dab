"""The smallest DAG that shows how tasks are written and how data goes from one to the next."""

from datetime import datetime, timedelta

from tidemill import DAG, EmptyOperator, task

with DAG(
    dag_id="hello_python",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    params={"name": "world"},
) as dag:

    @task
    def greet(params: dict[str, str] | None = None) -> str:
        return f"hello {(params or {})['name']}"

    @task
    def count(text: str) -> dict[str, int]:
        return {"letters": len(text), "words": len(text.split())}

    @task.bash
    def show(numbers: dict[str, int]) -> str:
        return f"echo {numbers['words']} words on {{{{ ds | default('no date') }}}}"

    show(count(greet())) >> EmptyOperator(task_id="done")
