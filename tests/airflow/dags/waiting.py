"""Tasks that wait: for a moment, for a file by a trigger of their own, for a poke, for a person."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.sensors.date_time import DateTimeSensorAsync
from airflow.providers.standard.sensors.python import PythonSensor
from airflow.providers.standard.sensors.time_delta import TimeDeltaSensor
from airflow.sdk import DAG, BaseOperator, Param
from airflow.triggers.base import BaseTrigger, StartTriggerArgs, TaskFailedEvent, TaskSuccessEvent, TriggerEvent

OUT = Path(os.environ.get("TEST_OUT", "/tmp"))


class FileTrigger(BaseTrigger):
    """Fires when a file is there; may fail, or end its task by itself."""

    def __init__(self, name: str, does: str = "fires") -> None:
        super().__init__()
        self.name, self.does = name, does

    def serialize(self):
        return f"{type(self).__module__}.{type(self).__qualname__}", {"name": self.name, "does": self.does}

    async def run(self):
        with (OUT / f"{self.name}.watched").open("a") as file:
            file.write(f"{os.getpid()}\n")
        while not (OUT / self.name).exists():
            await asyncio.sleep(0.1)
        if self.does == "fails":
            raise ValueError("the trigger is broken")
        ends = {"ends": TaskSuccessEvent(), "ends badly": TaskFailedEvent()}
        yield ends.get(self.does) or TriggerEvent({"found": self.name})

    async def on_kill(self):
        (OUT / f"{self.name}.killed").write_text("killed")


class WaitForFile(BaseOperator):
    """Leaves its worker until a file is there."""

    def __init__(self, name: str, does: str = "fires", timeout: timedelta | None = None, **kwargs) -> None:
        super().__init__(**kwargs)
        self.name, self.does, self.timeout = name, does, timeout

    def execute(self, context):
        context["ti"].xcom_push(key="before", value=context["ti"].try_number)
        with (OUT / f"{self.name}.begun").open("a") as file:
            file.write(f"{context['ti'].try_number}\n")
        self.defer(
            trigger=FileTrigger(self.name, self.does), method_name="goes_on", kwargs={"n": (1, 2)}, timeout=self.timeout
        )

    def goes_on(self, context, n, event=None):
        with (OUT / f"{self.name}.ended").open("a") as file:
            file.write(f"{context['ti'].try_number}\n")
        return [event["found"], sum(n)]


with DAG("deferring", schedule=None):
    WaitForFile(task_id="fires", name="fires")
    WaitForFile(task_id="ends", name="ends", does="ends")
    WaitForFile(task_id="fails", name="fails", does="fails")
    WaitForFile(task_id="never", name="never", timeout=timedelta(seconds=1))


def tell(context):
    with (OUT / f"{context['ti'].task_id}.told").open("a") as file:
        file.write(f"{context['ti'].try_number} {context['ti'].state.value} {context.get('exception')}\n")


class BegunByTrigger(WaitForFile):
    """Is not called before its trigger has said something."""

    start_from_trigger = True
    template_fields = ("name",)

    def __init__(self, name, **kwargs):
        super().__init__(name=name, **kwargs)
        path, trigger_kwargs = FileTrigger(name).serialize()
        self.start_trigger_args = StartTriggerArgs(path, "goes_on", trigger_kwargs, next_kwargs={"n": (3, 4)})


with DAG("ended", schedule=None, default_args={"retries": 1, "retry_delay": timedelta(seconds=0.1)}):
    called = {"on_success_callback": tell, "on_failure_callback": tell, "on_retry_callback": tell}
    WaitForFile(task_id="well", name="well", does="ends", **called)
    WaitForFile(task_id="badly", name="badly", does="ends badly", **called)
    WaitForFile(task_id="silently", name="silently", does="ends badly")

with DAG("begun", schedule=None):
    BegunByTrigger(task_id="begun", name="begun_{{ params.n }}", params={"n": 1})
    DateTimeSensorAsync(
        task_id="moment", target_time="{{ dag_run.run_after }}", start_from_trigger=True, end_from_trigger=True
    )

with DAG("killed", schedule=None):
    WaitForFile(task_id="wait", name="unwanted")

with DAG("survives", schedule=None):
    WaitForFile(task_id="wait", name="survives")

with DAG("poking", schedule=None):
    PythonSensor(
        task_id="poke",
        python_callable=lambda: (OUT / "poked").exists(),
        mode="reschedule",
        poke_interval=0.5,
        timeout=60,
    )
    PythonSensor(
        task_id="gives_up", python_callable=lambda: False, mode="reschedule", poke_interval=0.2, timeout=0.1, retries=3
    )
    TimeDeltaSensor(task_id="moment", delta=timedelta(seconds=1), deferrable=True)

with DAG("asking", schedule=None):
    HITLOperator(
        task_id="ask",
        subject="Which of them?",
        body="For {{ run_id }}",
        options=["one", "two"],
        params={"why": Param("", type="string")},
    )
    HITLOperator(
        task_id="by_default",
        subject="Nobody answers",
        options=["yes", "no"],
        defaults=["no"],
        response_timeout=timedelta(seconds=1),
    )

with DAG("many", schedule=None, max_active_tasks=64):
    WaitForFile.partial(task_id="wait", does="fires").expand(name=["many"] * 40)

with DAG("fails_fast", schedule=None, fail_fast=True):
    WaitForFile(task_id="waits", name="too_late")
    PythonSensor(
        task_id="fails",
        python_callable=lambda: 1 / 0 if (OUT / "too_late.watched").exists() else False,
        poke_interval=0.5,
    )
