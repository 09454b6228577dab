"""What a task raises to say how it ends. The names are Airflow's."""


class AirflowException(Exception):  # noqa: N818 - Airflow's name
    """Fails the try; the task is tried again if it has retries left."""


class AirflowSkipException(AirflowException):
    """Ends the task as skipped."""


class AirflowFailException(AirflowException):
    """Fails the task for good: no retry, whatever is left of `retries`."""


class AirflowNotFoundException(AirflowException):
    """Something that was asked for is not there."""


class AirflowSensorTimeout(AirflowException):
    """A wait took too long."""


class AirflowTaskTimeout(AirflowException):
    """A task took too long."""
