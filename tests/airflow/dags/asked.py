"""Tasks that wait for people, as public reports have them."""

from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.hitl import (
    ApprovalOperator,
    HITLBranchOperator,
    HITLEntryOperator,
    HITLOperator,
)
from airflow.sdk import DAG, Param, task, task_group
from airflow.sdk.bases.notifier import BaseNotifier


class Broken(BaseNotifier):
    """Reaches nobody."""

    def notify(self, context):
        raise RuntimeError("no smtp")


def after(name):
    return EmptyOperator(task_id=name)


with DAG("short_execution_timeout", schedule=None):
    ask = HITLOperator(
        task_id="ask", subject="s", options=["a", "b"], defaults="b", execution_timeout=timedelta(seconds=2)
    )
    ask >> after("after")

with DAG("nobody_answers", schedule=None, default_args={"retries": 0}):
    soon = timedelta(seconds=2)
    fails = HITLOperator(task_id="fails", subject="s", options=["a"], response_timeout=soon)
    fails >> after("after")
    fails >> EmptyOperator(task_id="cleanup", trigger_rule="all_done")
    rejects = ApprovalOperator(task_id="rejects", subject="s", defaults="Reject", response_timeout=soon)
    rejects >> after("behind")

with DAG("choices", schedule=None):
    HITLOperator(task_id="one", subject="s", options=["a", "b", "c"])
    HITLOperator(task_id="many", subject="s", options=["a", "b", "c"], multiple=True, defaults=["a", "b"])

with DAG("kept", schedule=None):
    asked = HITLOperator(task_id="ask", subject="s", options=["a", "b"])

    @task
    def read(answer):
        return [answer["chosen_options"], answer["responded_by_user"]["id"]]

    read(asked.output)

with DAG("forms", schedule=None, params={"of_the_dag": "x"}, default_args={"retries": 0}):
    entry = HITLEntryOperator(
        task_id="entry",
        subject="s",
        params={
            "n": Param(5, type="integer", minimum=3),
            "day": Param("2026-01-01", type="string", format="date"),
            "until": Param(None, type=["string", "null"], format="date"),
            "any": Param({}, type="object"),
        },
    )
    entry >> after("after")

with DAG("form_without_default", schedule=None, default_args={"retries": 0}):
    HITLOperator(task_id="ask", subject="s", options=["ok"], params={"must": Param(type="integer")})

with DAG("assigned", schedule=None):
    ApprovalOperator(task_id="ask", subject="s", assigned_users=[{"id": "ann", "name": "Ann A."}]) >> after("after")

with DAG("rejections", schedule=None, default_args={"retries": 0}):
    for name, more in {
        "soft": {},
        "hard": {"ignore_downstream_trigger_rules": True},
        "fail": {"fail_on_reject": True},
    }.items():
        (
            ApprovalOperator(task_id=name, subject="s", **more)
            >> after(f"{name}_1")
            >> EmptyOperator(task_id=f"{name}_2", trigger_rule="none_failed")
        )

with DAG("ways", schedule=None, default_args={"retries": 0}):
    branch = HITLBranchOperator(
        task_id="branch",
        subject="s",
        options=["Full", "Group", "canary", "Broken"],
        multiple=True,
        options_mapping={"Full": "full", "Group": "group", "Broken": "nowhere"},
    )

    @task_group
    def group():
        after("x") >> after("y")

    join = EmptyOperator(task_id="join", trigger_rule="none_failed_min_one_success")
    branch >> [after("full"), after("canary"), group()] >> join

with DAG("by_index", schedule=None):

    @task_group
    def shipped(x):
        ApprovalOperator(task_id="ask", subject=x) >> after("ship")

    shipped.expand(x=["a", "b"])

with DAG("before_mapped", schedule=None):

    @task
    def work(n):
        return n

    ApprovalOperator(task_id="ask", subject="s") >> work.expand(n=[1, 2])

with DAG("mapped", schedule=None):
    ApprovalOperator.partial(task_id="ask").expand(subject=["u", "v", "w"])

with DAG("again", schedule=None):
    ApprovalOperator(task_id="ask", subject="try {{ ti.try_number }}") >> after("after")

with DAG("unreachable", schedule=None, default_args={"retries": 0}):
    HITLOperator(task_id="ask", subject="s", options=["x"], notifiers=[Broken()]) >> after("after")
