"""Functions that look around, print and log."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

from tidemill import DAG, Connection, task

log = logging.getLogger(__name__)
early = logging.StreamHandler(sys.stdout)
"""A handler that was made while the file was imported, as libraries do."""

with DAG("looks_around", heartbeat_timeout=4):

    @task
    def environment() -> list[str]:
        parent = Path(f"/proc/{os.getppid()}/environ").read_bytes().decode(errors="replace")
        return [*map("=".join, os.environ.items()), *parent.split("\0")]

    environment()

with DAG("logs", heartbeat_timeout=4):

    @task
    def logged() -> None:
        print("printed")
        log.info("an info")
        log.debug("a debug")
        log.warning("a warning of\ntwo lines")
        print("to stderr", file=sys.stderr)
        subprocess.run(["echo", "of a subprocess"], check=True)

    logged()

with DAG("tells_secrets", heartbeat_timeout=4):

    @task
    def by_handler() -> None:
        password = Connection.get("warehouse").password
        early.stream.write(f"early stream: {password}\n")
        early.flush()
        os.write(1, f"descriptor: {password}\n".encode())
        subprocess.run(["echo", f"subprocess: {password}"], check=True)
        log.info("logged: %s", password)

    @task.bash
    def by_bash() -> str:
        return "echo shell: $(printf '%s' {{ conn.warehouse.password }})"

    @task
    def by_note() -> None:
        raise ValueError("it was " + str(Connection.get("warehouse").password))

    by_handler(), by_bash(), by_note()

with DAG("large", heartbeat_timeout=4):

    @task
    def make() -> str:
        return "x" * (20 * 2**20)

    @task
    def take(text: str) -> int:
        return len(text)

    take(make())

with DAG("cleans_up", params={"mark": ""}, heartbeat_timeout=4):

    @task
    def sleep(params=None) -> None:
        mark = Path(params["mark"])
        mark.write_text("began")
        try:
            time.sleep(600)
        finally:
            mark.write_text("put in order")

    sleep()


def cancel_what_runs_elsewhere() -> None:
    Path(os.environ["TEST_ON_KILL"]).write_text(f"told by {os.getpid()}")


with DAG("has_a_hook", heartbeat_timeout=4):

    @task(on_kill=cancel_what_runs_elsewhere)
    def waits() -> None:
        Path(os.environ["TEST_ON_KILL"]).write_text(f"waits in {os.getpid()}")
        time.sleep(600)

    waits()

with DAG("takes_a_while", params={"mark": "", "seconds": 6}, heartbeat_timeout=60):

    @task
    def work(params=None) -> str:
        with Path(params["mark"]).open("a") as mark:
            mark.write("began\n")
        time.sleep(params["seconds"])
        with Path(params["mark"]).open("a") as mark:
            mark.write("ended\n")
        return "done"

    work()

with DAG("who", heartbeat_timeout=4):

    @task
    def python() -> int:
        return os.getuid()

    @task.bash
    def shell(uid: int) -> str:
        return "id -u"

    shell(python())
