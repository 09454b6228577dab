"""Functions that do what functions do in tests: answer, fail, skip, and worse."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tidemill.model.exceptions import AirflowFailException, AirflowSkipException

from tidemill import DAG, get_current_context, task

print("this file prints when it is imported")

with DAG("calls", params={"how": "answer", "mark": ""}, heartbeat_timeout=4) as dag:

    @task
    def numbers() -> list[int]:
        print("counting")
        return [1, 2, 3]

    @task
    def total(values: list[int], scale: str, ds=None, ti=None):
        ti.xcom_push("seen", len(values))
        assert get_current_context()["ti"] is ti
        return {"total": sum(values) * int(scale), "ds": ds, "pulled": ti.xcom_pull(task_ids="numbers")}

    @task.bash
    def say(result: dict) -> str:  # type: ignore[type-arg]
        return f"echo the total is {result['total']}"

    say(total(numbers(), scale="{{ params.get('scale', 2) }}"))

with DAG("behaviours", heartbeat_timeout=4) as behaviours:

    @task
    def behave(params=None):
        how, mark = params["how"], params["mark"]
        if how == "raise":
            try:
                int("not a number")
            except ValueError as error:
                raise RuntimeError("could not read the report") from error
        if how == "exit":
            sys.exit(3)
        if how == "os_exit":
            os._exit(7)
        if how == "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        if how == "skip":
            raise AirflowSkipException("nothing to do")
        if how == "fail":
            raise AirflowFailException("do not try again")
        if how == "not_json":
            return {1, 2, object()}
        if how == "too_much":
            return "x" * 67_200_000
        if how.startswith("undecodable"):
            name = os.fsdecode(b"caf\xe9.csv")  # as os.listdir says it
            with Path(mark).open("a") as count:
                count.write("x")
            if how == "undecodable_skip":
                raise AirflowSkipException(f"no {name}")
            if how == "undecodable_result":
                return [name]
            print("reading", name)
            raise ValueError(f"cannot read {name}")
        if how == "long_skip":
            raise AirflowSkipException("y" * 5_000_000)
        if how == "leave_a_daemon":
            subprocess.Popen(["sleep", mark], start_new_session=True)
        if how == "sleep":
            subprocess.Popen(["sleep", mark], start_new_session=True)
            time.sleep(float(mark))
        if how == "flaky":
            count = Path(mark)
            count.write_text(count.read_text() + "x" if count.exists() else "x")
            if len(count.read_text()) < 3:
                raise OSError("not yet")
        return None

    behave.override(retries=int(os.environ.get("TEST_RETRIES", "0")), retry_delay=1)()
