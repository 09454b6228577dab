"""Every way to run a Spark application, by where its driver runs."""

from collections.abc import Mapping

from ...model.spec.tasks import SparkMode
from .client import ClientMode
from .connect import ConnectMode
from .kubernetes import KubernetesMode
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
