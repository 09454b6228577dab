"""DAG files with the command line: bundles, files and errors, validation in CI, a folder that is worked on."""

import asyncio
import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from forked_commands import REAL, forked
from support import Stack, eventually, worker_environment
from tidemill.worker.app.dev import free_port
from tidemill.worker.client import Tidemill

GOOD = "from tidemill import DAG, EmptyOperator\nwith DAG({dag_id!r}):\n    EmptyOperator('a')\n"
OF_AIRFLOW = """
from airflow.sdk import DAG, task
from airflow.providers.standard.operators.bash import BashOperator
from airflow.timetables.trigger import CronTriggerTimetable
from airflow.providers.amazon.aws.operators.s3 import S3CopyObjectOperator
"""


def command(env: dict[str, str] | None, *arguments: str, code: int = 0) -> str:
    done = subprocess.run([forked(), *arguments], env=env, capture_output=True, text=True, timeout=90)
    assert done.returncode == code, f"exit code {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout + (done.stderr if code else "")


@pytest.mark.thorough
async def test_bundles_files_and_errors(here: Stack, tmp_path: Path) -> None:
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "good.py").write_text(GOOD.format(dag_id="command_good"))
    (dags / "bad.py").write_text("# a DAG of tidemill's\n1 / 0\n")
    (dags / "script.py").write_text("1 / 0\n")
    env = worker_environment(here.address, here.home, here.task_queue)

    async def told(*arguments: str, code: int = 0) -> Any:
        output = await asyncio.to_thread(command, env, *arguments, code=code)
        return json.loads(output) if "--json" in arguments else output

    await told("bundles", "set", "commands", str(dags), "--min-interval", "0")
    [view] = await told("bundles", "refresh", "commands", "--json")
    assert (view["files"], view["errors"], view["dags"]) == (2, 1, 1)
    [good] = [f for f in await told("dags", "files", "--json") if f["path"] == "good.py" and f["bundle"] == "commands"]
    assert (good["dags"], good["error"]) == (["command_good"], None)
    assert "ZeroDivisionError: division by zero" in await told("dags", "errors", code=1)
    listed = await told("dags", "list")
    assert str(dags / "good.py") in listed
    assert "passed over" in await told("bundles", "list")
    await told("bundles", "set", "commands", str(dags), "--min-interval", "0", "--all-files")
    [view] = await told("bundles", "refresh", "commands", "--json")
    assert (view["files"], view["errors"], view["dags"]) == (3, 2, 1)
    (dags / "good.py").write_text("broken(\n")
    await told("bundles", "refresh", "commands", "good.py")
    assert "import error" in await told("dags", "list")
    await told("bundles", "delete", "commands")


def test_validation_names_every_problem_and_needs_no_server(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD.format(dag_id="one"))
    command(None, "dags", "validate", str(tmp_path))
    (tmp_path / "same.py").write_text(GOOD.format(dag_id="one"))
    (tmp_path / "broken.py").write_text("from tidemill import DAG\nimport nowhere\n")
    (tmp_path / "script.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\n")
    (tmp_path / ".airflowignore").write_text("skipped.py\n")
    (tmp_path / "skipped.py").write_text("1 / 0\n")
    found = json.loads(command(None, "dags", "validate", str(tmp_path), "--json", code=1).partition("\nTraceback")[0])
    told = {Path(error["path"]).name: error["error"] for error in found["errors"]}
    assert "No module named 'nowhere'" in told["broken.py"]
    assert "is defined by" in told["same.py"]
    assert "skipped.py" not in told
    assert "is not read" in {Path(one["path"]).name: one["notice"] for one in found["notices"]}["script.py"]
    assert not (tmp_path / "mark").exists()


def test_a_start_date_that_moves_is_noticed_in_every_spelling(tmp_path: Path) -> None:
    (tmp_path / "moves.py").write_text(MOVES)
    told = json.loads(command(None, "dags", "validate", str(tmp_path), "--json"))
    lines = [notice["notice"].partition(" moves ")[0] for notice in told["notices"]]
    assert lines == [
        "line 5: start_date = datetime.now()",
        "line 8: start_date = days_ago(1)",
        "line 10: start_date = datetime.today() - timedelta(days=3)",
    ]


MOVES = """
from datetime import datetime, timedelta
from tidemill import DAG, EmptyOperator, days_ago

with DAG("a", schedule="@daily", start_date=datetime.now()):
    EmptyOperator(task_id="t")

args = {"start_date": days_ago(1), "retries": 1}
with DAG("b", schedule="@daily", default_args=args):
    EmptyOperator(task_id="t", start_date=datetime.today() - timedelta(days=3))

with DAG("c", schedule="@daily", start_date=datetime(2026, 1, 1)):
    EmptyOperator(task_id="now", start_date=datetime(2026, 1, 2))


def asks(client):
    return client.query(start_date=datetime.now(), **{"start_date": datetime.now()})
"""


def test_a_long_chain_is_no_trouble(tmp_path: Path) -> None:
    chain = " >> ".join(["first", *(f"EmptyOperator(task_id='t{n}')" for n in range(1500))])
    (tmp_path / "long.py").write_text(
        "from datetime import datetime\nfrom tidemill import DAG, EmptyOperator\n\n"
        "with DAG('long', schedule=None, start_date=datetime(2026, 1, 1)):\n"
        f"    first = EmptyOperator(task_id='first')\n    {chain}\n"
    )
    told = json.loads(command(None, "dags", "validate", str(tmp_path), "--json"))
    assert [dag["dag_id"] for dag in told["dags"]] == ["long"]
    assert told["notices"] == []


def test_clusters_that_the_tests_have_not_had_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "clusters.py").write_text(
        "from tidemill import DAG, SparkSubmitOperator\n\n"
        "with DAG('clusters', schedule=None):\n"
        "    for n, master in enumerate(['yarn', 'k8s://https://10.0.0.1:6443', 'spark://host:7077', None]):\n"
        "        SparkSubmitOperator(task_id=f't{n}', application='job.py', master=master)\n"
        "    for n, master in enumerate(['yarn', 'k8s://https://10.0.0.1:6443']):\n"
        "        SparkSubmitOperator(task_id=f'c{n}', application='job.py', master=master, deploy_mode='cluster')\n"
    )
    told = json.loads(command(None, "dags", "validate", str(tmp_path), "--json"))
    found = [re.findall(r"task '(\w+)'.*had no ([\w ]+), only", notice["notice"]) for notice in told["notices"]]
    kinds = [kind for kind in found if kind]
    assert kinds == [[("t0", "YARN cluster in client mode")], [("t1", "Kubernetes cluster in client mode")]]


def test_validation_says_what_of_airflow_has_a_counterpart(tmp_path: Path) -> None:
    (tmp_path / "ported.py").write_text(OF_AIRFLOW + GOOD.format(dag_id="ported"))
    told = command(None, "dags", "validate", str(tmp_path), code=1)
    assert "BashOperator of airflow.providers.standard.operators.bash is in tidemill" in told
    assert "CronTriggerTimetable of airflow.timetables.trigger is in tidemill" in told
    assert "S3CopyObjectOperator of airflow.providers.amazon.aws.operators.s3 has no counterpart" in told


def test_a_ported_file_differs_in_its_imports_alone(tmp_path: Path) -> None:
    """A file of Airflow's own tutorial shape, after its import lines were changed."""
    (tmp_path / "etl.py").write_text(PORTED)
    found = json.loads(command(None, "dags", "validate", str(tmp_path), "--json"))
    assert [dag["dag_id"] for dag in found["dags"]] == ["tutorial_taskflow_api"]


PORTED = '''
import json

import pendulum

from tidemill import dag, task


@dag(
    schedule=None,
    start_date=pendulum.datetime(2021, 1, 1, tz="UTC"),
    catchup=False,
    tags=["example"],
)
def tutorial_taskflow_api():
    """Extracts, transforms and loads."""

    @task()
    def extract():
        return json.loads('{"1001": 301.27, "1002": 433.21}')

    @task(multiple_outputs=True)
    def transform(order_data_dict: dict):
        return {"total_order_value": sum(order_data_dict.values())}

    @task()
    def load(total_order_value: float):
        print(f"Total order value is: {total_order_value:.2f}")

    order_summary = transform(extract())
    load(order_summary["total_order_value"])


tutorial_taskflow_api()
'''


async def test_a_folder_that_is_worked_on(tmp_path: Path) -> None:
    """`tidemill dev`: a file that is saved is registered, a broken one is shown, within moments."""
    dags, port = tmp_path / "dags", free_port()
    dags.mkdir()
    (dags / "first.py").write_text(GOOD.format(dag_id="dev_first"))
    argv = [REAL, "dev", str(dags), "--port", str(port), "--ui-port", str(free_port()), "--no-spark"]
    log = tmp_path / "log"
    env = worker_environment(f"127.0.0.1:{port}", tmp_path / "home", "tidemill")
    with log.open("w") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, env=env)
    try:
        await eventually(lambda: shown(log, "first.py: dev_first"), bool)
        (dags / "second.py").write_text(GOOD.format(dag_id="dev_second"))
        await eventually(lambda: shown(log, "second.py: dev_second"), bool)
        (dags / "first.py").write_text("1 / 0\n")
        await eventually(lambda: shown(log, "ZeroDivisionError"), bool)
        tidemill = await Tidemill.connect(target_host=f"127.0.0.1:{port}")
        assert (await tidemill.dags.describe("dev_first")).has_import_errors
        assert not (await tidemill.dags.describe("dev_second")).has_import_errors
    finally:
        process.send_signal(signal.SIGINT)
        await asyncio.to_thread(process.wait, 30)


async def shown(log: Path, text: str) -> bool:
    return text in log.read_text()
