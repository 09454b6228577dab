"""SQL is split where its statements end, and nowhere else."""

from __future__ import annotations

import pytest
from tidemill.activities.spark.sql_statements import statements_of
from tidemill.model.errors import InvalidInputError


@pytest.mark.parametrize(
    ("sql", "statements"),
    [
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT '\\\\'; SELECT 2", ["SELECT '\\\\'", "SELECT 2"]),
        ("SELECT 'it''s;', \"a;b\", `c;d` FROM t; SELECT 2", ["SELECT 'it''s;', \"a;b\", `c;d` FROM t", "SELECT 2"]),
        ("SELECT r'\\'; SELECT 2", ["SELECT r'\\'", "SELECT 2"]),
        ("SELECT begin, end FROM t; SELECT 2", ["SELECT begin, end FROM t", "SELECT 2"]),
        ("SELECT begin FROM t; SELECT end FROM t", ["SELECT begin FROM t", "SELECT end FROM t"]),
        ("SELECT CASE WHEN a THEN 1 END; SELECT 2", ["SELECT CASE WHEN a THEN 1 END", "SELECT 2"]),
        ("-- a; b\nSELECT 1 /* ; /* ; */ ; */;\n-- c;", ["-- a; b\nSELECT 1 /* ; /* ; */ ; */"]),
        (";;SELECT 1;;", ["SELECT 1"]),
        ("SELECT /*+ BROADCAST(a) */ 1", ["SELECT /*+ BROADCAST(a) */ 1"]),
        ("CREATE FUNCTION f() AS $$ a; b $$; SELECT 1", ["CREATE FUNCTION f() AS $$ a; b $$", "SELECT 1"]),
        ("SELECT $x$ a; $$ b $x$; SELECT ${n}", ["SELECT $x$ a; $$ b $x$", "SELECT ${n}"]),
        (
            "BEGIN DECLARE a INT; IF a > 1 THEN SELECT CASE a WHEN 1 THEN 2 END; END IF; END; SELECT 1",
            ["BEGIN DECLARE a INT; IF a > 1 THEN SELECT CASE a WHEN 1 THEN 2 END; END IF; END", "SELECT 1"],
        ),
        ("", []),
        ("-- nothing", []),
    ],
)
def test_statements_end_where_spark_ends_them(sql: str, statements: list[str]) -> None:
    assert statements_of(sql) == statements


def test_what_is_not_closed_is_said() -> None:
    with pytest.raises(InvalidInputError, match="cannot be split into statements"):
        statements_of("SELECT 'a; SELECT 2")
