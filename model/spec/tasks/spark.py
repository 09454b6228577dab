"""Tasks that are Spark applications."""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from ...base import Model, OmitDefaults
from .base import BaseTask
from .code import CallTask

SPARK_POOL = "spark"
"""The pool that Spark tasks take slots from unless they name another."""
DEFAULT_MASTER = "local[*]"

_MEMORY = re.compile(r"^(\d+)([kmgt]?)b?$", re.IGNORECASE)
_UNITS = {"": 2**20, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_MASTER = re.compile(r"^(local(\[.+\])?|yarn|(spark|sc)://[^/\s]+(/\S*)?|k8s://\S+)$")
_TABLE = re.compile(r"(\w+|`[^`'\\]+`)(\.(\w+|`[^`'\\]+`)){2,}", re.ASCII)
_CONNECT_TAKES = frozenset({"conn_id", "master", "conf", "name"})
_OF_CLUSTERS = frozenset({
    "deploy_mode", "rest_url", "yarn_queue", "namespace",
    "driver_memory", "driver_cores", "executor_memory", "executor_cores", "total_executor_cores",
    "num_executors", "dynamic_allocation", "min_executors", "max_executors", "submit_with",
})  # fmt: skip
"""Where on a cluster, and how large: a Connect server has that already, whoever asks.

A DAG may run there, and elsewhere by another connection.
"""


TEMPLATED = (
    "conf", "name", "jars", "py_files", "files", "archives", "packages", "exclude_packages", "repositories",
    "driver_class_path", "properties_file", "yarn_queue", "namespace", "principal", "keytab", "proxy_user",
)  # fmt: skip
_OPTIONS_IN_CONF = {"spark.master": "master", "spark.submit.deployMode": "deploy_mode"}


class SparkMode(StrEnum):
    """Where the driver of an application runs, and who looks after it."""

    CLIENT = "client"
    """Below the worker: `local[*]`, or the client mode of any cluster. It ends with its worker."""
    STANDALONE = "standalone-cluster"
    """On a standalone cluster, by its master's REST API. It outlives its worker."""
    YARN = "yarn-cluster"
    KUBERNETES = "kubernetes-cluster"
    SPARK_OPERATOR = "spark-operator"
    """On Kubernetes, submitted by the Kubeflow Spark operator."""
    CONNECT = "connect"
    """On a Spark Connect server, in a session of the attempt's own."""


SQL_FILES = (".sql", ".hql")
"""How the names of files end that SQL is read from (as in Airflow's provider)."""


class SparkOptions(OmitDefaults, Model):
    """How a Spark application is submitted: the flags of spark-submit by their names.

    Sizes of memory are written as Spark does: `512m`, `2g`; a number alone means MiB.
    """

    conn_id: str | None = None
    """A connection that the worker's settings name: what it says holds where the task says nothing."""
    master: str | None = None
    """`local[N]`, `spark://host:port`, `yarn`, `k8s://https://host:port`, or `sc://host:port` for Spark Connect."""
    deploy_mode: Literal["client", "cluster"] | None = None
    """Where the driver runs: below the worker, or in the cluster."""
    rest_url: str | None = None
    """For cluster mode, where the cluster's REST API is, or several with commas between.

    None: port 6066 of a standalone master's host; YARN's ResourceManager as HADOOP_CONF_DIR/yarn-site.xml names it.
    """
    conf: dict[str, str | int | float | bool] = {}
    """Spark properties; keys begin with "spark."."""
    driver_memory: str | None = None
    """Heap of the driver, as Spark writes it: "2g"."""
    driver_cores: PositiveInt | None = None
    """Cores of the driver, in cluster mode."""
    executor_memory: str | None = None
    """Heap of each executor."""
    executor_cores: PositiveInt | None = None
    """Cores of each executor."""
    total_executor_cores: PositiveInt | None = None
    """Cores of all executors together, on a standalone cluster."""
    num_executors: PositiveInt | None = None
    """How many executors, on YARN and Kubernetes."""
    dynamic_allocation: bool | None = None
    """Whether executors come and go with the work (spark.dynamicAllocation.*), shuffles tracked."""
    min_executors: PositiveInt | None = None
    """The fewest executors with dynamic_allocation."""
    max_executors: PositiveInt | None = None
    """The most executors with dynamic_allocation."""
    packages: tuple[str, ...] = ()
    """Maven coordinates: group:artifact:version."""
    exclude_packages: tuple[str, ...] = ()
    """What packages are not to bring along: group:artifact."""
    repositories: tuple[str, ...] = ()
    """Further Maven repositories."""
    jars: tuple[str, ...] = ()
    """JAR files for driver and executors."""
    py_files: tuple[str, ...] = ()
    """Python files, .zip or .egg for driver and executors."""
    files: tuple[str, ...] = ()
    """Files for the working directory of each executor."""
    archives: tuple[str, ...] = ()
    """Archives that are unpacked there."""
    driver_class_path: str | None = None
    """Further class path entries of the driver."""
    properties_file: str | None = None
    """A file of Spark properties."""
    yarn_queue: str | None = None
    """The YARN queue."""
    namespace: str | None = None
    """The Kubernetes namespace of driver and executors."""
    submit_with: Literal["spark-submit", "spark-operator"] | None = None
    """Who submits it: spark-submit below the worker, or, on Kubernetes, the Kubeflow Spark operator there.

    None: spark-submit.
    """
    principal: str | None = None
    """The Kerberos principal."""
    keytab: str | None = None
    """The file of its key."""
    proxy_user: str | None = None
    """The user that is impersonated."""
    name: str | None = None
    """The name of the application; None: DAG, task and run."""

    @field_validator("driver_memory", "executor_memory")
    @classmethod
    def _size(cls, value: str | None) -> str | None:
        if value is not None:
            megabytes(value)
        return value

    @field_validator("packages", "exclude_packages")
    @classmethod
    def _coordinates(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if "{{" not in value and value.count(":") not in (1, 2):
                raise ValueError(f"{value!r} is no Maven coordinate. Write it as group:artifact:version")
        return values

    @field_validator("conf")
    @classmethod
    def _known_to_spark(cls, conf: dict[str, Any]) -> dict[str, Any]:
        for key in conf:
            if not key.startswith("spark."):
                raise ValueError(f"Spark drops conf {key!r}: its keys start with 'spark.'. Write 'spark.{key}'")
            if key in _OPTIONS_IN_CONF:
                message = (
                    f"conf {key!r} decides how the application is looked after. Set {_OPTIONS_IN_CONF[key]} instead"
                )
                raise ValueError(message)
        return conf

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.master is not None and not _MASTER.match(self.master):
            raise ValueError(
                f"master {self.master!r} is none that Spark knows. "
                "Use local[N], spark://host:port, yarn, k8s://https://host:port or sc://host:port"
            )
        if self.deploy_mode == "cluster" and self.master is not None and self.master.startswith("local"):
            raise ValueError(f"deploy_mode 'cluster' needs a cluster, and master is {self.master!r}. Use 'client'")
        if self.master is not None and (problem := self.without_operator) is not None:
            raise ValueError(problem)
        if self.master is not None and self.master.startswith("sc://"):
            set_fields = {name for name in self.model_fields_set if getattr(self, name)}
            if fixed := sorted(set_fields - _CONNECT_TAKES):
                raise ValueError(
                    f"{', '.join(fixed)}: a Connect server has that set when it starts, not by its clients. "
                    "Leave it out, or set it where the server is started"
                )
        return self

    def over(self, connection: "SparkOptions") -> "SparkOptions":
        """These options, with those of *connection* where they say nothing; conf is merged key by key.

        On a connection to a Connect server, sizes, and places on a cluster, say nothing: there they are set already.
        Raises ValueError where the two together are impossible.
        """
        mine = {name: getattr(self, name) for name in self.model_fields_set if getattr(self, name) is not None}
        theirs = {name: getattr(connection, name) for name in connection.model_fields_set}
        if self.master is None and connection.mode is SparkMode.CONNECT:
            mine = {name: value for name, value in mine.items() if name not in _OF_CLUSTERS}
        return SparkOptions(**{**theirs, **mine, "conf": {**connection.conf, **self.conf}})

    def templated(self) -> dict[str, Any]:
        """What of these options is a template, by name (Airflow: template_fields)."""
        return {name: value for name in TEMPLATED if (value := getattr(self, name))}

    def filled(self, rendered: dict[str, Any]) -> "SparkOptions":
        """These options with what their templates have come to. Raises ValueError for what is no option then."""
        lists = {name: parts(value) for name, value in rendered.items() if isinstance(value, list | tuple)}
        mine = {name: getattr(self, name) for name in self.model_fields_set}
        return SparkOptions(**{**mine, **rendered, **lists})

    def named_files(self) -> dict[str, tuple[str, ...]]:
        """Return the files that these options name, by option, without what they are called where they are unpacked."""
        one = (("properties_file", self.properties_file), ("keytab", self.keytab))
        templates = tuple(str(value) for key, value in self.conf.items() if key.endswith(".podTemplateFile"))
        named = {
            **{name: getattr(self, name) for name in ("jars", "py_files", "files", "archives")},
            **{name: (value,) for name, value in one if value},
            "driver_class_path": tuple((self.driver_class_path or "").split(":")),
            "conf": templates,
        }
        return {
            name: tuple(path for file in files if (path := file.partition("#")[0])) for name, files in named.items()
        }

    @property
    def mode(self) -> SparkMode:
        master = self.master or DEFAULT_MASTER
        if master.startswith("sc://"):
            return SparkMode.CONNECT
        if self.deploy_mode != "cluster":
            return SparkMode.CLIENT
        kubernetes = SparkMode.SPARK_OPERATOR if self.submit_with == "spark-operator" else SparkMode.KUBERNETES
        return {"s": SparkMode.STANDALONE, "y": SparkMode.YARN, "k": kubernetes}[master[0]]

    @property
    def placed(self) -> "SparkOptions":
        """Return these options with the master that holds where nobody names one."""
        return self if self.master is not None else self.model_copy(update={"master": DEFAULT_MASTER})

    @property
    def without_operator(self) -> str | None:
        """Return why there is no Spark operator where the application would run; None if there is, or need not be."""
        if self.submit_with != "spark-operator" or self.mode is SparkMode.SPARK_OPERATOR:
            return None
        where = f"master is {self.master or DEFAULT_MASTER!r}, deploy_mode {self.deploy_mode or 'client'!r}"
        return (
            f"submit_with 'spark-operator' needs master k8s://https://host:port and deploy_mode 'cluster', and {where}"
        )

    @property
    def untried(self) -> str | None:
        """The kind of cluster that the application would run on, if tidemill's tests have had none of that kind."""
        master = self.master or DEFAULT_MASTER
        if master == "yarn" and self.mode is SparkMode.CLIENT:
            return "YARN cluster in client mode"
        if master.startswith("k8s://") and self.mode is SparkMode.CLIENT:
            return "Kubernetes cluster in client mode"
        return None

    @property
    def driver_megabytes(self) -> int:
        """What a driver takes of its host: its heap, and as much again as Spark reckons for the rest."""
        memory = self.driver_memory or str(self.conf.get("spark.driver.memory", "1g"))
        heap = megabytes(memory)
        return heap + max(384, heap // 10)


def parts(given: Iterable[Any]) -> tuple[str, ...]:
    """A template may come to several names with commas between, as spark-submit takes them."""
    return tuple(part.strip() for one in given for part in str(one).split(",") if part.strip())


def check_table_name(name: str) -> None:
    """Raise ValueError where *name* is no whole name of a table: its catalog has to be in it."""
    if not _TABLE.fullmatch(name):
        raise ValueError(f"table {name!r} is no whole name. Write it as catalog.namespace.table")


def megabytes(size: str) -> int:
    """*size* as Spark writes it, in MiB. Raises ValueError for what is no size."""
    found = _MEMORY.match(size)
    if found is None:
        raise ValueError(f"{size!r} is no size of memory. Write it as Spark does, such as 512m or 2g")
    return int(found[1]) * _UNITS[found[2].lower()] // 2**20


class SparkWork(BaseTask):
    """What every kind of Spark task has."""

    activity: ClassVar[str | None] = "tidemill.spark"
    default_pool: ClassVar[str | None] = SPARK_POOL
    queue_suffix: ClassVar[str] = "-spark"
    """Heavy drivers wait for each other there, and light tasks for none of them."""
    template_fields: ClassVar[tuple[str, ...]] = ("env", "output", "table", "replace_where", "session")
    """The fields that are templates, beside those of the options (Airflow's name)."""

    driver_side: ClassVar[str | None] = None
    """The file beside the driver's own side that carries it out (`activities/spark`); None: that side itself does."""

    spark: SparkOptions = SparkOptions()
    """Where and with what it runs, over the connection and the settings of the worker."""
    env: dict[str, str] = {}
    """Environment of the driver; in cluster mode it reaches the driver where the cluster passes it on."""
    output: str | None = None
    """The folder that the task makes, such as `lake/flights/day={{ ds }}`.

    The application writes to `spark.tidemill.output`, a folder of the attempt's own, which takes
    this place when the attempt has succeeded: once, and never from an attempt that was given up.
    """
    table: str | None = None
    """The Iceberg table that the task writes to, as catalog.namespace.table; a template.

    What the application writes goes to a branch of the attempt's own, which becomes the table's main
    branch when the attempt has succeeded: once, and never from an attempt that was given up.
    """
    replace_where: str | None = None
    """The rows of `table` that are the run's, as an SQL condition, such as `day = date'{{ ds }}'`; a template.

    The application finds none of them there, so that a run which is run again replaces what it had written. Runs may
    then write side by side.
    """

    keep_session: bool = False
    """Whether the session that it has on a Connect server stays open after its success, as its result `spark_session`.

    Its temporary views, functions and conf are there for tasks that name it as their `session`.
    """
    session: str | dict[str, str] | None = None
    """The id of a session on the same Connect server that it begins with a copy of, such as another task's result.

    `session=prepare.output["spark_session"]`; a template.
    """

    def templated(self) -> tuple[Any, ...]:
        return (*self.spark.templated().values(), *super().templated())

    @property
    def waits_for_room(self) -> bool:
        return True

    def named_files(self) -> dict[str, tuple[str, ...]]:
        return self.spark.named_files()

    def plan(self, _: Mapping[str, Any], __: Callable[[str], str], /) -> dict[str, Any]:
        """Return what its `driver_side` has to know, of its fields with their templates filled in.

        The second argument finds the file that the DAG calls by a name.
        """
        return {}

    def impossible_with(self, options: SparkOptions, /) -> str | None:
        """Return why it cannot be run with some options, its own and those of its connection; None if it can."""
        if options.master is not None and options.mode is not SparkMode.CONNECT:
            named = next((name for name in ("keep_session", "session") if getattr(self, name)), None)
            if named is not None:
                return f"{named}: only a Spark Connect server has sessions, and master is {options.master!r}"
        return None

    @model_validator(mode="after")
    def _publishable(self) -> Self:
        if self.table is not None and self.output is not None:
            raise ValueError("output and table are both given: a task publishes a folder or a table. Leave one out")
        if self.replace_where is not None and self.table is None:
            raise ValueError("replace_where says which rows of a table are replaced. Name the table, as table=")
        if self.table is not None and "{" not in self.table:
            check_table_name(self.table)
        if (problem := self.impossible_with(self.spark)) is not None:
            raise ValueError(problem)
        return self


class SparkSubmitTask(SparkWork):
    """A Spark application, submitted with spark-submit (Airflow: SparkSubmitOperator).

    A relative `application` is looked up from the folder of the DAG file.
    """

    airflow_name: ClassVar[str] = "SparkSubmitOperator"
    kind: Literal["spark_submit"] = "spark_submit"
    application: Annotated[str, Field(min_length=1)]
    """The .py or .jar file to submit; a template."""
    application_args: tuple[str | dict[str, str], ...] = ()
    """Texts, or references to results of other tasks."""
    java_class: str | None = None
    """The main class of a JAR."""
    template_fields: ClassVar[tuple[str, ...]] = (*SparkWork.template_fields, "application", "application_args")

    def named_files(self) -> dict[str, tuple[str, ...]]:
        return {"application": (self.application,), **super().named_files()}

    @property
    def is_java(self) -> bool:
        return self.java_class is not None or self.application.endswith(".jar")

    def impossible_with(self, options: SparkOptions, /) -> str | None:
        if self.is_java and options.mode in (SparkMode.STANDALONE, SparkMode.CONNECT):
            return (
                f"task {self.task_id!r}: a Java application cannot be run in mode {options.mode}. "
                "Use client mode, YARN or Kubernetes"
            )
        if self.is_java and self.table is not None:
            return "table: nobody of tidemill's is beside a Java application. Write the table from Python"
        if self.application.endswith((".R", ".r")):
            return f"application {self.application!r}: SparkR is not run. Give a Python application, or a JAR"
        return super().impossible_with(options)


class SparkFunctionTask(SparkWork, CallTask):
    """A function of the DAG file that is called in a driver, which fills in its arguments."""

    def templated(self) -> tuple[Any, ...]:
        return (*super().templated(), *(getattr(self, name) for name in CallTask.template_fields))


class PySparkTask(SparkFunctionTask):
    """A function of the DAG file that is given a SparkSession (Airflow: @task.pyspark)."""

    airflow_name: ClassVar[str] = "@task.pyspark"
    kind: Literal["pyspark"] = "pyspark"


class SparkSqlTask(SparkWork):
    """SQL statements, run in order (Airflow: SparkSqlOperator).

    The rows of the last statement, if it has any, are the result, or go to `output`.
    """

    airflow_name: ClassVar[str] = "SparkSqlOperator"
    kind: Literal["spark_sql"] = "spark_sql"
    sql: Annotated[str, Field(min_length=1)]
    """The statements, separated by semicolons; or the path of a `.sql` file from the DAG file's folder."""
    output_format: str = "parquet"
    """The format of what is written: "parquet" and so on."""
    max_rows: PositiveInt = 1000
    """How many rows the result may have."""

    template_fields: ClassVar[tuple[str, ...]] = (*SparkWork.template_fields, "sql")

    def named_files(self) -> dict[str, tuple[str, ...]]:
        return {"sql": (self.sql,) if self.sql.endswith(SQL_FILES) else (), **super().named_files()}


class SparkPipelinesTask(SparkWork):
    """A declarative pipeline of Spark 4.1 or later, brought up to date (Airflow: SparkPipelinesOperator).

    Its result says how each of its flows has ended. What it writes is Spark's own to publish, each dataset by itself.
    """

    airflow_name: ClassVar[str] = "SparkPipelinesOperator"
    driver_side: ClassVar[str | None] = "driver_pipelines.py"
    kind: Literal["spark_pipelines"] = "spark_pipelines"
    pipeline_spec: Annotated[str, Field(min_length=1)] = "spark-pipeline.yml"
    """The pipeline's specification, looked up from the folder of the DAG file; a template."""
    pipeline_command: Literal["run", "dry-run"] = "run"
    """Whether its datasets are brought up to date, or its graph is looked at alone."""
    refresh: tuple[str, ...] = ()
    """The datasets that are brought up to date; none: all. Templates, which may come to names with commas between."""
    full_refresh: tuple[str, ...] = ()
    """The datasets that are emptied and made anew, written as `refresh` is."""
    full_refresh_all: bool = False
    """Whether all of them are."""
    datasets: tuple[str, ...] = ()
    """The datasets that tasks of the DAG refresh: the task fails where the pipeline has others. None: not compared."""
    template_fields: ClassVar[tuple[str, ...]] = (
        *SparkWork.template_fields,
        "pipeline_spec",
        "refresh",
        "full_refresh",
    )

    def named_files(self) -> dict[str, tuple[str, ...]]:
        return {"pipeline_spec": (self.pipeline_spec,), **super().named_files()}

    def plan(self, filled: Mapping[str, Any], file: Callable[[str], str], /) -> dict[str, Any]:
        return {
            "spec": file(filled["pipeline_spec"]),
            "refresh": parts(filled["refresh"]),
            "full_refresh": parts(filled["full_refresh"]),
            "full_refresh_all": self.full_refresh_all,
            "dry": self.pipeline_command == "dry-run",
            "datasets": self.datasets,
        }

    def impossible_with(self, options: SparkOptions, /) -> str | None:
        if options.mode in (SparkMode.CLIENT, SparkMode.CONNECT):
            return super().impossible_with(options)
        problem = f"task {self.task_id!r}: a pipeline cannot be run in mode {options.mode}"
        return f"{problem}. Use client mode, or a Connect server"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.output is not None or self.table is not None:
            raise ValueError("output and table: a pipeline's datasets are published by Spark. Leave them out")
        if self.keep_session:
            raise ValueError("keep_session: Spark closes a pipeline's session itself. Leave it out")
        chosen = [name for name in ("refresh", "full_refresh") if getattr(self, name)]
        if self.full_refresh_all and chosen:
            raise ValueError(f"{chosen[0]} and full_refresh_all are both given. Leave one out")
        if self.pipeline_command == "dry-run" and (self.full_refresh_all or chosen):
            raise ValueError("a dry-run brings nothing up to date. Leave refresh and full_refresh out")
        return self


class SparkSqlFunctionTask(SparkFunctionTask):
    """A function of the DAG file that returns the SQL to run, as `SparkSqlTask` takes it."""

    airflow_name: ClassVar[str] = "@task.spark_sql"
    kind: Literal["spark_sql_function"] = "spark_sql_function"
    output_format: str = "parquet"
    """The format of what is written: "parquet" and so on."""
    max_rows: PositiveInt = 1000
    """How many rows may come back as the result."""


SparkTask = SparkSubmitTask | PySparkTask | SparkSqlTask | SparkSqlFunctionTask | SparkPipelinesTask
"""Any kind of Spark task."""
