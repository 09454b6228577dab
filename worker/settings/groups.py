"""The groups of settings; all together are `Settings`."""

from importlib.metadata import version
from pathlib import Path
from typing import ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from ...activities.attempts.log import LogFormat
from ...model.spec.tasks import SparkOptions

LOOPBACK = ("127.0.0.1", "localhost", "::1")
RoleName = Literal["viewer", "operator", "admin"]
DEFAULT_BUNDLE = "dags-folder"
"""The bundle of the worker's own folder (Airflow's name)."""


class Group(BaseModel):
    """Settings that belong together. Each field is `TIDEMILL_<FIELD>` in the environment."""

    title: ClassVar[str]
    """The heading of the group in the documentation."""


class OidcSettings(BaseModel):
    """An OpenID provider, and who may do what of those it knows."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    issuer: str
    """Its URL, as it calls itself."""
    client_id: str
    client_secret: SecretStr | None = None
    scope: str = "openid profile email"
    name_claim: str = "email"
    roles_claim: str = "groups"
    roles: dict[str, RoleName] = {}
    """By the name of a group: viewer, operator or admin."""
    default_role: RoleName | None = None
    """What somebody may do who is in none of these groups; None: nothing."""

    @model_validator(mode="after")
    def _lets_somebody_in(self) -> Self:
        parts = urlsplit(self.issuer)
        if parts.scheme != "https" and parts.hostname not in LOOPBACK:
            raise ValueError(f"issuer = {self.issuer!r}: who listens on the way could log in. Give an https URL")
        if not self.roles and self.default_role is None:
            raise ValueError("nobody could do anything. Give roles, or a default_role")
        return self


class FolderSettings(Group):
    """Where a worker keeps what, and for how long."""

    title: ClassVar[str] = "Folders and stores"

    home: Path = Path(".tidemill")
    """Logs, attempts and the embedded server's database."""
    xcom_url: str | None = None
    """Where results of tasks are kept that are too large for history, such as s3://bucket/prefix; None: in `home`."""
    log_url: str | None = None
    """Where logs of tasks go beside `home`, while they run and when they end, such as s3://bucket/logs."""
    log_format: LogFormat = LogFormat.TEXT
    """`text`, or `json`: an object a line, with Airflow's names of fields; of tasks, and of workers and the web."""
    log_limit_mb: int = Field(default=100, ge=1)
    """The most that the log of one try may have; it says so when there was more."""
    cleanup_older_than_days: float | None = Field(default=None, gt=0)
    """Once an hour the worker removes logs, attempts and kept code that nobody has needed for so long; None: never."""


class DagSettings(Group):
    """Which DAG files are read, and what their DAGs begin with."""

    title: ClassVar[str] = "DAG files"

    dags_folder: Path | None = None
    bundle: str = DEFAULT_BUNDLE
    """What the bundle of `dags_folder` is called: each folder needs a name of its own in its namespace."""
    dags_are_paused_at_creation: bool = False
    """Whether new DAGs are paused that do not say by is_paused_upon_creation."""
    run_ids_from: Literal["data_interval_start", "run_after"] = "data_interval_start"
    """What scheduled runs of interval timetables are named by: see decision 42."""
    airflow_python: str | None = None
    """The Python of an environment with `tidemill[airflow]`, for DAG files that import Airflow; None: the worker's."""
    airflow_pythons: dict[str, str] = {}
    """JSON: the same for single bundles, by their names, such as {"team_a": "/opt/team_a/bin/python"}."""


class TaskSettings(Group):
    """What processes of tasks may see and take."""

    title: ClassVar[str] = "Tasks"

    task_environment: tuple[str, ...] = ()
    """JSON: patterns of environment variables that tasks get beside the usual ones, such as ["AWS_*"]."""
    preload: tuple[str, ...] = ()
    """JSON: modules that are imported once for all tasks, such as ["pandas"]."""
    fork_memory_mb: int = Field(default=256, ge=16)
    """What processes may hold that have imported a DAG file and wait for its next task."""
    run_as: str | None = None
    """The operating system's user that tasks run as; the worker has to be root. None: the worker's own user."""
    run_as_users: dict[str, str] = {}
    """JSON: the same for the DAGs of single bundles, by their names, such as {"team_a": "alice"}."""
    task_network: Path | None = None
    """A network namespace for tasks, such as /run/netns/tasks; the worker has to be root. None: the worker's own."""
    masked_names: tuple[str, ...] = ()
    """JSON: what has one of these in its name is masked as a secret, beside `password`, `token` and the like."""
    grace_seconds: float = Field(default=5, ge=0)
    """How long a task has between its SIGTERM and its SIGKILL."""


class SparkSettings(Group):
    """Where Spark tasks run, and how many."""

    title: ClassVar[str] = "Spark"

    spark_master: str | None = None
    """Where Spark tasks run that name no master themselves."""
    spark_conf: dict[str, str] = {}
    spark_connections: dict[str, SparkOptions] = {}
    """JSON: Spark options by conn_id; `default` is for tasks that name neither a conn_id nor a master."""
    spark_memory_mb: int | None = Field(default=None, ge=512)
    """What drivers below this worker may take together; None: 80 % of the host's memory, or the container's."""
    max_spark_drivers: int | None = Field(default=None, ge=1)
    """How many drivers run below this worker at a time, also those of Airflow's provider; None: two for each core."""
    max_concurrent_spark: int | None = Field(default=None, ge=0)
    """How many Spark tasks this worker takes at a time, of those with a driver below it and of the others; 0: none;
    None: as many as there is room for."""
    keep_failed_output: bool = False
    """Whether what failed tries have written for `output=` stays, until `tidemill cleanup --lake` removes it."""


class WorkerSettings(Group):
    """What a worker takes from Temporal, and how it answers."""

    title: ClassVar[str] = "Workers"

    task_queue: str = "tidemill"
    max_concurrent_activities: int = Field(default=16, ge=1)
    """How many tasks this worker runs at a time, beside Spark tasks."""
    parallelism: int | None = Field(default=None, ge=1)
    """How many tasks run at a time over all DAGs and workers. Runs take it from the worker that starts them."""
    max_cached_workflows: int = Field(default=1000, ge=10)
    """How many workflows stay in memory between their steps. DAGs beyond that are replayed at each wake-up."""
    heartbeat_seconds: float = Field(default=0.5, ge=0.1, le=60)
    """How often at most a heartbeat is sent to Temporal, where each is an action. It also tells of a cancellation."""
    lost_after_seconds: float | None = Field(default=None, ge=0)
    """How long a worker of any host may be silent, while Temporal answers others, before it is taken for lost. With
    `xcom_url` one that is only cut off is told through the store, ends its tasks, and they begin elsewhere; without, it
    goes on beside them. None: 5 with `xcom_url`, else, as with 0, `heartbeat_timeout` decides."""
    drain_seconds: float = Field(default=600, ge=0)
    """How long tasks may go on after SIGTERM, before they are handed to another worker. 0 for `tidemill dev`."""
    deployment_name: str | None = Field(default=None, min_length=1)
    """Takes part in Temporal's Worker Versioning as this deployment; None: any worker takes up any run."""
    build_id: str = Field(default_factory=lambda: version("tidemill"), min_length=1)
    """The version within the deployment, such as an image's tag."""
    health_address: str | None = None
    """Where the worker answers /healthz and /readyz, such as 127.0.0.1:8088; None: nowhere."""
    metrics_address: str | None = None
    """Where the worker serves Prometheus metrics, such as 127.0.0.1:9464; None: nowhere."""

    @field_validator("lost_after_seconds")
    @classmethod
    def _check_lost_after(cls, value: float | None) -> float | None:
        if value is not None and 0 < value < 5:
            raise ValueError("at least 5, since a busy worker may be silent for a moment; or 0 for never")
        return value


class WebSettings(Group):
    """What the web shows, and to whom."""

    title: ClassVar[str] = "The web"

    base_url: str | None = Field(default=None, pattern=r"^https?://\S+$")
    """Where people reach `tidemill api-server`, such as https://tidemill.example: links in alerts lead there."""
    api_tokens: Path | None = None
    """The file of tokens that `tidemill api-tokens create` writes; None: the web is for this host, and asks nobody."""
    api_home: Path | None = None
    """Where the web keeps its own: the key of its sessions, tokens, runs that have ended, the files of its pages. None:
    in `home`, where tasks of a worker with the same home can read and write it."""
    oidc: OidcSettings | None = None
    """JSON: an OpenID provider by which people log in to the web, such as {"issuer": ..., "client_id": ...}."""
    archive: SecretStr | None = None
    """The database that keeps runs after Temporal has forgotten them: sqlite:////folder/runs.db, or postgresql://..."""
    instance_name: str = "tidemill"
    """What the installation is called on the home page (Airflow: `[api] instance_name`); empty: "Welcome"."""
    temporal_ui: str | None = Field(default=None, pattern=r"^https?://")
    """Where Temporal's own user interface is, for links to it, such as https://temporal.example.com."""
    spark_history_url: str | None = Field(default=None, pattern=r"^https?://")
    """Where Spark's History Server is, for links to what applications were, such as https://history.example.com."""


GROUPS: tuple[type[Group], ...] = (
    FolderSettings,
    DagSettings,
    TaskSettings,
    SparkSettings,
    WorkerSettings,
    WebSettings,
)
