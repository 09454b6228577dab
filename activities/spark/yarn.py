"""YARN in cluster mode: spark-submit hands the application over, the ResourceManager's REST API tells of it."""

import getpass
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import httpx

from ..attempts.folder import RESULT
from ..attempts.supervision import AttemptSupervisor, infrastructure_error
from ..processes.users import acting_as
from ..secrets import new_masker
from .cluster import ClusterMode
from .clusters import AppState, Cluster, NotConfiguredError, Status
from .command import DRIVER
from .driver import application_order
from .driver_lines import DriverLines
from .shipping import ARCHIVE, application_there, archive
from .starts import SparkStart, cluster_name
from .yarn_logs import END_OF_LOG, container_log, log_of

PATIENCE = 10.0
LARGEST = 100_000_000
"""In bytes, of what the driver needs: spark-submit uploads it, and every container fetches it."""
LOG_EVERY = 5.0
"""Seconds between looks at what a running driver has printed."""
LOG_TIMEOUT = 60.0
"""Seconds within which the log of a driver that has ended can be read, or is taken for lost."""
SUBMISSION_TIMEOUT = 45.0
"""Seconds after which a spark-submit that another worker had begun has handed its application over, or never will."""
PORT, SECURE_PORT = 8088, 8090
_APPLICATION = re.compile(r"application_\d+_\d+")
WAITING = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")
ENDED = ("FINISHED", "FAILED", "KILLED")


class YarnMode(ClusterMode):
    """Cluster mode on YARN. A container has a folder of its own, in which the driver begins."""

    has_own_python: ClassVar[bool] = True
    read_from_conf: ClassVar[tuple[str, ...]] = ("spark.yarn.tags",)

    def cluster(self, start: SparkStart, launch: Callable[..., str], supervisor: AttemptSupervisor) -> Cluster:
        """Return the attempt's application, as the ResourceManager knows it."""
        return Yarn(start, launch, supervisor)

    def driver_folder(self, start: SparkStart) -> str:
        """Return a folder below the container's: containers share their host with others."""
        return cluster_name(start)

    def application(self, start: SparkStart) -> list[str]:
        """Return the driver's side, which spark-submit brings, with its archive beside it."""
        return [str(DRIVER), ARCHIVE, *application_there(start)]

    def identity(self, start: SparkStart) -> dict[str, str]:
        """Return the attempt's tag beside the task's own, one try of YARN's, and the driver's environment."""
        own = start.options.conf.get("spark.yarn.tags")
        return {
            "spark.yarn.tags": f"{own},{cluster_name(start)}" if own else cluster_name(start),
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.submit.waitAppCompletion": "false",
            **{f"spark.yarn.appMasterEnv.{name}": value for name, value in start.variables.items()},
        }


class Yarn:
    """The attempt is known by its application tag, which YARN keeps for ended applications, too.

    Nothing of the worker's disk is there: spark-submit brings the plan and the code, and what comes of the driver is
    among the lines that it prints.
    """

    def __init__(
        self, start: SparkStart, launch: Callable[..., str], supervisor: AttemptSupervisor | None = None
    ) -> None:
        self._work, self._supervisor = start, supervisor
        self._tag = cluster_name(start)
        self._launch = launch
        self._named = start.options.rest_url
        self._lines = DriverLines(start.attempt.uuid.hex)
        self._looked_at = 0.0
        self._silent_since: float | None = None
        self._is_given_up = False

    @cached_property
    def _urls(self) -> list[str]:
        if self._named:
            return [url.rstrip("/") for url in self._named.split(",")]
        return resource_managers(os.environ)

    def find(self) -> str | None:
        """Return the attempt's application: the oldest, as its driver has it that finds itself the second."""
        listed = self._ask("GET", "apps", applicationTags=self._tag).json()
        found = (listed.get("apps") or {}).get("app") or []
        mine = (str(app["id"]) for app in found if self._tag in str(app.get("applicationTags")).split(","))
        return min(mine, key=application_order, default=None)

    def submit(self) -> str:
        """Have spark-submit hand the application over."""
        with self._archive() as shipped:
            printed = _APPLICATION.search(self._launch(*shipped))
        found = self.find() or (printed[0] if printed else None)
        if found is None:
            raise infrastructure_error("spark-submit ended, and YARN does not list the application")
        return found

    @contextmanager
    def _archive(self) -> Iterator[list[str]]:
        """What spark-submit brings to the driver, as long as the block. Hadoop takes no path with a colon in it."""
        if self._work.is_java:
            yield []
            return
        only_one = {"tag": self._tag, "resource_managers": self._urls}
        content = archive(self._work, LARGEST, only_one=only_one)
        with acting_as(self._work.folder.user):
            for left in Path(tempfile.gettempdir()).glob(f"{self._tag}-*.zip"):  # of a start that was killed
                with suppress(OSError):
                    left.unlink()
            opened, name = tempfile.mkstemp(prefix=f"{self._tag}-", suffix=".zip")
            with os.fdopen(opened, "wb") as file:
                file.write(content)
        try:
            yield [f"{name}#{ARCHIVE}"]
        finally:
            Path(name).unlink(missing_ok=True)

    def status(self, application_id: str) -> Status:
        """Return how the application stands; what its driver has told until now is in the attempt's folder then."""
        answer = self._ask("GET", f"apps/{application_id}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return Status(AppState.UNKNOWN, "the ResourceManager does not know the application")
        app = answer.json()["app"]
        state, final = str(app["state"]), str(app["finalStatus"])
        words = f"{state}, {final}"
        self._take_log(app, has_ended=state in ENDED)
        if state in ENDED:
            details = str(app.get("diagnostics") or "").strip()
            if final != "SUCCEEDED" and app.get("amContainerLogs"):
                details = f"{details} Its log: {app['amContainerLogs']}".strip()
            return Status(AppState.ENDED, f"{words}: {details}" if details else words, succeeded=final == "SUCCEEDED")
        return Status(AppState.WAITING if state in WAITING else AppState.RUNNING, words)

    def _take_log(self, app: Mapping[str, Any], *, has_ended: bool) -> None:
        """Keep what the driver has printed. Raises OSError while the log of one that has ended may be there yet."""
        now, folder = time.monotonic(), self._work.folder
        if self._work.is_java or self._is_given_up or not app.get("amContainerLogs") or app["state"] in WAITING:
            return
        if folder.left(RESULT) is not None or (not has_ended and now - self._looked_at < LOG_EVERY):
            return
        self._looked_at = now
        if not has_ended:
            with suppress(OSError):  # its node does not answer, say: what YARN knows of it counts
                self._lines_of(container_log(app, "stdout", END_OF_LOG))
            return
        try:
            printed = self._lines_of(log_of(app, "stdout"))
        except OSError:
            self._silent_since = self._silent_since or now
            if now - self._silent_since < LOG_TIMEOUT:
                raise
            return
        with suppress(OSError):
            printed = [*log_of(app, "stderr").splitlines(), *printed]
        with self._work.worker_context.log_at(folder.log, new_masker()) as log:
            log.feed("".join(f"{line}\n" for line in printed).encode())
        if (report := self._lines.reports.get("result")) is not None:  # how it went is told when it has ended
            folder.hand_over(RESULT, json.dumps(report))

    def _lines_of(self, text: str) -> list[str]:
        """Return the lines that are the application's own; what the others tell of it is kept."""
        lines = [line for line in text.splitlines() if not self._lines.take(line)]
        for about in ("progress", "figures"):
            if (report := self._lines.reports.get(about)) is not None:
                self._work.folder.hand_over(f"{about}.json", json.dumps(report))
        return lines

    def give_up(self) -> bool:
        """Wait until no spark-submit of an earlier start is under way any more. False if there is an application.

        Those of this start have ended: this worker stands over them.
        """
        self._is_given_up = True
        deadline = time.monotonic() + (SUBMISSION_TIMEOUT if self._work.number > 1 else 0)
        while self.find() is None:
            if time.monotonic() >= deadline:
                return True
            if self._supervisor is not None:
                self._supervisor.check({"cluster": "waits for what an earlier start may have submitted"})
            time.sleep(1)
        return False

    def kill(self, application_id: str) -> None:
        """Ends it, unless it is somebody else's: the task itself may have named it."""
        answer = self._ask("GET", f"apps/{application_id}")
        tags = "" if answer.status_code == httpx.codes.NOT_FOUND else str(answer.json()["app"].get("applicationTags"))
        if self._tag not in tags.split(","):
            return
        self._ask("PUT", f"apps/{application_id}/state", content={"state": "KILLED"})

    def _ask(self, method: str, what: str, content: dict[str, Any] | None = None, **query: str) -> httpx.Response:
        """What the ResourceManager in charge answers; standbys redirect to it. Raises OSError if none answers."""
        # Without Kerberos, YARN takes the caller's name from the query.
        work = self._work
        known = work.options.proxy_user or work.filled["env"].get("HADOOP_USER_NAME")
        user = known or os.environ.get("HADOOP_USER_NAME") or user_name()
        problems = []
        for url in self._urls:
            try:
                answer = httpx.request(
                    method,
                    f"{url}/ws/v1/cluster/{what}",
                    params={**query, "user.name": user},
                    json=content,
                    timeout=PATIENCE,
                    follow_redirects=True,
                )
                if answer.status_code == httpx.codes.NOT_FOUND and "RemoteException" in answer.text:
                    return answer  # it is YARN that says so
                answer.raise_for_status()
                if method == "GET":
                    answer.json()  # a page for people is no answer
            except (httpx.HTTPError, ValueError) as error:
                problems.append(f"{url}: {error}")
            else:
                return answer
        raise OSError(f"no ResourceManager of YARN answers: {'; '.join(problems)}")


def user_name() -> str:
    """Who this process runs as; in a container there may be a number only."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def resource_managers(environment: Mapping[str, str]) -> list[str]:
    """Where YARN's ResourceManagers answer HTTP, by the Hadoop configuration that spark-submit reads as well.

    Raises NotConfiguredError if there is no configuration.
    """
    folders = [environment[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if environment.get(name)]
    folder = next((one for one in folders if Path(one, "yarn-site.xml").exists()), next(iter(folders), None))
    if folder is None:
        raise NotConfiguredError(
            "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set. Set one on this worker, or the option rest_url"
        )
    try:
        conf = _properties(Path(folder, "yarn-site.xml"))
    except ElementTree.ParseError as error:
        raise NotConfiguredError(f"{folder}/yarn-site.xml cannot be read: {error}") from None
    secure = conf.get("yarn.http.policy") == "HTTPS_ONLY"
    ids = [f".{one.strip()}" for one in conf.get("yarn.resourcemanager.ha.rm-ids", "").split(",") if one.strip()]
    return [_address(conf, suffix, secure=secure) for suffix in ids or [""]]


def _address(conf: Mapping[str, str], suffix: str, *, secure: bool) -> str:
    key, port = ("webapp.https.address", SECURE_PORT) if secure else ("webapp.address", PORT)
    host = conf.get(f"yarn.resourcemanager.hostname{suffix}", "localhost")
    address = conf.get(f"yarn.resourcemanager.{key}{suffix}", f"{host}:{port}")
    return f"{'https' if secure else 'http'}://{address.replace('${yarn.resourcemanager.hostname}', host)}"


def _properties(path: Path) -> dict[str, str]:
    """The properties of one of Hadoop's configuration files."""
    root = ElementTree.fromstring(path.read_text())  # noqa: S314 - the operator's own file
    return {p.findtext("name", "").strip(): p.findtext("value", "").strip() for p in root.iter("property")}
