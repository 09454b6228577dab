"""An Airflow DAG of the TaskFlow kind; of the file that it was, only the lines that import have changed.

Results of several values, params, groups, mapping, a virtual environment, and conditions.
"""

from datetime import datetime

from tidemill import Param, dag, task, task_group


@dag(
    dag_id="ported_taskflow",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    params={"factor": Param(3, type="integer", minimum=1), "publish": Param(False, type="boolean")},
    tags=["ported"],
)
def ported_taskflow():
    @task(multiple_outputs=True)
    def extract():
        return {"numbers": [1, 2, 3], "source": "orders"}

    @task_group
    def transform(numbers):
        @task
        def scale(number, params=None):
            return number * params["factor"]

        @task.virtualenv(requirements=[], system_site_packages=False)
        def total(values):
            import sys

            return {"sum": sum(values), "isolated": sys.prefix != sys.base_prefix}

        return total(scale.expand(number=numbers))

    @task
    def load(summary, source, *, run_id=None):
        print(f"{run_id}: {source} comes to {summary['sum']}")
        return summary["sum"]

    @task.run_if(lambda context: context["params"]["publish"], skip_message="nobody asked for it")
    @task
    def publish(amount):
        print(f"published {amount}")

    extracted = extract()
    publish(load(transform(extracted["numbers"]), extracted["source"]))


ported_taskflow()
