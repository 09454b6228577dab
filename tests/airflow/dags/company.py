"""Uses what a plugin offers, and passes on what an XCom backend keeps."""

from __future__ import annotations

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, task

with DAG("company", schedule=None):

    @task
    def gives():
        return "what is large"

    @task
    def takes(value):
        assert value == "what is large", value

    given = gives()
    takes(given)
    shouts = BashOperator(task_id="shouts", bash_command="echo '{{ macros.company.shout(ti.xcom_pull('gives')) }}'")
    given >> shouts
