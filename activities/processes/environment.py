"""Which of the worker's environment variables its children get: those on a list, and none that are the worker's own."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache

from ...model.spec.owned import OwnedNames

PASSED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR", "TMPDIR",
    "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHASHSEED", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV",
    "JAVA_HOME", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "SPARK_*", "PYSPARK_*", "HADOOP_*", "YARN_*", "HIVE_*",
    "KRB5*", "KUBECONFIG", "KUBERNETES_SERVICE_*", "OMP_*", "OPENBLAS_*", "MKL_*", "ARROW_*",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
)  # fmt: skip
"""What programs need to find themselves. Nothing here is a secret by its purpose."""
NEVER = (
    "TEMPORAL_*", "TIDEMILL_*", "AIRFLOW__DATABASE__*", "AIRFLOW__CORE__FERNET_KEY*", "AIRFLOW__API__SECRET_KEY*",
    "AIRFLOW__API_AUTH__*", "AIRFLOW__WEBSERVER__*", "AIRFLOW__CELERY*", "AIRFLOW__CORE__SQL_ALCHEMY_CONN*",
)  # fmt: skip
"""The worker's own, whatever an operator lists; and what is secret of an Airflow that the host may have had."""
LOOKED_UP = ("TIDEMILL_CONN_*", "TIDEMILL_VAR_*", "AIRFLOW_CONN_*", "AIRFLOW_VAR_*", "TIDEMILL_SECRETS_*")
"""By which a process that cannot ask its worker, such as a Spark driver, finds variables and connections."""


def for_children(environ: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """The part of *environ* that children get; *more* are patterns such as `AWS_*` that the operator adds."""
    wanted = (*PASSED_ON, *more)
    return {name: value for name, value in environ.items() if _any(name, wanted) and not _any(name, NEVER)}


def for_drivers(environ: Mapping[str, str], owns: OwnedNames | None = None) -> dict[str, str]:
    """What a Spark driver that runs a function of a DAG file gets beside that, of what its bundle may look up."""
    return {name: value for name, value in environ.items() if _any(name, LOOKED_UP) and _may_look_up(name, owns)}


def _may_look_up(variable: str, owns: OwnedNames | None) -> bool:
    if owns is None or not (owns.variable or owns.connection):
        return True
    _, kind, name = (*variable.split("_", 2), "")[:3]
    if kind not in ("VAR", "CONN"):  # by a backend of secrets it could ask for any
        return False
    return owns.problem("variable" if kind == "VAR" else "connection", name.lower()) is None


@cache
def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
