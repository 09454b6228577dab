"""Refused as a whole: a dag_id of another team's."""

from tidemill import DAG, BashOperator

with DAG("b_stock"):
    BashOperator(task_id="mine", bash_command="echo run by c in the name of b")
