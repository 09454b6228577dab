"""YARN in cluster mode: spark-submit hands the application over, the ResourceManager's REST API tells of it."""

import getpass
import os
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx

from ..attempts.watch import handed_over
from .clusters import Life, NotConfiguredError, SharedFolder, Status
from .starts import SparkStart

PATIENCE = 10.0
PORT, SECURE_PORT = 8088, 8090
_APPLICATION = re.compile(r"application_\d+_\d+")
WAITING = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")
ENDED = ("FINISHED", "FAILED", "KILLED")


class Yarn(SharedFolder):
    """The attempt is known by its application tag, which YARN keeps for ended applications, too."""

    def __init__(self, work: SparkStart, launch: Callable[[], str]) -> None:
        super().__init__(work)
        self._tag = f"tidemill-{work.attempt.uuid.hex}"
        self._launch = launch
        self._named = work.options.rest_url

    @cached_property
    def _urls(self) -> list[str]:
        if self._named:
            return [url.rstrip("/") for url in self._named.split(",")]
        return resource_managers(os.environ)

    def find(self) -> str | None:
        listed = self._ask("GET", "apps", applicationTags=self._tag).json()
        found = (listed.get("apps") or {}).get("app") or []
        return str(found[0]["id"]) if found else None

    def submit(self) -> str:
        self.leave_plan()
        printed = _APPLICATION.search(self._launch())
        found = printed[0] if printed else self.find()
        if found is None:
            raise handed_over("spark-submit ended, and YARN does not list the application")
        return found

    def status(self, application_id: str) -> Status:
        answer = self._ask("GET", f"apps/{application_id}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return Status(Life.UNKNOWN, "the ResourceManager does not know the application")
        app = answer.json()["app"]
        state, final = str(app["state"]), str(app["finalStatus"])
        words = f"{state}, {final}"
        if state in ENDED:
            said = str(app.get("diagnostics") or "").strip()
            return Status(Life.ENDED, f"{words}: {said}" if said else words, succeeded=final == "SUCCEEDED")
        return Status(Life.WAITING if state in WAITING else Life.RUNNING, words)

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
        user = os.environ.get("HADOOP_USER_NAME") or user_name()
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
