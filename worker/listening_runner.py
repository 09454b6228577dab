"""Runs workflows as another runner does, and tells somebody of every activation and its answer."""

from collections.abc import Callable, Sequence
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.workflow import Info

Listener = Callable[[Info, WorkflowActivation, WorkflowActivationCompletion], None]
"""Called on the thread of the activation, after it; must be quick, and raise nothing."""


class ListeningRunner(WorkflowRunner):
    """*inner*, with a *listener*."""

    def __init__(self, inner: WorkflowRunner, listener: Listener) -> None:
        self._inner, self._listener = inner, listener

    def prepare_workflow(self, defn: Any) -> None:
        """As *inner*."""
        self._inner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """An instance of *inner* that is listened to."""
        return _Heard(self._inner.create_instance(det), self._listener)

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        """As *inner*."""
        self._inner.set_worker_level_failure_exception_types(types)


class _Heard(WorkflowInstance):
    def __init__(self, inner: WorkflowInstance, listener: Listener) -> None:
        self._inner, self._listener = inner, listener

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        answer = self._inner.activate(act)
        self._listener(self._inner.get_info(), act, answer)
        return answer

    def get_serialization_context(self, command_info: Any) -> Any:
        return self._inner.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> Any:
        return self._inner.get_external_store_context(command_info)

    def get_info(self) -> Info:
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()
