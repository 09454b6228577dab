"""Which failure is a cluster's doing, and costs no retry: what its API says of the driver's pod, look after look."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubernetes_api import Api, Object, begun
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from tidemill.activities.attempts.outcomes import outcome_of
from tidemill.activities.attempts.supervision import infrastructure_error
from tidemill.activities.processes.answers import Failed
from tidemill.activities.spark import cluster
from tidemill.activities.spark.clusters import NotConfiguredError, Status
from tidemill.activities.spark.kubernetes import Kubernetes
from tidemill.activities.spark.pod import status_of
from tidemill.activities.spark.spark_operator import KIND, SparkOperator
from tidemill.activities.spark.starts import SparkStart, cluster_name
from tidemill.model.run.task_instances import Failure, Submission

MOUNTED = {"containers": [{"name": "d", "volumeMounts": [{"name": "t", "mountPath": "/opt/tidemill"}]}]}
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}


def pod(phase: str, target: str | None = None, ended_at: str | None = None, **metadata: Any) -> Object:
    status: Object = {"phase": phase}
    if target is not None:
        status["conditions"] = [{"type": "DisruptionTarget", "status": target, "reason": "PreemptionByScheduler"}]
    if ended_at is not None:
        ended = {"exitCode": 143, "finishedAt": f"2026-01-01T00:00:{ended_at}Z"}
        status["containerStatuses"] = [{"name": "d", "state": {"terminated": ended}}]
    return {"metadata": metadata, "spec": MOUNTED, "status": status}


@pytest.mark.parametrize(("found", "is_disruption"), [
    (pod("Running", "True"), True),
    (pod("Failed", "True"), True),
    (pod("Failed", "False"), False),
    (pod("Failed"), False),
    ({"status": {**pod("Failed", "True")["status"], "reason": "Evicted"}}, False),  # it may have filled its node
    (pod("Running", **LEAVING), True),
    (pod("Pending", **LEAVING), True),
    (pod("Failed", ended_at="01", **LEAVING), True),  # of the signal that it was sent
    (pod("Failed", ended_at="00", **{**LEAVING, "deletionGracePeriodSeconds": 20}), False),  # before somebody asked
    (pod("Failed", **LEAVING), False),
])  # fmt: skip
def test_whether_others_have_ended_a_pod_is_the_apis_word(found: Object, is_disruption: bool) -> None:
    assert status_of(found).is_disruption is is_disruption


RUNNING, FAILED, GONE = pod("Running"), pod("Failed"), None


@pytest.mark.parametrize(("looks", "is_disruption"), [
    ([RUNNING, GONE], True),
    ([RUNNING, pod("Running", **LEAVING), GONE], True),
    ([RUNNING, FAILED, GONE], False),  # it had ended by itself, and somebody has cleared up
    ([GONE], False),  # nobody here knows how it stood
    ([pod("Running", "True"), RUNNING, FAILED], False),  # the scheduler has thought better of it
    ([RUNNING, pod("Failed", "True")], True),
])  # fmt: skip
def test_a_try_that_its_cluster_has_ended_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: list[Object | None], is_disruption: bool
) -> None:
    assert failure_of(tmp_path, monkeypatch, looks).get("is_disruption", False) is is_disruption


def test_a_drivers_word_comes_before_that_of_its_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal that ends it is an exception to its user's code; of another failure it may claim what it likes."""
    word = {"failure": {"error_type": "Py4JError", "message": "the JVM is gone", "is_disruption": True}}
    for look, is_disruption in ((pod("Running", **LEAVING), True), (FAILED, False)):
        failure = failure_of(tmp_path, monkeypatch, [look], word)
        assert failure["error_type"] == "Py4JError"
        assert failure.get("is_disruption", False) is is_disruption
    word = {"failure": {"error_type": "ContainerLostError", "message": "that is YARN's to say"}}
    assert "is_disruption" not in failure_of(tmp_path, monkeypatch, [FAILED], word)


@pytest.mark.parametrize("trouble", [NotConfiguredError("no kubectl"), infrastructure_error("another connection")])
def test_a_failure_counts_where_the_cluster_cannot_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    """A worker that knows less than the one before still has the driver's word."""

    def fail(*_: object) -> Kubernetes:
        raise trouble

    word = {"failure": {"error_type": "ValueError", "message": "bad row"}}
    assert failure_of(tmp_path, monkeypatch, [FAILED], word, fail)["error_type"] == "ValueError"


def test_no_child_says_that_a_cluster_has_ended_it() -> None:
    with pytest.raises(ApplicationError) as raised:
        outcome_of(Failed(failure=Failure(error_type="E", message="", is_disruption=True)))
    assert "is_disruption" not in raised.value.details[0]


def test_a_spark_application_that_has_completed_was_not_taken(tmp_path: Path) -> None:
    work, api, _ = begun(tmp_path)
    api.logs_of = "d"
    operator = SparkOperator(work, lambda: "", api)
    for state, is_disruption in (("FAILED", True), ("COMPLETED", False)):
        api.put("pod", cluster_name(work), RUNNING)
        operator.status(cluster_name(work))
        api.objects.pop(("pod", cluster_name(work)))
        api.put(KIND, cluster_name(work), {"status": {"applicationState": {"state": state}}})
        assert operator.status(cluster_name(work)).is_disruption is is_disruption


def failure_of(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    looks: list[Object | None],
    word: Object | None = None,
    cluster_of: Callable[..., Kubernetes] | None = None,
) -> Object:
    """What the try fails of where its cluster is looked at so, the last time again and again."""
    work, api, kubernetes = begun(home)
    api.logs_of = "d"
    for name in ("ASK_EVERY", "RESULT_TIMEOUT", "SILENT_AFTER"):
        monkeypatch.setattr(cluster, name, 0)
    left, status = [*looks], kubernetes.status

    def look(application_id: str) -> Status:
        show(api, work, left.pop(0) if len(left) > 1 else left[0])
        return status(application_id)

    monkeypatch.setattr(kubernetes, "status", look)
    monkeypatch.setattr(cluster, "cluster_of", cluster_of or (lambda *_: kubernetes))
    if word is not None:
        work.folder.hand_over("result.json", json.dumps(word))
    submission = Submission(application_id=cluster_name(work), submitted_at=datetime.now(UTC))
    with pytest.raises(ApplicationError) as raised:
        ActivityEnvironment().run(cluster.follow, work, submission)
    return dict(raised.value.details[0])


def show(api: Api, start: SparkStart, found: Object | None) -> None:
    if found is None:
        api.objects.pop(("pod", cluster_name(start)), None)
    else:
        api.put("pod", cluster_name(start), found)
