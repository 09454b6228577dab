"""Refused as a whole: slots of another team's pool, and its asset."""

from tidemill import DAG, Asset, BashOperator

with DAG("c_takes"):
    BashOperator(task_id="slots", bash_command="sleep 600", pool="a_pool")
    BashOperator(task_id="tells", bash_command="true", outlets=[Asset("a_sales")])
