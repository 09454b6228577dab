"""Tasks that say how far they are, for somebody who kills their worker there."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from airflow.sdk import DAG, BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

OUT = Path(os.environ.get("TEST_OUT", "/tmp"))


def note(name, text):
    with (OUT / name).open("a") as file:
        file.write(f"{text}\n")


def wait_at(moment):
    """The first who comes here waits, and is killed."""
    if not (OUT / f"{moment}.reached").exists():
        note(f"{moment}.reached", os.getpid())
        time.sleep(600)


class GoTrigger(BaseTrigger):
    def __init__(self, moment):
        super().__init__()
        self.moment = moment

    def serialize(self):
        return f"{type(self).__module__}.{type(self).__qualname__}", {"moment": self.moment}

    async def run(self):
        if self.moment == "deferred" and not (OUT / "deferred.reached").exists():
            note("deferred.reached", os.getpid())
        while self.moment == "deferred" and not (OUT / "go").exists():
            await asyncio.sleep(0.1)
        yield TriggerEvent("gone")


class Stepwise(BaseOperator):
    def __init__(self, moment, **kwargs):
        super().__init__(**kwargs)
        self.moment = moment

    def execute(self, context):
        if self.moment == "running":
            wait_at("running")
        self.defer(trigger=GoTrigger(self.moment), method_name="goes_on")

    def goes_on(self, context, event=None):
        if self.moment == "resuming":
            wait_at("resuming")
        note(f"{self.moment}.ended", context["ti"].try_number)


def told(context, moment):
    note(f"{moment}.told", context["ti"].state.value)
    if moment == "calling":
        wait_at("calling")
    if moment == "leaving":
        os._exit(1)


for moment in ("running", "deferred", "resuming", "calling", "leaving"):
    with DAG(f"killed_{moment}", schedule=None) as dag:
        Stepwise(
            task_id="step",
            moment=moment,
            on_success_callback=lambda context, moment=moment: told(context, moment),
        )
    globals()[dag.dag_id] = dag
