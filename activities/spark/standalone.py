"""Standalone clusters in cluster mode, through the REST API of their master (by default on port 6066)."""

from importlib.metadata import version
from typing import Any, ClassVar

import httpx

from .cluster import ClusterMode
from .clusters import AppState, Cluster, SharedFolder, Status
from .command import DRIVER, class_path, conf_of, environment, in_megabytes, spark_submit
from .place import invalid
from .starts import SparkStart

REST_PORT = 6066
MASTER_PORT = 7077
NOT_IN_CHARGE = "in ALIVE state"
"""Of what a master says that stands by, or is just taking over."""
PATIENCE = 10.0
LAUNCH = ("spark.driver.", "spark.ui.")
"""Conf that says how the driver's own process is started; all other conf is in its properties file."""
WAITING = ("SUBMITTED", "QUEUED", "RELAUNCHING")
WORKER_LOST = "ERROR"
"""State of a driver whose worker the master hears nothing of. One that could not be started has a message, too."""


class StandaloneMode(ClusterMode):
    """Cluster mode on a standalone cluster: drivers share the attempt's folder with workers."""

    writes_log: ClassVar[bool] = True

    def cluster(self, start: SparkStart, *_: Any) -> Cluster:
        """Return the attempt's driver, as the master knows it."""
        return Standalone(start)


class Standalone(SharedFolder):
    """The driver runs on one of the cluster's workers, started there through spark-submit in client mode."""

    def __init__(self, start: SparkStart) -> None:
        super().__init__(start)
        self._urls = rest_urls(start)

    def find(self) -> str | None:
        """The master lists no drivers by name: the driver's own claim in the attempt's folder is what is found."""
        return None

    def submit(self) -> str:
        self.leave_plan()
        answer = self._ask("POST", "create", self.request())
        if not answer.get("success"):
            raise invalid(f"Spark's master refuses the application: {answer.get('message')}")
        return str(answer["submissionId"])

    def status(self, application_id: str) -> Status:
        answer = self._ask("GET", f"status/{application_id}")
        if not answer.get("success"):
            return Status(AppState.UNKNOWN, "the master does not know the driver")
        state = str(answer.get("driverState"))
        message = f"{state}: {answer['message']}" if answer.get("message") else state
        if state == WORKER_LOST and not answer.get("message"):
            # The driver may be alive there: as long as it tells of itself, it is followed.
            return Status(AppState.UNKNOWN, f"{state}: the driver's worker is lost", is_disruption=True)
        if state == "RUNNING":
            return Status(AppState.RUNNING, message)
        return Status(AppState.WAITING if state in WAITING else AppState.ENDED, message)

    def kill(self, application_id: str) -> None:
        self._ask("POST", f"kill/{application_id}")

    def request(self) -> dict[str, Any]:
        """What the master is asked to run: spark-submit, since it takes no Python application by itself."""
        work = self._work
        conf = conf_of(work)
        entries = class_path(work)
        argv = spark_submit(work)[1:]
        at = argv.index("--deploy-mode")
        del argv[at : at + 2]  # on its host the driver is started as a client
        at = argv.index("--master")
        argv[at + 1] = master_of(work)
        env = {name: value for name, value in environment({}, None).items() if name.startswith(("SPARK_", "PYSPARK_"))}
        return {
            "action": "CreateSubmissionRequest",
            "clientSparkVersion": version("pyspark"),
            "mainClass": "org.apache.spark.deploy.SparkSubmit",
            "appResource": f"file:{DRIVER}",
            "appArgs": argv,
            "environmentVariables": {**env, "PYTHONSAFEPATH": "1", "SPARK_ENV_LOADED": "1", **work.variables},
            "sparkProperties": {
                # No other conf: the worker that starts the driver shows these on its command line.
                **{key: value for key, value in conf.items() if key.startswith(LAUNCH)},
                **({} if entries is None else {"spark.driver.extraClassPath": entries}),
                "spark.app.name": work.options.name or work.attempt.name,
                "spark.master": master_of(work),
                "spark.submit.deployMode": "cluster",
                "spark.driver.memory": in_megabytes(work.options.driver_memory)
                or conf.get("spark.driver.memory", "1g"),
                "spark.driver.cores": str(work.options.driver_cores or 1),
                # A driver that fails is tried again by its run, where it counts; not by the master, where nobody sees.
                "spark.driver.supervise": "false",
            },
        }

    def _ask(self, method: str, what: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
        """What the master that is in charge answers. Raises OSError if none is."""
        problems = []
        for url in self._urls:
            try:
                answer = httpx.request(method, f"{url}/v1/submissions/{what}", json=content, timeout=PATIENCE)
                reply: dict[str, Any] = answer.json()
            except (httpx.HTTPError, ValueError) as error:
                problems.append(f"{url}: {error}")
                continue
            if reply.get("success") or NOT_IN_CHARGE not in str(reply.get("message")):
                return reply
            problems.append(f"{url}: {reply['message']}")
        raise OSError(f"no master of Spark answers: {'; '.join(problems)}")


def rest_urls(start: SparkStart) -> list[str]:
    """Where the REST APIs of the masters are: with standbys there are several, and one is in charge."""
    if start.options.rest_url is not None:
        return [url.rstrip("/") for url in start.options.rest_url.split(",")]
    return [f"http://{host}:{REST_PORT}" for host, _ in masters(start)]


def master_of(start: SparkStart) -> str:
    """The masters as their drivers reach them: users of cluster mode are used to naming the port of the REST API."""
    named = [f"{host}:{MASTER_PORT if port == REST_PORT else port}" for host, port in masters(start)]
    return f"spark://{','.join(named)}"


def masters(start: SparkStart) -> list[tuple[str, int]]:
    """Host and port of each master that the options name."""
    found = []
    for address in (start.options.master or "").removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        found.append((host, int(port)) if host and port.isdigit() else (address, MASTER_PORT))
    return found
