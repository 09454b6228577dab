"""Standalone clusters in cluster mode, through the REST API of their master (by default on port 6066)."""

from typing import Any
from urllib.parse import urlsplit

import httpx
import pyspark

from .clusters import Life, Status
from .command import DRIVER, conf_of, environment, spark_submit
from .place import invalid
from .starts import SparkStart

REST_PORT = 6066
PATIENCE = 10.0
WAITING = ("SUBMITTED", "QUEUED", "RELAUNCHING")
UNTOLD = ("JAVA_HOME", "PATH", "HOME", "PWD", "TMPDIR")
"""Of the environment, what belongs to the worker's own host."""


class Standalone:
    """The driver runs on one of the cluster's workers, started there through spark-submit in client mode."""

    def __init__(self, work: SparkStart) -> None:
        self._work = work
        self._url = rest_url(work)

    def find(self) -> str | None:
        """The master lists no drivers by name: the driver's own claim in the attempt's folder is what is found."""
        return None

    def submit(self) -> str:
        answer = self._ask("POST", "create", self.request())
        if not answer.get("success"):
            raise invalid(f"Spark's master refuses the application: {answer.get('message')}")
        return str(answer["submissionId"])

    def status(self, application_id: str) -> Status:
        answer = self._ask("GET", f"status/{application_id}")
        if not answer.get("success"):
            return Status(Life.UNKNOWN, "the master does not know the driver")
        state = str(answer.get("driverState"))
        told = f"{state}: {answer['message']}" if answer.get("message") else state
        if state == "RUNNING":
            return Status(Life.RUNNING, told)
        return Status(Life.WAITING if state in WAITING else Life.ENDED, told)

    def kill(self, application_id: str) -> None:
        self._ask("POST", f"kill/{application_id}")

    def request(self) -> dict[str, Any]:
        """What the master is asked to run: spark-submit, since it takes no Python application by itself."""
        work = self._work
        conf = conf_of(work)
        argv = spark_submit(work)[1:]
        at = argv.index("--deploy-mode")
        del argv[at : at + 2]  # on its host the driver is started as a client
        at = argv.index("--master")
        argv[at + 1] = master_of(work)
        env = {name: value for name, value in environment({}, None).items() if name.startswith(("SPARK_", "PYSPARK_"))}
        return {
            "action": "CreateSubmissionRequest",
            "clientSparkVersion": pyspark.__version__,
            "mainClass": "org.apache.spark.deploy.SparkSubmit",
            "appResource": f"file:{DRIVER}",
            "appArgs": argv,
            "environmentVariables": {**env, "PYTHONSAFEPATH": "1", "SPARK_ENV_LOADED": "1", **work.filled["env"]},
            "sparkProperties": {
                **conf,
                "spark.app.name": work.options.name or work.attempt.name,
                "spark.master": master_of(work),
                "spark.submit.deployMode": "cluster",
                "spark.driver.memory": work.options.driver_memory or conf.get("spark.driver.memory", "1g"),
                "spark.driver.cores": str(work.options.driver_cores or 1),
                # A driver that fails is tried again by its run, where it counts; not by the master, where nobody sees.
                "spark.driver.supervise": "false",
            },
        }

    def _ask(self, method: str, what: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
        url = f"{self._url}/v1/submissions/{what}"
        try:
            answer = httpx.request(method, url, json=content, timeout=PATIENCE)
            told: dict[str, Any] = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise OSError(f"Spark's master does not answer at {url}: {error}") from None
        return told


def rest_url(work: SparkStart) -> str:
    """Where the master's REST API is."""
    if work.options.rest_url is not None:
        return work.options.rest_url.rstrip("/")
    return f"http://{urlsplit(work.options.master or '').hostname}:{REST_PORT}"


def master_of(work: SparkStart) -> str:
    """The master as its drivers reach it: users of cluster mode are used to naming the port of the REST API."""
    address = urlsplit(work.options.master or "")
    return f"spark://{address.hostname}:7077" if address.port == REST_PORT else str(work.options.master)
