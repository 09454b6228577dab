"""The file of an audit log: turned over, its owner's alone, and no harm to anybody where it cannot be written."""

import json
import stat
from pathlib import Path

import pytest
from tidemill.activities import audit
from tidemill.activities.audit import AuditLog, Refusals


def test_the_log_turns_over_and_is_its_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "LARGEST", 200)
    log = AuditLog(tmp_path / audit.AUDIT_FILE)
    for number in range(100):
        log.add({"at": number, "text": "x" * 40})
    files = sorted(path.name for path in tmp_path.iterdir())
    assert len(files) == audit.FILES
    assert all(path.stat().st_size < 300 for path in tmp_path.iterdir())
    assert stat.S_IMODE((tmp_path / audit.AUDIT_FILE).stat().st_mode) == 0o600
    assert [line["at"] for line in log.newest(10)] == [*range(99, 89, -1)]
    assert [line["at"] for line in AuditLog(tmp_path / audit.AUDIT_FILE).newest(2)] == [99, 98]


def test_a_log_that_cannot_be_written_hurts_no_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    AuditLog(tmp_path / "gone" / audit.AUDIT_FILE).add({"at": 1})
    assert "cannot be written" in caplog.text


def test_a_task_that_asks_for_ever_does_not_fill_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_REFUSALS", 3)
    monkeypatch.setattr(audit.time, "monotonic", lambda: 61.0)
    refusals = Refusals(AuditLog(tmp_path / audit.AUDIT_FILE))
    for number in range(20):
        refusals.add("task.look_up", "x" * 5000, "team_c", {"task_id": number // 2, "dag_id": "c" * 5000})
    lines = [json.loads(line) for line in (tmp_path / audit.AUDIT_FILE).read_text().splitlines()]
    assert [(line["who"], line["status"]) for line in lines] == [("bundle team_c", 403)] * 3
    assert len(json.dumps(lines[0])) < 2000
