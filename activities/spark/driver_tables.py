"""The driver's side of a task with a table: its rows go to a branch, which becomes the main one in one commit.

Beside `driver.py` in every driver; only the standard library and pyspark. A table is one of Iceberg's, *staged* a
`StagedTable`; what is published has its `signature` with it. Iceberg's commits compare and swap: what was made from an
older state than the table's is refused.
"""

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

WAP_BRANCH = "spark.wap.branch"
MAIN = "main"
KEPT_FOR = "7 DAYS"
"""How long Iceberg's `expire_snapshots` keeps a branch that nobody has published or removed."""
SIGNED = "tidemill.branch"
"""What says in a snapshot's summary which branch it was published from."""
FIRST_EXECUTION = "tidemill.first_execution"
"""What says there which run that was, however often it has continued as new since."""
BEGUN = "tidemill.begun"
"""What says in the first snapshot of a branch that it is that."""
SIGNING, BEGINNING = (f"spark.sql.iceberg.snapshot-property.{name}" for name in (SIGNED, BEGUN))
WITHOUT_MAIN = (
    "has lost its main branch, as by CREATE OR REPLACE TABLE or saveAsTable(mode='overwrite'), which replace it at "
    "once. Write with INSERT, MERGE or writeTo(...).overwritePartitions(). "
    "CALL system.set_current_snapshot brings it back"
)
COMMITS = 8
"""How often a change of the table's refs or properties is tried, where others commit meanwhile."""
RIVALS = ("CommitFailedException", "CommitStateUnknownException")
CHANGED, UNALIGNED, BEHIND = "Found conflicting", "where some, but not all, rows match", "not an ancestor"
"""How Iceberg says that rows were changed meanwhile, that a file has other rows, too, and that main has moved."""
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


class TableMissingError(Exception):
    """There is no such table, or it has no branches."""


class TableChangedError(Exception):
    """Somebody else has written what the task would replace."""


class RowsOutsideError(Exception):
    """The task has changed rows that are not its run's."""


def begin(session: Any, staged: dict[str, Any]) -> None:
    """Makes the attempt's branch of the table, without the rows that it replaces; the session writes there.

    Branches of earlier starts are removed. Raises TableMissingError, and TableChangedError where a later start has one.
    """
    table, branch = staged["table"], staged["branch"]
    for name in (WAP_BRANCH, SIGNING):  # what follows is about the table itself
        session.conf.unset(name)
    heads = _heads(session, table)
    others = [name for name in heads if name.startswith(staged["family"])]
    if any(_is_not_after(branch, name) and name != branch for name in others):
        raise TableChangedError(f"a later start of the task writes to {table}: this one is too late")
    drop_branches(session, table, others)
    if MAIN not in heads:
        if History(session, table).signed:
            raise TableMissingError(f"{table} {WITHOUT_MAIN}")
        # A table without a snapshot has nothing that a branch could begin from.
        session.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE false")
    try:
        _commit(session, f"ALTER TABLE {table} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
        _commit(session, f"ALTER TABLE {table} CREATE BRANCH `{branch}` RETAIN {KEPT_FOR}")
    except Exception as error:
        if "PARSE_SYNTAX_ERROR" in str(error):
            message = f"Spark cannot make branches of {table}. Set conf spark.sql.extensions to {EXTENSIONS}"
            raise TableMissingError(message) from None
        raise
    for name in (WAP_BRANCH, SIGNING, BEGINNING):
        session.conf.set(name, branch)
    # A commit by which this branch is known: one that was removed is made anew by whoever writes to it.
    session.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE false")
    session.conf.unset(BEGINNING)
    print(f"[tidemill] what is written to {table} goes to its branch {branch}", flush=True)
    if staged["replace_where"] is not None:
        session.sql(f"DELETE FROM {table} WHERE {condition(staged)}")


def condition(staged: dict[str, Any]) -> str:
    """The rows of replace_where, as SQL: on a line of its own, since it may end with a comment."""
    return f"(\n{staged['replace_where']}\n)"


def _is_not_after(branch: str, other: str) -> bool:
    """Whether *branch* is *other*, or that of an earlier start of the same task in the same execution of its run."""
    return branch.rsplit("_", 2)[0] == other.rsplit("_", 2)[0] and branch <= other


def settle(session: Any, staged: dict[str, Any]) -> None:
    """Publishes the branch, or withdraws it."""
    (withdraw if staged["withdraws"] else publish)(session, staged)


def withdraw(session: Any, staged: dict[str, Any]) -> None:
    """Keeps the branch from being published by whoever is still at it. Raises TableMissingError where it is not yet.

    One that is about to commit may do so all the same, where the catalog looks at no more than main, or with
    replace_where: the next try replaces its rows, or finds them.
    """
    table, branch = staged["table"], staged["branch"]
    for drops in (True, False):
        heads, history = _heads(session, table), History(session, table)
        settled = _settled(staged, heads, history)
        if settled is not None:
            _drop_until(session, staged, heads)
        if (done := settled or _without_rows(staged, heads, history)) is not None:
            print(f"[tidemill] {table}: {done}", flush=True)
            return
        if drops:
            drop_branches(session, table, [branch])
    raise TableMissingError(f"the publication of {branch} to {table} got lost, and was withdrawn before it was made")


def publish(session: Any, staged: dict[str, Any]) -> None:
    """Makes the branch the table's main one, or has its rows take the place of main's; asked again, changes nothing.

    Where an earlier try was published after it was given up, and nobody replaces its rows, those stay; the branch goes.
    Raises TableChangedError where others have written meanwhile, RowsOutsideError, and TableMissingError where the
    branch is gone.
    """
    table, branch = staged["table"], staged["branch"]
    for _ in range(COMMITS):
        heads, history = _heads(session, table), History(session, table)
        if MAIN not in heads:
            raise TableMissingError(f"{table} {WITHOUT_MAIN}")
        main = set(history.ancestors(heads[MAIN]))
        if (done := _settled(staged, heads, history)) is not None:
            _drop_until(session, staged, heads)
            print(f"[tidemill] {table}: {done}", flush=True)
            return
        beginning = _beginning(staged, heads, history)
        if beginning is None:
            raise TableMissingError(
                f"{table} has no branch {branch} that the task has begun: the application has opened no session, "
                "or somebody has removed it"
            )
        # The branch stays: nothing else would say so to one who asks again.
        if (done := _without_rows(staged, heads, history)) is not None:
            print(f"[tidemill] {table}: {done}", flush=True)
            return
        base = history.parent_of(beginning)
        if base not in main:
            raise TableChangedError(f"main of {table} was taken back behind what the try began from: it is too old")
        if staged["replace_where"] is not None:
            _check_rows_outside(session, staged, base, with_files=base != heads[MAIN])
        try:
            if base == heads[MAIN]:
                _fast_forward(session, table, branch)
            else:
                _replace_rows(session, staged, base)
        except Exception as error:
            if not any(phrase in str(error) for phrase in (*RIVALS, BEHIND)):
                raise
    if not _is_published(session, table, branch):
        raise TableChangedError(f"others write to {table} so often that {COMMITS} commits of {branch} were refused")


def _settled(staged: dict[str, Any], heads: dict[str, int], history: "History") -> str | None:
    """Say that main has the rows of the branch, or those of an earlier try of the same work; None if it has neither."""
    branch, main = staged["branch"], [*history.ancestors(heads.get(MAIN))]
    if any(history.signed.get(snapshot) == branch for snapshot in main):
        return f"{branch} is published"
    first, mine = staged["signed"].get(FIRST_EXECUTION), _try_of(branch, staged["family"])
    # Who replaces what is there need not know whose it is; a run without a server has no execution.
    if staged["replace_where"] is not None or first is None:
        return None
    for snapshot in main:
        other = _try_of(history.signed.get(snapshot) or "", staged["family"])
        if history.first_executions.get(snapshot) == first and staged["since_try"] < other < mine:
            reason = f"{history.signed[snapshot]} was published after its try had been given up"
            return f"{reason}. Its rows stay, those of {branch} do not"
    return None


def _try_of(branch: str, family: str) -> int:
    """The number of the try that the branch is of; 0 for one that is none of the task's."""
    number = branch.rsplit("_", 2)[1:2]
    return int(number[0]) if branch.startswith(family) and number[0].isdecimal() else 0


def _beginning(staged: dict[str, Any], heads: dict[str, int], history: "History") -> int | None:
    """The snapshot that the task has begun the branch with; None where it has begun none."""
    branch = staged["branch"]
    return next((one for one in history.ancestors(heads.get(branch)) if history.begun.get(one) == branch), None)


def _without_rows(staged: dict[str, Any], heads: dict[str, int], history: "History") -> str | None:
    """Say that nothing was written to the branch; None if there was, or there is none."""
    beginning = _beginning(staged, heads, history)
    none = beginning is not None and heads[staged["branch"]] == beginning
    return f"{staged['branch']} has no rows of its own" if none else None


def _fast_forward(session: Any, table: str, branch: str) -> None:
    session.sql(f"CALL {_catalog_of(table)}.system.fast_forward('{table}', '{MAIN}', '{branch}')").collect()


def _replace_rows(session: Any, staged: dict[str, Any], base: int) -> None:
    """Writes the branch's rows over main's. Raises TableChangedError where these have changed since *base*."""
    from pyspark.sql.functions import expr

    table, branch, where = staged["table"], staged["branch"], staged["replace_where"]
    if where is None:
        raise TableChangedError(
            f"others have written to {table} since the try began. Say which rows are the run's, as replace_where, "
            "or have one run at a time write (max_active_tis_per_dag=1)"
        )
    rows = session.read.option("branch", branch).table(table).where(condition(staged)).writeTo(table)
    unchanged_since = {"isolation-level": "serializable", "validate-from-snapshot-id": str(base)}
    signed = {f"snapshot-property.{name}": value for name, value in staged["signed"].items()}
    for name, value in {**signed, **unchanged_since}.items():
        rows = rows.option(name, value)
    try:
        rows.overwrite(expr(condition(staged)))
    except Exception as error:
        if UNALIGNED in str(error):
            message = f"files of {table} have rows where {where}, and others. Partition the table by what that compares"
            raise TableChangedError(message) from error
        if CHANGED not in str(error):
            raise
        if not _is_published(session, table, branch):
            message = f"others have written rows of {table} where {where} since the try began: it is too old"
            raise TableChangedError(message) from error


def _check_rows_outside(session: Any, staged: dict[str, Any], base: int, *, with_files: bool) -> None:
    """Raises RowsOutsideError where the branch has other rows outside of replace_where than it began with.

    Their number is known to the table's metadata. *with_files*: that they are in the same files, too, which has to be
    looked up in these; else a row that was changed would be lost where only those of replace_where are written.
    """
    table, where = staged["table"], staged["replace_where"]

    def count(version: str) -> int:
        query = f"SELECT count(*) FROM {table} VERSION AS OF {version}"
        all_of_it, inside = (
            session.sql(text).collect()[0][0] for text in (query, f"{query} WHERE {condition(staged)}")
        )
        return int(all_of_it) - int(inside)

    def files(version: str) -> set[str]:
        query = f"SELECT DISTINCT _file FROM {table} VERSION AS OF {version} WHERE {condition(staged)} IS NOT TRUE"
        return {row[0] for row in session.sql(query).collect()}

    versions = (str(base), f"'{staged['branch']}'")
    before, after = (count(version) for version in versions)
    if before != after:
        problem = f"{table} had {before:,} rows outside of replace_where={where!r}, and would have {after:,}"
        raise RowsOutsideError(f"{problem}. Write the run's own rows only, or widen replace_where")
    if with_files and len({frozenset(files(version)) for version in versions}) > 1:
        problem = f"others have written to {table}, and the try has rewritten files with rows outside of {where!r}"
        remedy = "Write the run's own rows only, and partition the table by what replace_where compares"
        raise RowsOutsideError(f"{problem}. {remedy}")


def _drop_until(session: Any, staged: dict[str, Any], heads: dict[str, int]) -> None:
    """Drops the branch, and those of earlier starts of the task in this execution of its run."""
    drop_branches(session, staged["table"], [name for name in heads if _is_not_after(name, staged["branch"])])


def drop_branches(session: Any, table: str, branches: list[str]) -> None:
    for branch in branches:
        _commit(session, f"ALTER TABLE {table} DROP BRANCH IF EXISTS `{branch}`")


def _is_published(session: Any, table: str, branch: str) -> bool:
    heads, history = _heads(session, table), History(session, table)
    return any(history.signed.get(one) == branch for one in history.ancestors(heads.get(MAIN)))


class History:
    """The snapshots that a table still has; asked after its heads, it knows all of these."""

    def __init__(self, session: Any, table: str) -> None:
        named = {"signed": SIGNED, "begun": BEGUN, "first_execution": FIRST_EXECUTION}
        facts = ", ".join(f"summary['{name}'] AS {column}" for column, name in named.items())
        rows = session.sql(f"SELECT snapshot_id, parent_id, {facts} FROM {table}.snapshots").collect()
        self._parents = {row["snapshot_id"]: row["parent_id"] for row in rows}
        self.signed = {row["snapshot_id"]: row["signed"] for row in rows}
        """By the snapshot, the branch that it was made on."""
        self.begun = {row["snapshot_id"]: row["begun"] for row in rows}
        """By the snapshot, the branch that begins with it."""
        self.first_executions = {row["snapshot_id"]: row["first_execution"] for row in rows}

    def parent_of(self, snapshot: int) -> int | None:
        """The snapshot that it was made from; None where there is none."""
        return self._parents.get(snapshot)

    def ancestors(self, snapshot: int | None) -> Iterator[int]:
        """The snapshot itself, and those that it was made from, newest first."""
        while snapshot is not None and snapshot in self._parents:
            yield snapshot
            snapshot = self._parents[snapshot]


def _heads(session: Any, table: str) -> dict[str, int]:
    """The newest snapshot of each branch, as the table is now. Raises TableMissingError."""
    try:
        session.sql(f"REFRESH TABLE {table}")
        rows = session.sql(f"SELECT name, snapshot_id FROM {table}.refs WHERE type = 'BRANCH'").collect()
    except Exception as error:
        if type(error).__name__ != "AnalysisException":
            raise
        problem = f"there is no Iceberg table {table}. Make it in a task before, and name its catalog in conf"
        why = str(error).partition("\n")[0]
        raise TableMissingError(f"{problem} (spark.sql.catalog.*): {why}") from None
    return {row["name"]: row["snapshot_id"] for row in rows}


def _catalog_of(table: str) -> str:
    return table[: table.index("`", 1) + 1] if table.startswith("`") else table[: table.index(".")]


def _commit(session: Any, statement: str) -> None:
    """Has a change of the table's own record made; again where somebody else's commit was first."""
    _again(lambda: session.sql(statement).collect())


def _again(change: Callable[[], object]) -> None:
    for number in range(1, COMMITS + 1):
        try:
            change()
            return
        except Exception as error:
            if number == COMMITS or not any(name in str(error) for name in RIVALS):
                raise
            time.sleep(random.uniform(0, 0.1 * 2**number))  # only apart from each other
