"""One file with DAGs of both kinds."""

from airflow.sdk import DAG as AirflowDAG
from airflow.sdk import task as airflow_task
from tidemill import DAG, task

with AirflowDAG("written_for_airflow", schedule=None):

    @airflow_task
    def theirs():
        return "theirs"

    theirs()

with DAG("written_for_tidemill", schedule=None):

    @task
    def ours():
        return "ours"

    ours()
