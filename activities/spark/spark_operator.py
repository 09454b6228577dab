"""Kubernetes by the Kubeflow Spark operator: a SparkApplication asks for the driver's pod, in place of spark-submit.

The pod keeps its name, its ConfigMap, and its word of how it went: only who submits it is another. The SparkApplication
has the attempt's name, too. It is owned by the ConfigMap, and owns the pod, as the operator has it: whichever of the
three is removed takes the others along. Its fields are those of the operator's API, sparkoperator.k8s.io/v1beta2.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..attempts.supervision import AttemptSupervisor, infrastructure_error
from .causes import cause_of, is_refusal
from .cluster import HOLDS_SLOT_FOR
from .clusters import AppState, Cluster, Status
from .command import SECRET, conf_of, in_megabytes, spark_home, spark_version, whose
from .kubectl import is_taken
from .kubernetes import (
    ATTEMPT,
    CONTAINER,
    GIVEN_UP,
    NOTHING_BEGINS,
    TEMPLATE,
    Kubernetes,
    KubernetesMode,
    namespace_of,
    owner_reference,
    template_of,
)
from .place import invalid, is_url
from .starts import SparkStart

KIND = "sparkapplications.sparkoperator.k8s.io"
WAITING = ("", "SUSPENDING", "SUSPENDED", "RESUMING", "INVALIDATING", "PENDING_RERUN")
"""States of a SparkApplication that has no driver, and will have one; empty where nobody has begun with it."""
OPERATORS_CONTAINER, OPERATORS_EXECUTOR = "spark-kubernetes-driver", "spark-kubernetes-executor"
"""Which containers of templates the driver and an executor are for the operator, whatever the conf says."""
EXECUTOR_TEMPLATE = "spark.kubernetes.executor.podTemplateFile"
EXECUTOR_CONTAINER = "spark.kubernetes.executor.podTemplateContainerName"
OPERATORS_CONF = (
    TEMPLATE, CONTAINER, EXECUTOR_TEMPLATE, EXECUTOR_CONTAINER,
    "spark.kubernetes.driver.pod.name", "spark.kubernetes.namespace", "spark.kubernetes.submission.waitAppCompletion",
)  # fmt: skip
"""What the operator says itself, or has a field for."""
SHIPPED = ("jars", "py_files", "files", "archives")


class SparkOperatorMode(KubernetesMode):
    """Cluster mode on Kubernetes, where the Spark operator runs spark-submit."""

    def cluster(self, start: SparkStart, launch: Callable[..., str], supervisor: AttemptSupervisor) -> Cluster:
        """Return the attempt's SparkApplication with its pod."""
        return SparkOperator(start, launch, supervisor=supervisor)


class SparkOperator(Kubernetes):
    """The attempt is its driver's pod, which its SparkApplication asks for."""

    def find(self) -> str | None:
        """Return the attempt's pod; also one that is gone, as the operator has had it. What was refused is removed."""
        application = self._application()
        if application is not None and _is_refused(application):
            return self._made_after_all(application)
        if (found := super().find()) is not None:
            return found
        has_been_there = application is not None and (self._first_pod() or _state(application) not in WAITING)
        return self._pod if has_been_there else None

    def _made_after_all(self, refused: dict[str, Any]) -> str | None:
        """Return the pod where there is one, or was; remove the SparkApplication *refused* where there was none.

        An operator that is ended before it has noted that it has submitted does so again, and finds the name taken.
        """
        is_there = self._api.get("pod", self._pod) is not None
        if (found := super().find()) is not None:
            return found
        if not is_there and is_taken(OSError(_why(refused))):
            return self._pod
        self._remove()
        return None

    def submit(self) -> str:
        """Have the SparkApplication made, if it is not there, and return when the operator has submitted it.

        Raises OSError with the operator's words where it could not, or has not within 5 minutes.
        """
        wanted = self._spark_application()
        wanted["metadata"]["ownerReferences"] = [owner_reference(self._files())]
        try:
            self._api.create(wanted)
        except FileExistsError:
            pass
        except OSError as error:
            raise _explained(error) from None
        self._end_if_given_up()
        deadline = time.monotonic() + HOLDS_SLOT_FOR
        while (state := self._submitted_state()) in WAITING:
            where = namespace_of(self._work.options)
            message = f"SparkApplication {self._pod} waits for the Spark operator of namespace {where}"
            message += f": it is {state}, and somebody has to resume it" if state else ". Is one running there?"
            if time.monotonic() > deadline:
                raise OSError(message)
            if self._supervisor is not None:
                self._supervisor.check({"cluster": message})
            time.sleep(1)
        return self._pod

    def _end_if_given_up(self) -> None:
        """Raise where the attempt was given up while its SparkApplication was made: nobody else would remove that."""
        files = self._api.get("configmap", self._pod)
        if files is None or GIVEN_UP in files["metadata"].get("labels", {}):
            self._remove()
            raise infrastructure_error(NOTHING_BEGINS)

    def _submitted_state(self) -> str:
        """Return how the SparkApplication stands. Raises OSError where it could not be submitted."""
        try:
            application = self._api.get(KIND, self._pod)
        except OSError as error:
            raise _explained(error) from None
        if application is None:
            raise OSError(f"SparkApplication {self._pod} was removed before the operator had submitted it")
        if _is_refused(application) and self._made_after_all(application) is None:
            raise OSError(_why(application))
        return _state(application)

    def give_up(self) -> bool:
        """Keep any driver of the attempt from beginning; a pod that comes late has an owner that is gone."""
        given_up = super().give_up()
        self._remove()
        return given_up

    def _container_of_template(self) -> str:
        return OPERATORS_CONTAINER

    def status(self, application_id: str) -> Status:
        """Return how the pod stands; what its SparkApplication says where there is none."""
        status = super().status(application_id)
        if status.life is not AppState.UNKNOWN or (application := self._application()) is None:
            return status
        state = _state(application)
        message = f"{status.message}, and its SparkApplication is {state}: {_why(application)}".removesuffix(": ")
        return replace(status, message=message, is_disruption=status.is_disruption and state != "COMPLETED")

    def kill(self, application_id: str) -> None:
        """Have the pod and its SparkApplication removed."""
        super().kill(application_id)
        self._remove()

    def _application(self) -> dict[str, Any] | None:
        """Return the SparkApplication; None where there is none, or can be none."""
        try:
            return self._api.get(KIND, self._pod)
        except OSError as error:
            if self._has_made_none(error):
                return None
            raise

    def _remove(self) -> None:
        try:
            self._api.delete(KIND, self._pod)
        except OSError as error:
            if not self._has_made_none(error):
                raise

    def _has_made_none(self, error: OSError) -> bool:
        """Return whether *error* says that there can be no SparkApplication of this attempt.

        A cluster that has no such kind of object; or no right to it, for the first start: others may have had one.
        """
        message = str(error)
        return _is_missing(message) or (self._work.number == 1 and is_refusal(message))

    def _spark_application(self) -> dict[str, Any]:
        """Return the SparkApplication of the attempt. Fails the task for what no operator can bring along."""
        work, options = self._work, self._work.options
        _check(work)
        driver = {"cores": options.driver_cores, "memory": in_megabytes(options.driver_memory)}
        executor = {
            "cores": options.executor_cores,
            "memory": in_megabytes(options.executor_memory),
            "instances": options.num_executors,
            "template": template_of(work, EXECUTOR_TEMPLATE) or None,
        }
        deps = {
            "jars": options.jars,
            "pyFiles": options.py_files,
            "files": options.files,
            "archives": options.archives,
            "packages": options.packages,
            "excludePackages": options.exclude_packages,
            "repositories": options.repositories,
        }
        return {
            "apiVersion": "sparkoperator.k8s.io/v1beta2",
            "kind": "SparkApplication",
            "metadata": {
                "name": self._pod,
                "labels": {ATTEMPT: work.attempt.uuid.hex},
                "annotations": {f"tidemill/{name}": value for name, value in whose(work).items()},
            },
            "spec": {
                **_application(work),
                "mode": "cluster",
                "sparkVersion": ".".join(map(str, spark_version(spark_home()) or (4,))),
                "restartPolicy": {"type": "Never"},
                "sparkConf": _conf(work),
                "deps": {name: [*values] for name, values in deps.items() if values},
                **({"proxyUser": options.proxy_user} if options.proxy_user else {}),
                "driver": {"podName": self._pod, "template": self._template(None), **_given(driver)},
                "executor": _given(executor),
            },
        }


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _is_missing(message: str) -> bool:
    """Return whether *message*, of kubectl, says that the cluster has no operator's kind of object."""
    return "no matches for kind" in message or "doesn't have a resource type" in message


def _explained(error: OSError) -> OSError:
    """Return *error* with what somebody has to do who has asked for the operator."""
    reason = str(error)
    if _is_missing(reason):
        return OSError(f"submit_with 'spark-operator': this cluster has none. Install it, or leave that out ({reason})")
    if "forbidden" in reason.lower():
        rights = "Give it the rights in deploy/kubernetes/spark"
        return OSError(f"submit_with 'spark-operator': this worker may make no SparkApplication. {rights} ({reason})")
    return error


def _state(application: dict[str, Any]) -> str:
    return str(application.get("status", {}).get("applicationState", {}).get("state", ""))


def _is_refused(application: dict[str, Any]) -> bool:
    """Return whether the operator could not submit it: one that failed later has been executed."""
    executed = application.get("status", {}).get("executionAttempts")
    return _state(application) == "SUBMISSION_FAILED" or (_state(application) == "FAILED" and not executed)


def _why(application: dict[str, Any]) -> str:
    """Return what the operator says of a failure; empty without one."""
    message = application.get("status", {}).get("applicationState", {}).get("errorMessage")
    return cause_of(str(message).splitlines()) if message else ""


def _application(start: SparkStart) -> dict[str, Any]:
    """Return the type, the file and the arguments, as a SparkApplication has them."""
    if start.script is not None and start.is_java:
        java_class = {"mainClass": start.script.java_class} if start.script.java_class else {}
        file, arguments = start.filled["application"], [str(one) for one in start.filled["application_args"]]
        return {"type": "Java", **java_class, "mainApplicationFile": file, "arguments": arguments}
    file, *arguments = start.mode.application(start) or []
    return {"type": "Python", "mainApplicationFile": file, "arguments": arguments}


def _conf(start: SparkStart) -> dict[str, str]:
    conf = {key: value for key, value in conf_of(start).items() if key not in OPERATORS_CONF}
    if start.options.driver_class_path:
        conf["spark.driver.extraClassPath"] = start.options.driver_class_path
    return conf


def _check(start: SparkStart) -> None:
    """Fail the task for what stays on this worker's disk, or would be there for everybody to read."""
    options = start.options
    named = {name: getattr(options, name) for name in SHIPPED}
    if start.is_java:
        named["application"] = (str(start.filled["application"]),)
    for option, files in named.items():
        if (local := next((file for file in files if not is_url(file)), None)) is not None:
            raise invalid(
                f"{option}: {local!r} is a file of the worker's, and the Spark operator submits elsewhere. "
                "Put it in the image, as local:///path/there, or in a store, and name its URL"
            )
    for option in ("principal", "keytab", "properties_file"):
        if getattr(options, option):
            raise invalid(
                f"{option}: the Spark operator's SparkApplication has no such field. Leave it out, or use conf"
            )
    if (secret := next((key for key in conf_of(start) if _is_secret(key)), None)) is not None:
        raise invalid(
            f"{secret!r} would be in the SparkApplication and on the operator's command line, for everybody to read. "
            "Let the cluster say it: spark.kubernetes.driver.secretKeyRef.NAME=secret:key"
        )
    for key, only in ((CONTAINER, OPERATORS_CONTAINER), (EXECUTOR_CONTAINER, OPERATORS_EXECUTOR)):
        if (name := options.conf.get(key, only)) != only:
            raise invalid(f"conf {key}: the Spark operator takes {only!r} only, not {name!r}")


def _is_secret(key: str) -> bool:
    """Return whether the value of *key* in the conf, or in the environment by it, is one that nobody should read."""
    names_one = any(part in key for part in (".secretKeyRef.", ".secrets.")) or key.endswith("File")
    return SECRET.search(key) is not None and not names_one
