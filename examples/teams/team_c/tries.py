"""A team that means harm: each task tries one thing against the others, and returns what it has reached."""

import os
import subprocess
from pathlib import Path

from tidemill.activities.secrets import question_of_worker

from tidemill import DAG, Connection, Variable, task


def refused(error: Exception) -> str:
    """What the attempt came to, in the words of whoever refused it."""
    return f"refused: {error}"


def above() -> list[int]:
    """The processes above this one, up to the worker and beyond."""
    found, pid = [], os.getppid()
    while pid > 1:
        found.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


with DAG("c_tries"):

    @task
    def another_team_s_variable() -> str:
        try:
            return str(Variable.get("b_key"))
        except Exception as error:
            return refused(error)

    @task
    def another_team_s_connection() -> str:
        try:
            return Connection.get("b_db").password or ""
        except Exception as error:
            return refused(error)

    @task
    def another_team_s_variable_by_setting_it() -> str:
        told = question_of_worker(store="set", of="variables", key="b_key", value="mine")
        return refused(ValueError(told["error"])) if "error" in told else "set"

    @task
    def files_of_the_worker_by_a_scope() -> str:
        told = question_of_worker(store="get", scope="../..", key="api_tokens")
        return refused(ValueError(told["error"])) if "error" in told else str(told)

    @task
    def results_of_others() -> str:
        found = []
        theirs = ["-maxdepth", "9", "-path", "*dag_id=a_*", "-name", "result.json"]
        for home in map(str, Path.cwd().parents[:2]):
            find = ["find", home, *theirs, "-exec", "cat", "{}", "+"]
            found.append(subprocess.run(find, capture_output=True, text=True, check=False, timeout=60).stdout)
        return "".join(found) or refused(PermissionError("nothing of others can be read"))

    @task
    def memory_of_the_worker() -> str:
        try:
            return "".join(Path(f"/proc/{pid}/environ").read_text() for pid in above())
        except OSError as error:
            return refused(error)

    @task
    def the_end_of_the_worker() -> str:
        try:
            for pid in above():
                os.kill(pid, 0)  # asks whether it could
        except OSError as error:
            return refused(error)
        return "could be ended"

    another_team_s_variable()
    another_team_s_variable_by_setting_it()
    another_team_s_connection()
    files_of_the_worker_by_a_scope()
    results_of_others()
    memory_of_the_worker()
    the_end_of_the_worker()
