"""A model of what `kubectl` does on Kubernetes' API, and attempts on it; `make clusters` asks a real one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_starts import KUBERNETES, start
from tidemill.activities.spark.kubernetes import Kubernetes
from tidemill.activities.spark.starts import SparkStart, cluster_name

Object = dict[str, Any]


class Api:
    """What `kubectl` finds and changes: objects by kind and name, and what a pod has printed."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.printed: list[str] | None = []
        self.logs_of: str | None = None
        """The container that has to be named where a log is read."""
        self.asked: list[list[str]] = []

    def __call__(self, argv: Sequence[str], given: str | None = None) -> str:
        self.asked.append([*argv])
        words = [*argv][[*argv].index("--namespace") + 2 :]
        match words:
            case ["get", kind, name, *_]:
                found = self.objects.get((kind, name))
                return "" if found is None else json.dumps(found)
            case ["create", *_]:
                content = json.loads(given or "")
                key = (content["kind"].lower(), content["metadata"]["name"])
                if key in self.objects:
                    raise OSError(
                        f'kubectl failed: Error from server (AlreadyExists): {key[0]}s "{key[1]}" already exists'
                    )
                self.put(*key, content)
                return json.dumps(self.objects[key])
            case ["replace", *_]:
                content = json.loads(given or "")
                self.put(content["kind"].lower(), content["metadata"]["name"], content)
                return ""
            case ["delete", kind, name, *_]:
                self.objects.pop((kind, name), None)
                return ""
            case ["logs", *_] if self.printed is None:
                raise OSError("no log")
            case ["logs", _, "--timestamps", *since] if self.logs_of is None:
                return self._printed(since)
            case ["logs", _, "--container", self.logs_of, "--timestamps", *since]:
                return self._printed(since)
        raise AssertionError(words)

    def _printed(self, since: Sequence[str]) -> str:
        after = since[0].partition("=")[2] if since else ""
        return "".join(f"{line}\n" for line in self.printed or () if line.partition(" ")[0] >= after)

    def put(self, kind: str, name: str, content: Object) -> None:
        uid = f"uid of {kind} {name}"
        self.objects[kind, name] = {**content, "metadata": {**content.get("metadata", {}), "name": name, "uid": uid}}

    def pod(self, name: str, phase: str, **more: Any) -> None:
        self.put("pod", name, {"status": {"phase": phase}, **more})

    def config_map(self, name: str) -> Object:
        return self.objects["configmap", name]


def begun(home: Path, spark: Object = KUBERNETES, **fields: Any) -> tuple[SparkStart, Api, Kubernetes]:
    """An attempt whose script is there, and a cluster on which spark-submit makes the pod."""
    (home / "dags").mkdir(exist_ok=True)
    (home / "dags" / "load.py").write_text("print('loads')")
    fields.setdefault("application", str(home / "dags" / "load.py"))
    work, api = start(home, spark, **fields), Api()

    def launch() -> str:
        api.pod(cluster_name(work), "Pending")
        return ""

    return work, api, Kubernetes(work, launch, api)
