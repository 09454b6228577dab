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
        """An instance of *inner* that is listened to.

        It stays what it is, since what wraps an instance is asked for a context with each payload.
        """
        instance = self._inner.create_instance(det)
        activate = instance.activate

        def heard(act: WorkflowActivation) -> WorkflowActivationCompletion:
            answer = activate(act)
            self._listener(instance.get_info(), act, answer)
            return answer

        instance.activate = heard  # type: ignore[method-assign]
        return instance

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        """As *inner*."""
        self._inner.set_worker_level_failure_exception_types(types)
