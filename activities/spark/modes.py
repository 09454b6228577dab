"""Every way to run a Spark application, by where its driver runs."""

from collections.abc import Mapping

from ...model.run.attempts import TaskAttempt
from ...model.spec.tasks import SparkMode
from ..worker_context import WorkerContext
from .client import ClientMode
from .connect import ConnectMode
from .kubernetes import KubernetesMode
from .place import written_options
from .spark_operator import SparkOperatorMode
from .standalone import StandaloneMode
from .starts import Mode
from .yarn import YarnMode

MODES: Mapping[SparkMode, Mode] = {
    SparkMode.CLIENT: ClientMode(),
    SparkMode.STANDALONE: StandaloneMode(),
    SparkMode.YARN: YarnMode(),
    SparkMode.KUBERNETES: KubernetesMode(),
    SparkMode.SPARK_OPERATOR: SparkOperatorMode(),
    SparkMode.CONNECT: ConnectMode(),
}


def mode_of(attempt: TaskAttempt, worker_context: WorkerContext) -> Mode:
    """Return how the attempt's application runs by what this worker knows. Fails the task where that makes no sense."""
    return MODES[written_options(attempt, worker_context).mode]
