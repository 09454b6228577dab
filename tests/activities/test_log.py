"""Logs of attempts: whole lines, bounded, masked, in text or JSON."""

import json
from pathlib import Path

from support import messages
from tidemill.activities.attempts.log import AttemptLog, LogFormat, last_printed
from tidemill.activities.attempts.log_store import LogStore
from tidemill.activities.masking import Masker
from tidemill.activities.work.logs import RECORD


def test_lines_are_whole_however_they_arrive(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path / "a.log", Masker(["s3cret"]))
    for part in (b"fir", b"st\nthe s3c", b"ret is here\n\nlast"):
        log.feed(part)
    log.close()
    assert messages(log.path).splitlines() == ["first", "the *** is here", "", "last"]
    assert log.last_line == "last"
    assert last_printed(log.path) == "last"


def test_a_secret_of_several_lines_is_masked_line_by_line(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path / "a.log", Masker(["-----BEGIN-----\nMIIEvQIBADAN\n-----END-----"]))
    log.feed(b"key:\nMIIEvQIBADAN\n")
    log.close()
    assert messages(log.path).splitlines() == ["key:", "***"]


def test_a_log_beyond_its_limit_keeps_its_beginning_and_its_end_and_says_so(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path / "a.log", Masker(), limit=4000)
    for number in range(1000):
        log.feed(f"line {number}\n".encode())
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 4400
    log.close()
    lines = messages(log.path).splitlines()
    numbers = [int(line.removeprefix("line ")) for line in lines if line.startswith("line ")]
    assert (numbers[0], numbers[-1]) == (0, 999)
    assert numbers == sorted(numbers)
    gap = next(n for n, line in enumerate(lines) if line.endswith("bytes are left out here"))
    assert 10 < gap < len(lines) - 10
    assert lines[-1].startswith("tidemill: the log had reached its limit: ")
    assert log.path.stat().st_size < 4400
    assert log.last_line == "line 999"
    assert [path.name for path in tmp_path.iterdir()] == ["a.log"]


def test_the_end_of_a_long_log_whose_worker_was_killed_is_kept(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path / "a.log", Masker(), limit=4000)
    for number in range(100):
        log.feed(f"line {number}\n".encode())
    next_worker = AttemptLog(tmp_path / "a.log", Masker(), limit=4000)
    next_worker.feed(b"again\n")
    next_worker.close()
    lines = messages(log.path).splitlines()
    assert "line 99" in lines
    assert lines.index("line 99") < lines.index("again")
    log._end.take()  # closes what a killed worker would have closed
    log.close()


def test_a_line_without_an_end_takes_no_memory(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path / "a.log", Masker())
    for _ in range(100):
        log.feed(b"x" * 10_000)
    assert len(log._rest) <= 2 * 64 * 1024
    log.close()
    assert messages(log.path).count("x") == 1_000_000


def test_json_lines_have_airflows_fields(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path / "a.log", Masker(), form=LogFormat.JSON)
    record = {"timestamp": "2026-01-31T00:00:00+00:00", "level": "warning", "logger": "mine", "event": "careful"}
    log.feed(f"printed\n{RECORD}{json.dumps(record)}\n".encode())
    log.close()
    printed, logged = map(json.loads, log.path.read_text().splitlines())
    assert (printed["level"], printed["event"]) == ("info", "printed")
    assert logged == record
    assert last_printed(log.path) == "printed"


def test_what_is_added_later_is_uploaded_too(tmp_path: Path) -> None:
    store = LogStore((tmp_path / "far").as_uri(), tmp_path / "logs")
    path = tmp_path / "logs" / "dag_id=d" / "attempt=1.log"
    path.parent.mkdir(parents=True)
    for text in ("one", "one two"):
        path.write_text(text)
        assert store.upload(path)
        assert store.read("dag_id=d/attempt=1.log") == text.encode()
    assert store.read("dag_id=d/attempt=1.log", offset=4) == b"two"
    assert store.read("dag_id=d/attempt=2.log") == b""


def test_what_only_looks_like_a_record_is_printed(tmp_path: Path) -> None:
    """Some programs begin their JSON with the same mark."""
    log = AttemptLog(tmp_path / "a.log", Masker())
    log.feed(f'{RECORD}{{"a": 1}}\n{RECORD}5\n{RECORD}cut\n'.encode())
    log.close()
    assert messages(log.path).splitlines() == ['{"a": 1}', "5", "cut"]


def test_a_record_after_a_line_without_an_end_is_one_of_its_own(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path / "a.log", Masker())
    record = {"timestamp": "2026-01-31T00:00:00.000+00:00", "level": "info", "event": "logged"}
    log.feed(f"no end{RECORD}{json.dumps(record)}\n".encode())
    log.close()
    assert messages(log.path).splitlines() == ["no end", "logged"]


def test_a_secret_where_a_long_line_is_cut_is_masked(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path / "a.log", Masker(["a-rather-long-secret"]))
    text = "".join("x" * 997 + "a-rather-long-secret" for _ in range(300))
    for start in range(0, len(text), 5000):
        log.feed(text[start : start + 5000].encode())
    log.close()
    assert "long" not in log.path.read_text()
