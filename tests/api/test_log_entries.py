"""A record of a log is one entry, whatever is in its text."""

from __future__ import annotations

from pathlib import Path

from tidemill.activities.attempts.log import RECORD, AttemptLog
from tidemill.activities.masking import Masker
from tidemill.api.routes.logs import end_of_entries, entries_of

LINES = "first\nsecond\u2028still\n\n    third"


def written(tmp_path: Path, *parts: bytes) -> bytes:
    log = AttemptLog(tmp_path / "a.log", Masker())
    for part in parts:
        log.feed(part)
    log.close()
    return log.path.read_bytes()


def record(level: str, event: str) -> bytes:
    import json

    fields = {"timestamp": "2026-01-01T00:00:00.000+00:00", "level": level, "logger": "root", "event": event}
    return f"{RECORD}{json.dumps(fields)}\n".encode()


def test_a_text_of_several_lines_is_one_entry(tmp_path: Path) -> None:
    data = written(tmp_path, record("error", LINES), "a\u2028b\x85c\rd\n".encode(), record("info", "over"))
    found = entries_of(data)
    assert [(one["level"], one["event"]) for one in found] == [
        ("error", LINES), ("info", "a\u2028b\x85c\rd"), ("info", "over"),
    ]  # fmt: skip


def test_an_entry_is_not_cut_where_an_answer_ends(tmp_path: Path) -> None:
    data = written(tmp_path, b"begun\n", record("error", LINES), record("info", "over"))
    whole = entries_of(data)
    for end in range(1, len(data)):
        part = data[:end]
        part = part[: end_of_entries(part, to_come=True)] or part
        if part.endswith(b"\n"):
            assert entries_of(part) == whole[: len(entries_of(part))]


def test_whose_a_record_is_is_told_apart_from_what_is_printed(tmp_path: Path) -> None:
    import json

    printed = ["airflow.task: x", "  airflow.task: x", " tidemill: y", "result: 5", "   indented", ""]
    fields = {"timestamp": "2026-01-01T00:00:00.000+00:00", "level": "critical", "event": "said"}
    records = [
        f"{RECORD}{json.dumps({**fields, 'logger': name})}\n".encode()
        for name in ("airflow.task.hooks.pkg.Hook", "task", "root")
    ]
    found = entries_of(written(tmp_path, *(f"{line}\n".encode() for line in printed), *records))
    assert [(one["event"], one.get("logger")) for one in found] == [
        *((line, None) for line in printed),
        ("said", "airflow.task.hooks.pkg.Hook"),
        ("said", "task"),
        ("said", None),
    ]
