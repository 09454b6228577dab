"""Which errors of Spark Connect mean that the server was lost, by their beginning and not by what anybody writes."""

import pytest
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.connect import SparkConnectException, SparkConnectGrpcException
from tidemill.activities.spark.driver import failure
from tidemill.activities.work.connect import server_lost

RPC = '<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.{}\n\tdetails = "{}"\n>'
CLOSED = "(org.apache.spark.SparkSQLException) [INVALID_HANDLE.SESSION_CLOSED] The handle x is invalid. SQLSTATE: 08003"


@pytest.mark.parametrize(("error", "told"), [
    (SparkConnectGrpcException(RPC.format("UNAVAILABLE", "refused")), "does not answer (refused)"),
    (SparkConnectGrpcException("[INVALID_HANDLE.SESSION_CHANGED] The handle is invalid"), "was started anew"),
    (SparkConnectGrpcException(RPC.format("INTERNAL", "[INVALID_HANDLE.OPERATION_ABANDONED] x")), "gave up"),
    (SparkConnectException("[RETRIES_EXCEEDED] The maximum number of retries has been exceeded"), "does not answer"),
])  # fmt: skip
def test_a_lost_server_is_told(error: Exception, told: str) -> None:
    assert told in (server_lost(error) or "")


@pytest.mark.parametrize("error", [
    AnalysisException("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column named `UNAVAILABLE` cannot be resolved"),
    SparkConnectGrpcException("[CAST_INVALID_INPUT] The value 'SESSION_CHANGED' cannot be cast"),
    SparkConnectGrpcException(RPC.format("RESOURCE_EXHAUSTED", "message larger than max, UNAVAILABLE")),
    SparkConnectGrpcException(CLOSED),
    ValueError("StatusCode.UNAVAILABLE"),
])  # fmt: skip
def test_what_a_task_fails_of_stays_its_failure(error: Exception) -> None:
    assert server_lost(error) is None


def test_what_is_asked_about_a_lost_session_is_told_by_its_cause() -> None:
    asked = SparkConnectException("[NO_ACTIVE_SESSION] No active Spark session found")
    asked.__context__ = SparkConnectGrpcException(RPC.format("INTERNAL", "[INVALID_HANDLE.SESSION_CHANGED] x"))
    assert "was started anew" in (server_lost(asked) or "")
    assert server_lost(SparkConnectException("[NO_ACTIVE_SESSION] after session.stop()")) is None


def test_only_spark_says_that_it_closed_a_session() -> None:
    assert "Raise that" in failure(SparkConnectGrpcException(CLOSED))["message"]
    assert "Raise that" not in failure(ValueError("SESSION_CLOSED by our partner"))["message"]
