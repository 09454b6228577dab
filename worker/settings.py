"""Tidemill's settings: environment variables `TIDEMILL_*`, and Temporal's own for the connection."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from ..model.tasks import SparkOptions


class Settings(BaseSettings):
    """What a worker and the CLI need to know. Each field is `TIDEMILL_<FIELD>` in the environment.

    The connection to Temporal follows Temporal's own configuration instead: `TEMPORAL_ADDRESS`,
    `TEMPORAL_NAMESPACE`, `TEMPORAL_TLS`, `TEMPORAL_API_KEY`, or a profile in its configuration file.
    """

    model_config = SettingsConfigDict(env_prefix="TIDEMILL_", extra="ignore")

    home: Path = Path(".tidemill")
    """Logs, attempts and the embedded server's database."""
    task_queue: str = "tidemill"
    dags_folder: Path | None = None
    spark_master: str | None = None
    """Where Spark tasks run that name no master themselves."""
    spark_conf: dict[str, str] = {}
    spark_connections: dict[str, SparkOptions] = {}
    """JSON: Spark options by conn_id; `default` is for tasks that name neither a conn_id nor a master."""
    spark_memory_mb: int | None = Field(default=None, ge=512)
    """What drivers below this worker may take together; None: 80 % of the host's memory, or the container's."""
    max_concurrent_spark: int | None = Field(default=None, ge=0)
    """How many Spark tasks this worker takes at a time; 0: none; None: as many small drivers as have memory."""
    xcom_url: str | None = None
    """Where results of tasks are kept that are too large for history, such as s3://bucket/prefix; None: in `home`."""
    max_concurrent_activities: int = Field(default=16, ge=1)
    max_cached_workflows: int = Field(default=1000, ge=10)
    """How many workflows stay in memory between their steps. DAGs beyond that are replayed at each wake-up."""
    graceful_shutdown_seconds: float = Field(default=10, ge=0)
    metrics_address: str | None = None
    """Where the worker serves Prometheus metrics, such as 127.0.0.1:9464; None: nowhere."""
