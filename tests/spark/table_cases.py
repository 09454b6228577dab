"""Cases of what becomes of branches of tables, on a real Iceberg: prints as JSON what each has come to.

Run by `test_tables.py` on the Spark that Iceberg works with: `table_cases.py <driver_tables.py> <jar> <folder>`.
"""

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

MODULE, JAR, FOLDER = sys.argv[1:]
ICEBERG = {
    "spark.jars": JAR,
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.catalog.lake.warehouse": f"{FOLDER}/warehouse",
    "spark.ui.enabled": "false",
}
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
spec = importlib.util.spec_from_file_location("driver_tables", MODULE)
assert spec is not None
assert spec.loader is not None
tables = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tables)
CASES: dict[str, Callable[[SparkSession, str], Any]] = {}


def case(function: Callable[[SparkSession, str], Any]) -> Callable[[SparkSession, str], Any]:
    CASES[function.__name__] = function
    return function


def staged(table: str, branch: str, day: str | None = None, execution: str | None = "r") -> dict[str, Any]:
    family, where = branch.rpartition("_")[0] + "_", None if day is None else f"day = date'{day}'"
    if branch.count("_") > 1:  # of a task, an execution, a try, and a start
        family = branch.partition("_")[0] + "_"
    signed = {tables.SIGNED: branch, **({} if execution is None else {tables.FIRST_EXECUTION: execution})}
    named = {"table": table, "branch": branch, "family": family, "replace_where": where}
    return {**named, "signed": signed, "since_try": 0, "withdraws": False}


def written(session: SparkSession, attempt: dict[str, Any], *rows: tuple[str, int]) -> dict[str, Any]:
    """The attempt, which has written *rows*."""
    with conf_of(session, attempt):
        tables.begin(session, attempt)
    insert(session, attempt, *rows)
    return attempt


@contextmanager
def conf_of(session: SparkSession, attempt: dict[str, Any]) -> Iterator[None]:
    """What the attempt's application has been started with."""
    signing = f"spark.sql.iceberg.snapshot-property.{tables.FIRST_EXECUTION}"
    conf = {tables.WAP_BRANCH: attempt["branch"], tables.SIGNING: attempt["branch"]}
    if tables.FIRST_EXECUTION in attempt["signed"]:
        conf[signing] = attempt["signed"][tables.FIRST_EXECUTION]
    for name, value in conf.items():
        session.conf.set(name, value)
    yield
    for name in conf:
        session.conf.unset(name)


def insert(session: SparkSession, attempt: dict[str, Any], *rows: tuple[str, int]) -> None:
    with conf_of(session, attempt):
        for day, value in rows:
            session.sql(f"INSERT INTO {attempt['table']} VALUES (date'{day}', {value})")


def rows_of(session: SparkSession, table: str) -> list[list[Any]]:
    return [[str(row.day), row.value] for row in session.table(table).orderBy("day", "value").collect()]


def branches(session: SparkSession, table: str) -> list[str]:
    return sorted(row.name for row in session.sql(f"SELECT name FROM {table}.refs").collect())


def failure_of(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


@case
def published_once(session: SparkSession, table: str) -> Any:
    attempt = written(session, staged(table, "a_1"), ("2026-01-01", 1), ("2026-01-01", 2))
    before = rows_of(session, table)
    for _ in range(3):
        tables.publish(session, attempt)
    return {"before": before, "after": rows_of(session, table), "branches": branches(session, table)}


@case
def a_run_that_is_run_again_replaces_its_rows(session: SparkSession, table: str) -> Any:
    for branch, value in (("a_1", 1), ("b_1", 2)):
        tables.publish(session, written(session, staged(table, branch, "2026-01-01"), ("2026-01-01", value)))
    return rows_of(session, table)


@case
def an_interval_that_has_become_empty_is_published(session: SparkSession, table: str) -> Any:
    tables.publish(session, written(session, staged(table, "a_1", "2026-01-01"), ("2026-01-01", 1)))
    tables.publish(session, written(session, staged(table, "b_1", "2026-01-02"), ("2026-01-02", 2)))
    empty = written(session, staged(table, "c_1", "2026-01-01"))
    for _ in range(2):
        tables.publish(session, empty)
    return rows_of(session, table)


@case
def two_days_side_by_side(session: SparkSession, table: str) -> Any:
    attempts = [
        written(session, staged(table, f"{day}_1", f"2026-01-0{day}"), (f"2026-01-0{day}", day)) for day in (1, 2, 3)
    ]
    for attempt in [*attempts, *attempts]:
        tables.publish(session, attempt)
    return {"rows": rows_of(session, table), "branches": branches(session, table)}


@case
def one_day_twice_at_a_time(session: SparkSession, table: str) -> Any:
    first, second = (written(session, staged(table, f"{name}_1", "2026-01-01"), ("2026-01-01", 1)) for name in "ab")
    tables.publish(session, first)
    return {"failure": failure_of(lambda: tables.publish(session, second)), "rows": rows_of(session, table)}


@case
def without_replace_where_at_a_time(session: SparkSession, table: str) -> Any:
    first, second = (written(session, staged(table, f"{name}_1"), ("2026-01-01", 1)) for name in "ab")
    tables.publish(session, first)
    return {"failure": failure_of(lambda: tables.publish(session, second)), "rows": rows_of(session, table)}


@case
def a_zombie_of_an_earlier_start(session: SparkSession, table: str) -> Any:
    first = written(session, staged(table, "a_1", "2026-01-01"), ("2026-01-01", 1))
    second = written(session, staged(table, "a_2", "2026-01-01"), ("2026-01-01", 2))
    gone = failure_of(lambda: tables.publish(session, first))
    insert(session, first, ("2026-01-01", 11))  # the zombie goes on
    tables.publish(session, second)
    back = failure_of(lambda: tables.publish(session, first))
    return {"gone": gone, "back": back, "rows": rows_of(session, table)}


@case
def a_publication_that_has_got_lost(session: SparkSession, table: str) -> Any:
    """Of a worker that was stopped before its commit, and woken up after the next publication of the same day."""
    old = written(session, staged(table, "a_1", "2026-01-01"), ("2026-01-01", 1))
    tables.publish(session, written(session, staged(table, "b_1", "2026-01-01"), ("2026-01-01", 2)))
    return {"failure": failure_of(lambda: tables.publish(session, old)), "rows": rows_of(session, table)}


@case
def a_publication_that_was_given_up_and_commits(session: SparkSession, table: str) -> Any:
    """Retries of the same rows, one after the run has gone on as new; then after `clear`, of other runs, a task."""
    tables.publish(session, written(session, staged(table, "a_x_1_1"), ("2026-01-01", 1)))
    found = []
    for name, first, since in (
        ("a_x_2_1", "r", 0),
        ("a_y_3_1", "r", 0),
        ("a_y_4_1", "r", 3),
        ("a_z_5_1", "s", 0),
        ("a_z_6_1", None, 0),
    ):
        later = {**written(session, staged(table, name, execution=first), ("2026-01-01", 9)), "since_try": since}
        for _ in range(2):
            tables.publish(session, later)
        found.append(len(rows_of(session, table)))
    tables.publish(session, written(session, staged(table, "b_x_2_1"), ("2026-01-01", 5)))
    return {"rows": [*found, len(rows_of(session, table))], "branches": branches(session, table)}


@case
def a_publication_that_is_withdrawn(session: SparkSession, table: str) -> Any:
    """Before its commit, after it, and where there is nothing to publish."""

    def withdrawal(attempt: dict[str, Any]) -> list[str]:
        return [failure_of(lambda: tables.settle(session, {**attempt, "withdraws": True})) for _ in range(2)]

    first = written(session, staged(table, "a_x_1_1"), ("2026-01-01", 1))
    withdrawn = withdrawal(first)
    late = failure_of(lambda: tables.settle(session, first))
    second = written(session, staged(table, "a_x_2_1"), ("2026-01-01", 2))
    tables.settle(session, second)
    third = written(session, staged(table, "a_x_3_1"), ("2026-01-01", 3))
    tables.settle(session, third)
    done = [*withdrawal(second), *withdrawal(third), *withdrawal(written(session, staged(table, "b_x_1_1")))]
    return {"withdrawn": withdrawn, "late": late, "done": done, "rows": rows_of(session, table)}


@case
def two_publications_at_once(session: SparkSession, table: str) -> Any:
    """The same branch, asked for twice: the second finds out only when it commits."""
    tables.publish(session, written(session, staged(table, "z_1", "2026-01-09"), ("2026-01-09", 9)))
    attempt = written(session, staged(table, "a_1", "2026-01-01"), ("2026-01-01", 1))
    tables.publish(session, written(session, staged(table, "b_1", "2026-01-02"), ("2026-01-02", 2)))
    replace = tables._replace_rows

    def as_late(*given: Any) -> None:
        tables._replace_rows = replace
        replace(*given)
        replace(*given)

    tables._replace_rows = as_late
    tables.publish(session, attempt)
    return rows_of(session, table)


@case
def rows_that_are_not_the_runs(session: SparkSession, table: str) -> Any:
    attempt = written(session, staged(table, "a_1", "2026-01-01"), ("2026-01-01", 1), ("2026-01-02", 2))
    return {"failure": failure_of(lambda: tables.publish(session, attempt)), "rows": rows_of(session, table)}


@case
def rows_without_a_day(session: SparkSession, table: str) -> Any:
    """Of these the condition is neither true nor false."""
    attempt = written(session, staged(table, "a_1", "2026-01-01"), ("2026-01-01", 1))
    with conf_of(session, attempt):
        session.sql(f"INSERT INTO {table} VALUES (null, 7)")
    return {"failure": failure_of(lambda: tables.publish(session, attempt)), "rows": rows_of(session, table)}


@case
def a_row_of_others_is_changed(session: SparkSession, table: str) -> Any:
    """Their number stays; where main has moved, the change would be lost without a word."""
    tables.publish(session, written(session, staged(table, "z_1", "2026-01-02"), ("2026-01-02", 2)))
    attempt = written(session, staged(table, "a_1", "2026-01-01"), ("2026-01-01", 1))
    with conf_of(session, attempt):
        session.sql(f"UPDATE {table} SET value = 20 WHERE day = date'2026-01-02'")
    tables.publish(session, written(session, staged(table, "b_1", "2026-01-03"), ("2026-01-03", 3)))
    return {"failure": failure_of(lambda: tables.publish(session, attempt)), "rows": rows_of(session, table)}


@case
def files_with_rows_of_others(session: SparkSession, table: str) -> Any:
    session.sql(f"CREATE TABLE {table}_flat (day date, value int) USING iceberg")
    session.sql(
        f"INSERT INTO {table}_flat SELECT date'2026-01-01' + CAST(id AS int), CAST(id AS int) FROM range(0, 3, 1, 1)"
    )
    attempt = written(session, staged(f"{table}_flat", "a_1", "2026-01-01"), ("2026-01-01", 1))
    session.sql(f"INSERT INTO {table}_flat VALUES (date'2026-01-09', 9)")
    return {"failure": failure_of(lambda: tables.publish(session, attempt)), "rows": rows_of(session, f"{table}_flat")}


@case
def a_late_begin(session: SparkSession, table: str) -> Any:
    """Of an earlier start of the same try, woken up while the next one writes."""
    second = written(session, staged(table, "a_x_1_2"), ("2026-01-01", 1))
    with conf_of(session, staged(table, "a_x_1_1")):
        late = failure_of(lambda: tables.begin(session, {**staged(table, "a_x_1_1"), "family": "a_"}))
    insert(session, second, ("2026-01-01", 2))
    tables.publish(session, second)
    return {"late": late, "rows": rows_of(session, table)}


@case
def a_publication_that_is_asked_for_again_much_later(session: SparkSession, table: str) -> Any:
    """When the run is cleared, and its next try writes: that keeps its branch."""
    first = written(session, staged(table, "a_x_1_1", "2026-01-01"), ("2026-01-01", 1))
    tables.publish(session, first)
    second = written(session, staged(table, "a_y_2_1", "2026-01-01"), ("2026-01-01", 2))
    tables.publish(session, first)
    tables.publish(session, second)
    return rows_of(session, table)


@case
def a_branch_that_was_made_anew(session: SparkSession, table: str) -> Any:
    """By whoever has gone on to write when it was removed: what it had is lost."""
    tables.publish(session, written(session, staged(table, "z_1"), ("2026-01-01", 100)))
    attempt = written(session, staged(table, "a_1", "2026-01-01"), ("2026-01-01", 1))
    tables.drop_branches(session, table, ["a_1"])
    insert(session, attempt, ("2026-01-01", 2))
    return {"failure": failure_of(lambda: tables.publish(session, attempt)), "rows": rows_of(session, table)}


@case
def main_is_taken_back(session: SparkSession, table: str) -> Any:
    """By an operator, while a try goes on from what was bad."""
    tables.publish(session, written(session, staged(table, "a_1"), ("2026-01-01", 1)))
    good = session.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").collect()[0][0]
    tables.publish(session, written(session, staged(table, "b_1"), ("2026-01-01", -666)))
    attempt = written(session, staged(table, "c_1"), ("2026-01-02", 2))
    session.sql(f"CALL lake.system.rollback_to_snapshot('{table}', {good})")
    return {"failure": failure_of(lambda: tables.publish(session, attempt)), "rows": rows_of(session, table)}


@case
def a_table_that_is_replaced(session: SparkSession, table: str) -> Any:
    tables.publish(session, written(session, staged(table, "z_1"), ("2026-01-01", 100)))
    attempt = staged(table, "a_1")
    with conf_of(session, attempt):
        tables.begin(session, attempt)
        session.sql("SELECT date'2026-01-01' AS day, 1 AS value").write.mode("overwrite").saveAsTable(table)
    published = failure_of(lambda: tables.publish(session, attempt))
    return {"published": published, "next": failure_of(lambda: tables.begin(session, staged(table, "b_1")))}


@case
def a_condition_with_a_comment(session: SparkSession, table: str) -> Any:
    tables.publish(session, written(session, staged(table, "z_1"), ("2026-01-02", 2)))
    attempt = {**staged(table, "a_1", "2026-01-01"), "replace_where": "day = date'2026-01-01' -- the run's"}
    written(session, attempt, ("2026-01-01", 1))
    tables.publish(session, written(session, staged(table, "b_1", "2026-01-03"), ("2026-01-03", 3)))
    tables.publish(session, attempt)
    return rows_of(session, table)


@case
def nothing_written(session: SparkSession, table: str) -> Any:
    attempt = written(session, staged(table, "a_1"))
    for _ in range(2):
        tables.publish(session, attempt)
    return rows_of(session, table)


@case
def a_branch_that_is_gone(session: SparkSession, table: str) -> Any:
    attempt = written(session, staged(table, "a_1"), ("2026-01-01", 1))
    tables.drop_branches(session, table, ["a_1"])
    return failure_of(lambda: tables.publish(session, attempt))


@case
def no_such_table(session: SparkSession, _: str) -> Any:
    return failure_of(lambda: tables.begin(session, staged("lake.db.nowhere", "a_1")))


@case
def names_in_quotes(session: SparkSession, _: str) -> Any:
    session.sql("CREATE TABLE lake.`my db`.`my table` (day date, value int) USING iceberg")
    attempt = written(session, staged("`lake`.`my db`.`my table`", "a_1"), ("2026-01-01", 1))
    tables.publish(session, attempt)
    return rows_of(session, attempt["table"])


def main() -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in {**ICEBERG, "spark.sql.extensions": EXTENSIONS}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    found: dict[str, Any] = {}
    for name, function in CASES.items():
        table = f"lake.db.{name}"
        session.sql(f"CREATE TABLE {table} (day date, value int) USING iceberg PARTITIONED BY (day)")
        try:
            found[name] = function(session, table)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    session.stop()
    found["without_extensions"] = without_extensions()
    Path(FOLDER, "found.json").write_text(json.dumps(found))


def without_extensions() -> Any:
    builder = SparkSession.builder.master("local[2]").config(map=ICEBERG)
    session = builder.config("spark.sql.extensions", "").getOrCreate()
    return failure_of(partial(tables.begin, session, staged("lake.db.nothing_written", "b_1")))


main()
