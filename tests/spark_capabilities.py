"""What holds of a Spark task in each mode, and the test that shows it there; or why there is none.

`scripts/write_spark_modes.py` makes the page of it, and `test_capabilities.py` compares it with the tests.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

MODES = {
    "local": "`local`",
    "standalone-client": "standalone, client",
    "standalone-cluster": "standalone, cluster",
    "connect": "Connect",
    "yarn": "YARN, cluster",
    "kubernetes": "Kubernetes, cluster",
    "operator": "Spark operator",
}
"""By the name that tests have for it, what a mode is called."""


@dataclass(frozen=True)
class Capability:
    """Something that users can do."""

    title: str
    test: str = ""
    """The test that is run in each mode; `{mode}` is the mode's name."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """By the mode: another test, or, in words, why there is none."""

    def shown_by(self, mode: str) -> str:
        """Return the test that shows it in *mode*, or the reason why none does."""
        return self.instead.get(mode) or self.test.format(mode=mode)


def is_test(text: str) -> bool:
    return text.startswith("test_") and "::" in text


CLUSTER_MODES = ("standalone-cluster", "yarn", "kubernetes", "operator")
AS_LOCAL = "untried: its driver is that of `local`, its executors are elsewhere"
KILLS = "test_spark_kills.py::test_one_application_does_the_work"
CAPABILITIES = (
    Capability(
        "scripts, SQL and functions, with arguments, environment, conf, templates, results and logs",
        "test_every_mode.py::test_a_script_sql_and_a_function_are_given_the_same[{mode}]",
    ),
    Capability(
        "`output=` is published once; what the application came to is kept",
        "test_spark_modes.py::test_what_an_application_writes_is_published_once[{mode}]",
    ),
    Capability(
        "a failure says what was raised, and leaves no output",
        "test_spark_modes.py::test_a_failure_is_told_in_the_users_terms_and_leaves_no_output[{mode}]",
    ),
    Capability(
        "cancelling ends it before the run says so",
        "test_spark_modes.py::test_cancelling_ends_the_application_before_the_run_says_so[{mode}]",
        {"local": "test_spark.py::test_progress_is_seen_while_it_runs_and_cancelling_ends_the_driver"},
    ),
    Capability("its worker is killed while it runs: it is written once", KILLS + "[{mode}-while it runs]"),
    Capability("its worker is killed when it has begun with it", KILLS + "[{mode}-before the work]"),
    Capability("its worker is killed when it is done, and not yet reported", KILLS + "[{mode}-after the work]"),
    Capability(
        "its worker is killed when the cluster has taken it",
        KILLS + "[{mode}-after the request]",
        dict.fromkeys(("local", "standalone-client", "connect"), "nothing is asked for: the worker runs the driver"),
    ),
    Capability(
        "`table=` is published once",
        "test_tables.py::test_runs_publish_their_day_and_replace_it_when_they_are_cleared[{mode}]",
    ),
    Capability(
        "Java applications",
        "test_every_mode.py::test_a_java_application_runs[{mode}]",
        {
            "standalone-cluster": "refused: the master counts a killed driver as finished",
            "connect": "refused: a server runs no main class of its clients",
        },
    ),
    Capability(
        "declarative pipelines",
        "test_pipelines.py::test_a_pipeline_is_brought_up_to_date[{mode}]",
        {
            "standalone-client": AS_LOCAL,
            **dict.fromkeys(CLUSTER_MODES, "refused: Spark has no cluster mode for them"),
        },
    ),
    Capability(
        "a session that tasks share",
        "",
        {
            **dict.fromkeys(MODES, "refused: only a Connect server has sessions"),
            "connect": "test_sessions.py::test_a_task_begins_with_what_another_has_left_and_changes_nothing_of_it",
        },
    ),
    Capability(
        "what it waits for is said: executors, a node, the operator",
        "",
        {
            "local": "there is nothing to wait for: its executor is itself",
            "standalone-client": "test_spark_modes.py::test_who_waits_for_an_executor_is_told_what_the_workers_have",
            "standalone-cluster": "executors as in client mode; for a driver that waits the master gives no reason",
            "connect": "a server has its executors, or none of its clients hears of it",
            "yarn": "the ResourceManager's own words are shown; untried with a full cluster",
            "kubernetes": "test_on_kubernetes.py::test_a_driver_that_waits_says_why_and_its_end_leaves_nothing",
            "operator": "test_spark_operator.py::test_an_operator_that_is_away_and_one_that_is_killed_make_one_driver",
        },
    ),
)
