"""The driver's own side of a Spark task: runs the application, and tells how it goes and how it went.

Started by spark-submit in place of the user's script, with the attempt's folder as its first
argument. Only the standard library and pyspark, apart from functions of a DAG file. It writes

- `progress.json`: application id, UI address, and the current stage with its counts;
- `result.json`: the outcome, or the innermost cause of the failure in the user's terms.
"""

import json
import os
import runpy
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

# Imported before the watching thread starts: two threads in this import at once would break it.
from pyspark import SparkContext
from pyspark.sql import SparkSession

PROGRESS_EVERY = 0.5
RESULT_LIMIT = 256 * 1024


def write_json(path: Path, content: dict[str, Any]) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)


def watch(folder: Path, parent: int) -> None:
    """Writes progress; ends the driver when the JVM that started it is gone, whatever the script catches."""
    while True:
        if os.getppid() != parent:
            os._exit(1)
        try:
            progress = current_progress()
            if progress is not None:
                write_json(folder / "progress.json", progress)
        except Exception:  # noqa: S110 - progress is a courtesy; the application goes on without
            pass
        time.sleep(PROGRESS_EVERY)


def current_progress() -> dict[str, Any] | None:
    sc = SparkContext._active_spark_context
    if sc is None:
        return None
    tracker = sc.statusTracker()
    progress: dict[str, Any] = {"application_id": sc.applicationId, "ui": sc.uiWebUrl}
    stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
    if stages:
        stage = min(stages, key=lambda info: info.stageId)
        progress |= {
            "stage": stage.stageId,
            "stage_name": stage.name,
            "tasks": stage.numTasks,
            "tasks_done": stage.numCompletedTasks,
            "tasks_active": stage.numActiveTasks,
        }
    return progress


def failure(error: BaseException) -> dict[str, Any]:
    """*error* as the model `Failure`: the user's own line, Spark's error condition, the Java exception."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = [
        f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "/pyspark/" not in frame.filename and "/py4j/" not in frame.filename and frame.filename not in _OURS
    ]
    message = str(error)
    if isinstance(error, SystemExit):
        message = f"the application called sys.exit({error.code!r})"
    return {"error_type": name_of(error), "message": first_lines(message), "traceback": frames[-20:]}


_OURS = (__file__, "<frozen runpy>", runpy.__file__)


def name_of(error: BaseException) -> str:
    condition = getattr(error, "getCondition", lambda: None)()
    state = getattr(error, "getSqlState", lambda: None)()
    java = getattr(error, "java_exception", None)
    name = str(java.getClass().getName()) if java is not None else type(error).__name__
    told = ", ".join(part for part in (condition, f"SQLSTATE {state}" if state else None) if part)
    return f"{name} [{told}]" if told else name


def first_lines(message: str, most: int = 12) -> str:
    lines = [line for line in message.strip().split("\n") if not line.lstrip().startswith("at ")]
    return "\n".join(lines[:most])[:4000]


def script_xcom(folder: Path) -> dict[str, Any]:
    """What the script left at `spark.tidemill.result`."""
    try:
        text = (folder / "xcom.json").read_text()
    except FileNotFoundError:
        return {}
    if len(text) > RESULT_LIMIT:
        raise ValueError(f"the result has {len(text):,} bytes; at most {RESULT_LIMIT:,} travel. Write a path instead")
    return {"return_value": json.loads(text)}


def run_script(folder: Path, argv: list[str]) -> dict[str, Any]:
    sys.argv = argv
    sys.path.insert(0, str(Path(argv[0]).parent))
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    return {"outcome": {"state": "success", "xcom": script_xcom(folder)}}


def run_function(folder: Path) -> dict[str, Any]:
    from tidemill.activities.dag_import import import_dags
    from tidemill.activities.isolated_call import perform
    from tidemill.model.attempts import TaskAttempt

    attempt = TaskAttempt.model_validate_json((folder / "attempt.json").read_text())
    assert attempt.source is not None  # noqa: S101
    dags = import_dags(Path(attempt.source.path))
    session = SparkSession.builder.getOrCreate()
    result = perform(dags, attempt, (session,))
    session.stop()
    return result


def main() -> int:
    folder, application = Path(sys.argv[1]), sys.argv[2:]
    threading.Thread(target=watch, args=(folder, os.getppid()), daemon=True).start()
    try:
        result = run_function(folder) if application == ["--function"] else run_script(folder, application)
    except BaseException as error:
        traceback.print_exc()
        result = {"failure": failure(error)}
    write_json(folder / "result.json", result)
    return 1 if "failure" in result else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
