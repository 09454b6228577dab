"""What an application comes to, by Spark's own record in the driver: rows, bytes, memory, lost executors, skew.

Beside `driver.py` in every driver; only the standard library and pyspark. The names are those of `SparkFigures`.
"""

import json
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

STANDALONE = "spark://"
ASK_EVERY, ASK_TIMEOUT = 15.0, 2.0
"""Seconds between two questions to a standalone master, and how long one may take."""
LARGEST_PAGE = 10_000_000
EVENTS_TIMEOUT_MS = 3_000
SLOWEST_STAGES = 5
"""How many of the stages that took longest are looked at for skew."""
FEWEST_TASKS, MANY_TASKS = 4, 10_000
"""How many tasks a stage has of which skew is told: Spark sorts all of them for it."""
LET_GO = ("killed by driver", "decommission", "idle")
"""Of what Spark says of an executor that it has ended itself."""
SUMS = {
    "input_rows": "inputRecords",
    "input_bytes": "inputBytes",
    "output_rows": "outputRecords",
    "output_bytes": "outputBytes",
    "shuffle_read_bytes": "shuffleReadBytes",
    "shuffle_write_bytes": "shuffleWriteBytes",
    "spilled_memory_bytes": "memoryBytesSpilled",
    "spilled_disk_bytes": "diskBytesSpilled",
    "run_ms": "executorRunTime",
    "gc_ms": "jvmGcTime",
    "failed_tasks": "numFailedTasks",
    "tasks": "numCompleteTasks",
}
"""By the figure, the field of Spark's StageData that it is the sum of."""


def executors_wanted(sc: Any) -> str:
    """Return what an application waits for that has no executor: what each is to have, and what the cluster has."""
    conf = sc.getConf()
    number = conf.get("spark.executor.instances", "")
    cores = conf.get("spark.executor.cores", "")
    has = f"{conf.get('spark.executor.memory', '1g')} and {f'{cores} cores' if cores else 'all cores of a worker'}"
    text = f"executors: asks for {number} x {has}" if number else f"executors: asks for {has}"
    if sc.master.startswith(STANDALONE):
        port, period = conf.get("spark.master.ui.port", "8080"), int(time.monotonic() // ASK_EVERY)
        text += f"; {_workers_at(sc.master, port, period)}"
    return text


_asking: list[threading.Thread] = []


@lru_cache(maxsize=1)
def _workers_at(masters: str, port: str, _: int) -> str:
    """Return what the workers of a standalone cluster have; asked once for each period, and waited for a moment only.

    Who asks ends this driver when its worker is gone: nothing that answers slowly may keep it from that.
    """
    found: list[str] = []
    if not any(thread.is_alive() for thread in _asking):
        _asking[:] = [threading.Thread(target=lambda: found.append(_read_workers(masters, port)), daemon=True)]
        _asking[0].start()
        _asking[0].join(ASK_TIMEOUT)
    return found[0] if found else "what its workers have is not known: its master is slow to answer"


def _read_workers(masters: str, port: str) -> str:
    """Return what the page of the master that is in charge says of its workers."""
    why = "none of its masters is in charge"
    for host in (address.rpartition(":")[0] for address in masters.removeprefix(STANDALONE).split(",")):
        url = f"http://{host}:{port}/json/"
        try:
            with urllib.request.urlopen(url, timeout=ASK_TIMEOUT) as answer:
                listed = json.loads(answer.read(LARGEST_PAGE))
            if listed["status"] == "ALIVE":
                return _in_words([worker for worker in listed["workers"] if worker["state"] == "ALIVE"])
        except Exception as error:  # whatever answers there: all else is worth telling
            why = f"not at {url} (conf spark.master.ui.port): {error!r}"
    return f"what its workers have is not known: {why}"


def _in_words(workers: list[dict[str, Any]]) -> str:
    if not workers:
        return "the cluster has no worker"
    largest = max(workers, key=lambda worker: (worker["memory"], worker["cores"]))
    free = max(workers, key=lambda worker: (worker["memoryfree"], worker["coresfree"]))
    return (
        f"the largest of {len(workers)} workers has {largest['memory']:,} MB and {largest['cores']} cores, "
        f"and the freest {free['memoryfree']:,} MB and {free['coresfree']} cores"
    )


def figures_of(sc: Any, *, with_skew: bool = True) -> dict[str, Any]:
    """Return the figures of the context *sc*. Raises whatever Spark raises where its internals are not as expected."""
    inside = sc._jsc.sc()
    with suppress(Exception):  # the last stage's end may be under way; it is left out then
        inside.listenerBus().waitUntilEmpty(EVENTS_TIMEOUT_MS)
    store, jvm = inside.statusStore(), sc._jvm
    mapper = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
    quantiles = sc._gateway.new_array(jvm.double, 2)
    quantiles[0], quantiles[1] = 0.5, 1.0

    def plain(java: Any) -> Any:
        return json.loads(mapper.writeValueAsString(java))

    stages = plain(store.stageList(None, False, False, quantiles, jvm.java.util.ArrayList()))
    skew = None
    if with_skew:
        with suppress(Exception):  # all else is worth telling
            skew = skew_of(stages, lambda stage: summary(store, stage, quantiles, plain))
    return {
        "application_id": sc.applicationId,
        "duration_ms": max(0, int(time.time() * 1000) - int(sc.startTime)),
        "jobs": len(plain(store.jobsList(None))),
        "stages": len([stage for stage in stages if stage["status"] != "SKIPPED"]),
        **{name: sum(max(0, int(stage.get(field) or 0)) for stage in stages) for name, field in SUMS.items()},
        **of_executors(plain(store.executorList(False)), is_local=sc.master.startswith("local")),
        "skew": skew,
    }


def of_executors(executors: list[dict[str, Any]], *, is_local: bool) -> dict[str, Any]:
    """Return the largest heap of an executor, and which of them were lost."""
    workers = [one for one in executors if is_local or one["id"] != "driver"]
    heaps = [(one.get("peakMemoryMetrics") or {}).get("JVMHeapMemory") or 0 for one in workers]
    reasons = [str(one.get("removeReason") or "") for one in workers if not one["isActive"]]
    lost = [why for why in reasons if not any(word in why.lower() for word in LET_GO)]
    because = sorted({why.strip().split("\n")[0][:200] for why in lost if why.strip()})[:3]
    return {"peak_heap_bytes": max(heaps, default=0) or None, "executors_lost": len(lost), "lost_because": because}


def skew_of(
    stages: list[dict[str, Any]], times_of: Callable[[dict[str, Any]], tuple[float, float] | None]
) -> dict[str, Any] | None:
    """Return the stage whose slowest task took longest beside its median, of those that took longest in all."""
    large = [stage for stage in stages if FEWEST_TASKS <= stage["numCompleteTasks"] <= MANY_TASKS]
    found = None
    for stage in sorted(large, key=lambda one: -one["executorRunTime"])[:SLOWEST_STAGES]:
        if (times := times_of(stage)) is None:
            continue
        median, slowest = times
        if found is None or slowest / max(1, median) > found["slowest_ms"] / max(1, found["median_ms"]):
            found = {
                "stage": stage["stageId"],
                "name": str(stage["name"])[:200],
                "tasks": stage["numCompleteTasks"],
                "median_ms": int(median),
                "slowest_ms": int(slowest),
            }
    return found


def summary(
    store: Any, stage: dict[str, Any], quantiles: Any, plain: Callable[[Any], Any]
) -> tuple[float, float] | None:
    """Return how long the median task of *stage* ran and its slowest, in milliseconds."""
    found = store.taskSummary(stage["stageId"], stage["attemptId"], quantiles)
    if not found.isDefined():
        return None
    median, slowest = plain(found.get())["executorRunTime"]
    return median, slowest


def before_each_stop(look: Callable[[Any], None]) -> None:
    """Have *look* called with each SparkContext before it is stopped: afterwards there is nothing to be asked."""
    from pyspark import SparkContext

    stop = SparkContext.stop

    def looked_at(self: Any) -> None:
        if getattr(self, "_jsc", None) is not None:
            look(self)
        stop(self)

    SparkContext.stop = looked_at
