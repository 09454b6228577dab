"""The kinds of connections that the web offers to make."""

from typing import Any

TYPES = {
    "aws": "Amazon Web Services",
    "azure": "Azure",
    "databricks": "Databricks",
    "email": "Email",
    "fs": "File (path)",
    "ftp": "FTP",
    "generic": "Generic",
    "google_cloud_platform": "Google Cloud",
    "hdfs": "HDFS",
    "hive_metastore": "Hive Metastore Thrift",
    "http": "HTTP",
    "kafka": "Apache Kafka",
    "kubernetes": "Kubernetes Cluster Connection",
    "mongo": "MongoDB",
    "mssql": "Microsoft SQL Server",
    "mysql": "MySQL",
    "oracle": "Oracle",
    "postgres": "Postgres",
    "redis": "Redis",
    "sftp": "SFTP",
    "slack": "Slack API",
    "smtp": "SMTP",
    "snowflake": "Snowflake",
    "spark": "Spark",
    "spark_connect": "Spark Connect",
    "sqlite": "Sqlite",
    "ssh": "SSH",
    "trino": "Trino",
    "vault": "Hashicorp Vault",
}
"""By conn_type, how Airflow's providers call it. The form has the common fields: others are in the extra."""


def forms() -> list[dict[str, Any]]:
    """Return a form for each kind (Airflow: ConnectionHookMetaData)."""
    empty = dict.fromkeys(("hook_class_name", "default_conn_name", "standard_fields", "extra_fields"))
    return [{"connection_type": kind, "hook_name": name, **empty} for kind, name in TYPES.items()]
