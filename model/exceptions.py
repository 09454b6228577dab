"""What a task raises to say how it ends. The names are Airflow's."""


class AirflowSkipException(Exception):  # noqa: N818 - Airflow's name
    """Ends the task as skipped."""


class AirflowFailException(Exception):  # noqa: N818 - Airflow's name
    """Fails the task for good: no retry, whatever is left of `retries`."""
