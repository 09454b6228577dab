"""The driver's own side of a Spark task: runs the application, and tells how it goes and how it went.

Started by spark-submit in place of the user's script, with the attempt's folder as its first
argument; what it is to run follows, or is in the folder's `plan.json`. Only the standard library and pyspark,
apart from functions of a DAG file. It writes

- `driver.json`: that this driver has the attempt. Any other driver of the same attempt ends at once;
- `progress.json`: application id, UI address, the current stage with its counts, the job's description;
- `figures.json`: what the application came to, before its context stops;
- `result.json`: the outcome, or the failure in the user's terms.
"""

import base64
import importlib.util
import json
import math
import os
import re
import runpy
import sys
import threading
import time
import traceback
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

PROGRESS_EVERY = 0.5
FIGURES_EVERY, SHIPPED_FIGURES_EVERY = 10.0, 60.0
LAST_LOOK_TIMEOUT = 15.0
FIGURES, TABLES = "driver_figures.py", "driver_tables.py"
RESULT_LIMIT = 256 * 1024
CLAIM = "driver.json"
_YARN_CONTAINER = re.compile(r"container_(?:e\d+_)?(\d+_\d+)_(\d+)_\d+")
_STANDALONE_DRIVER = re.compile(r"driverId=(driver-[\w-]+)")


def write_json(path: Path, content: dict[str, Any]) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)


def take_claim(folder: Path, claim: dict[str, Any]) -> bool:
    """Makes the attempt the caller's, for ever. False if somebody has it: on one file system, only one can."""
    mine = folder / f"{CLAIM}.{os.uname().nodename}.{os.getpid()}.{os.urandom(4).hex()}"
    opened = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(opened, "w") as file:
        file.write(json.dumps(claim))
    try:
        os.link(mine, folder / CLAIM)  # whole from the first moment on
    except FileExistsError:
        return False
    finally:
        mine.unlink()
    return True


def whereabouts() -> dict[str, Any]:
    """What the cluster knows this driver by."""
    environment = os.environ
    log = environment.get("SPARK_DRIVER_LOG_URL_STDERR")
    known = _STANDALONE_DRIVER.search(log or "")
    application = known[1] if known else environment.get("SPARK_APPLICATION_ID")
    if (yarn := _YARN_CONTAINER.fullmatch(environment.get("CONTAINER_ID", ""))) is not None:
        application = f"application_{yarn[1]}"
        host, port = environment.get("NM_HOST"), environment.get("NM_HTTP_PORT")
        log = f"http://{host}:{port}/node/containerlogs/{yarn[0]}/{environment.get('USER')}"
    return {
        "application_id": application,
        "driver_log": log,
        "host": os.uname().nodename,
        "pid": os.getpid(),
    }


def application_order(application_id: str) -> list[int]:
    """When YARN took an application, among others: its ids have the start of the ResourceManager and a number."""
    return [int(part) for part in application_id.split("_")[1:]]


def is_first(tag: str, resource_managers: list[str]) -> bool:
    """Whether YARN has no older application of *tag* than the one of this container.

    spark-submit may have been begun twice for an attempt, when a worker was stopped and another took over. True where
    no ResourceManager answers from here.
    """
    yarn = _YARN_CONTAINER.fullmatch(os.environ.get("CONTAINER_ID", ""))
    if yarn is None:
        return True
    for url in resource_managers:
        try:
            question = f"{url}/ws/v1/cluster/apps?applicationTags={tag}&user.name={os.environ.get('USER', '')}"
            with urllib.request.urlopen(question, timeout=10) as answer:  # noqa: S310 - of the worker's configuration
                listed = (json.load(answer).get("apps") or {}).get("app") or []
        except (OSError, ValueError) as error:
            print(f"[tidemill] {url} does not say whether there is another application: {error}", flush=True)
        else:
            mine = application_order(f"application_{yarn[1]}")
            return all(application_order(str(app["id"])) >= mine for app in listed)
    return True


class ContainerLostError(Exception):
    """The driver's container was taken from it."""


def check_container() -> None:
    """Raise ContainerLostError where YARN has begun this application again, in another container.

    It does so after preemption, and where a node is lost, however many tries an application has. What the driver had
    written until then is in the place that this one would write to.
    """
    yarn = _YARN_CONTAINER.fullmatch(os.environ.get("CONTAINER_ID", ""))
    if yarn is not None and int(yarn[2]) > 1:
        reason = "YARN has taken the driver's container from it (preemption, or a lost node), and has begun another one"
        raise ContainerLostError(f"{reason}, which does nothing: what the first one has written may be there")


# Figures


class Figures:
    """Leaves what the application has come to in its folder: now and then, and before its context stops."""

    def __init__(self, folder: Path, ships: str | None) -> None:
        self._folder, self._ships = folder, ships
        self._looking = threading.Lock()
        self._ended: set[str] = set()
        """The applications whose last figures are told."""
        self._module: Any = None
        try:
            self._module = load_beside(folder, FIGURES)
            self._module.before_each_stop(self.look_last)
        except Exception as error:  # as where the file of another release is beside this one
            print(f"[tidemill] what the application comes to will not be told: {error!r}", flush=True)

    def look_last(self, sc: Any) -> None:
        """As `look`, before the end. A JVM that does not answer is not waited for: the result is."""
        looking = threading.Thread(target=self.look, args=(sc,), kwargs={"is_final": True}, daemon=True)
        looking.start()
        looking.join(LAST_LOOK_TIMEOUT)

    def look(self, sc: Any, *, is_final: bool) -> None:
        """Whatever Spark answers, the application goes on as it would without."""
        if self._module is None:
            return
        try:
            with self._looking:
                if (application := str(sc.applicationId)) in self._ended:
                    return
                content = {**self._module.figures_of(sc, with_skew=is_final), "is_final": is_final}
                if is_final:
                    self._ended.add(application)
                write_json(self._folder / "figures.json", content)
                if self._ships is not None:
                    tell(self._ships, "figures", content)
        except Exception as error:
            print(f"[tidemill] what the application came to is not known: {error}", flush=True)

    def wanted(self, sc: Any) -> str:
        """What the application waits for that has no executor."""
        return "executors" if self._module is None else str(self._module.executors_wanted(sc))

    def look_at_active(self, *, is_final: bool) -> None:
        """As `look`, where there is a context."""
        from pyspark import SparkContext

        if (sc := SparkContext._active_spark_context) is not None:
            if is_final:
                self.look_last(sc)
            else:
                self.look(sc, is_final=False)


def load_beside(folder: Path, name: str) -> Any:
    """The module of the file *name*: beside this one, or among what has come with the attempt."""
    place = next(path for path in (Path(__file__).with_name(name), folder / name) if path.exists())
    spec = importlib.util.spec_from_file_location(place.stem, place)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Progress


def watch(folder: Path, parent: int, known: dict[str, Any], ships: str | None, figures: Figures) -> None:
    """Writes progress; ends the driver when the JVM that started it is gone, whatever the script catches."""
    printed, looked_at = "", time.monotonic()
    while True:
        if os.getppid() != parent:
            os._exit(1)
        try:
            progress = current_progress(figures)
            if progress is not None:
                write_json(folder / "progress.json", {**known, **progress, "at": time.time()})
                if (line := in_words(progress)) != printed:
                    printed = line
                    if ships is not None:
                        tell(ships, "progress", {**progress, "at": time.time()})
                    print(f"[tidemill] {line}", flush=True)
                if time.monotonic() - looked_at > (FIGURES_EVERY if ships is None else SHIPPED_FIGURES_EVERY):
                    figures.look_at_active(is_final=False)
                    looked_at = time.monotonic()
        except Exception:  # noqa: S110 - progress is a courtesy; the application goes on without
            pass
        time.sleep(PROGRESS_EVERY)


def current_progress(figures: Figures) -> dict[str, Any] | None:
    from pyspark import SparkContext

    sc = SparkContext._active_spark_context
    if sc is None:
        return None
    progress: dict[str, Any] = {"application_id": sc.applicationId, "ui": sc.uiWebUrl}
    # The driver is one of those that Spark lists.
    progress["executors"] = max(0, len(sc._jsc.sc().statusTracker().getExecutorInfos()) - 1)
    store = sc._jsc.sc().statusStore()
    active = store.activeStages()
    if active.length():
        stage = min((active.apply(i) for i in range(active.length())), key=lambda found: found.stageId())
        description = stage.description()
        progress |= {
            "stage": stage.stageId(),
            "stage_name": stage.name(),
            "tasks": stage.numTasks(),
            "tasks_done": stage.numCompleteTasks(),
            "tasks_active": stage.numActiveTasks(),
            **({"job": description.get()} if description.isDefined() else {}),
        }
        if not progress["executors"] and not stage.numActiveTasks() and not sc.master.startswith("local"):
            progress["waits_for"] = figures.wanted(sc)
    return {**progress, **fraction_done()}


def in_words(progress: dict[str, Any]) -> str:
    """For the log: a line for each stage, not for each of its tasks."""
    if "stage" not in progress:
        return f"application {progress['application_id']}, {progress['ui'] or 'without a UI'}"
    if "waits_for" in progress:
        return f"stage {progress['stage']} waits for {progress['waits_for'].partition(';')[0]}"  # the rest changes
    job = f" of job {progress['job']!r}" if "job" in progress else ""
    return f"stage {progress['stage']}{job}: {progress['tasks']} tasks, {progress['stage_name']}"


def fraction_done() -> dict[str, float]:
    """How much of its work the script says is done: conf `spark.tidemill.progress`, from 0 to 1."""
    from pyspark.sql import SparkSession

    session = SparkSession._instantiatedSession
    text = None if session is None else session.conf.get("spark.tidemill.progress", "")
    return {"fraction": min(1.0, max(0.0, float(text)))} if text else {}


# Failures


def failure(error: BaseException) -> dict[str, Any]:
    """*error* as the model `Failure`: what the user raised and why, Spark's error condition, the deepest Java cause."""
    frames = [
        f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "/pyspark/" not in frame.filename and "/py4j/" not in frame.filename and frame.filename not in _OURS
    ]
    name, message = name_and_message(error)
    causes: list[str] = []
    cause = raised_from(error)
    while cause is not None and len(causes) < MAX_CAUSES:
        try:
            causes.append("caused by {}: {}".format(*name_and_message(cause)))
        except Exception:  # one of Spark's asks its JVM, which may be gone by now
            causes.append(f"caused by {type(cause).__name__}")
        cause = raised_from(cause)
    known = {"error_type": name, "message": first_lines("\n".join([message, *causes])), "traceback": frames[-20:]}
    return {**known, "retryable": False} if getattr(error, "tidemill_is_final", False) is True else known


def raised_from(error: BaseException) -> BaseException | None:
    """What *error* was raised from, or while that was handled; None after `raise ... from None`."""
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


MAX_CAUSES = 3
_JAVA = r"((?:[\w$]+\.)+[\w$]*(?:Exception|Error|Throwable)): ?([^\n]*)"
_DEEPEST = re.compile(rf"Caused by: {_JAVA}")
_OF_A_TASK = re.compile(rf"Lost task [^\n]*? \(TID \d+\) \(([^()\n]*)\): {_JAVA}")
_OUTERMOST = re.compile(rf"^: {_JAVA}", re.MULTILINE)
_SESSION_CLOSED = re.compile(r"(?:\([\w.$]+\) )?\[INVALID_HANDLE\.SESSION_CLOSED\]")
_OF_PYTHON_WORKER = re.compile(
    r"Traceback \(most recent call last\):\n(?P<frames>(?:[ \t][^\n]*\n)+)"
    r"(?P<kind>[^\s:][^\n:]*)(?:: (?P<text>[^\n]*))?$",
    re.MULTILINE,
)
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in ([^\n]+)')
_OF_SPARK = re.compile(r"(?:site-packages|python|\.zip)/py(?:spark|4j)/")
_CRASHED = re.compile(r"Python worker exited unexpectedly \(crashed\): ([^\n]+)")
_FRAME_OF_CRASH = re.compile(r'File "([^"]+)", line (\d+) in ([^\n]+)')
"""As Python's faulthandler writes it, innermost first."""
_NO_PROGRAM = re.compile(r'Cannot run program "[^"\n]*"[^\n]*')


def name_and_message(error: BaseException) -> tuple[str, str]:
    """The type and the message of one exception, as its reader needs them first."""
    name, message = name_of(error), str(error)
    if isinstance(error, SystemExit):
        return name, f"the application called sys.exit({error.code!r})"
    if _lost_its_jvm(error, message):
        reason = f"the driver's JVM has ended under the application ({type(error).__name__}: {message[:200]})"
        return "SparkDriverLost", f"{reason}. Often memory ran out: see the end of the log, or give more driver_memory"
    if "stopped SparkContext" in message:
        reason = "Spark has stopped its context: no master answered, or the application was ended. The log says which"
        return name, f"{reason}\n{message}"
    if _SESSION_CLOSED.match(message) is not None and type(error).__module__.startswith("pyspark.errors"):
        reason = "the Connect server has closed the session: nothing was asked of it for longer than the server's"
        remedy = "spark.connect.session.manager.defaultSessionTimeout. Raise that, or ask Spark more often"
        return "SparkSessionClosed", f"{reason} {remedy}\n{message}"
    if (program := _NO_PROGRAM.search(message)) is not None:
        return "SparkProgramNotFound", f"{program[0]}. Set spark.pyspark.python to one that every executor has"
    if (crash := _CRASHED.search(message)) is not None:
        frames = [frame for frame in _FRAME_OF_CRASH.findall(message[crash.end() :]) if "/lib/python" not in frame[0]]
        where = "" if not frames else " at {}:{} in {}".format(*frames[0])
        return "PythonWorkerCrashed", f"{crash[1]}{where}: a function of the application has ended its Python worker"
    is_sparks = type(error).__module__.startswith(("pyspark.errors", "py4j"))
    if is_sparks and (found := [*_OF_PYTHON_WORKER.finditer(message)]):
        return found[-1]["kind"], _in_python_worker(found[-1])
    is_converted = is_sparks and getattr(error, "getCondition", lambda: "")() is None and "JVM stacktrace:" in message
    if getattr(error, "java_exception", None) is None and not is_converted:
        return name, message
    if deepest := _DEEPEST.findall(message):
        java, text = deepest[-1]
        return str(java), str(text)
    if (lost := _OF_A_TASK.search(message)) is not None:
        return lost[2], f"{lost[3]}, at {lost[1]}"
    outermost = _OUTERMOST.search(message)
    return (outermost[1], outermost[2]) if outermost is not None else (name, message)


def _in_python_worker(raised: re.Match[str]) -> str:
    """What a function of the application has raised on an executor, or in a batch of a stream; and where."""
    frames = [frame for frame in _FRAME.findall(raised["frames"]) if not _OF_SPARK.search(frame[0])]
    where = "in a Python worker" if not frames else "at {}:{} in {}".format(*frames[-1])
    return f"{raised['text']}, {where}" if raised["text"] else f"raised {where}"


def _lost_its_jvm(error: BaseException, message: str) -> bool:
    """Whether *error* is of py4j, whose gateway does not answer; not where the application has raised the like."""
    if type(error).__name__ == "Py4JNetworkError":
        return True
    if isinstance(error, ConnectionRefusedError):
        frames = traceback.extract_tb(error.__traceback__)
        return bool(frames) and "/py4j/" in frames[-1].filename
    return "does not exist in the JVM" in message and not _jvm_answers()


JVM_TIMEOUT = 10.0
"""Seconds within which a JVM tells the time that is alive. One that hangs must not keep a failure from being told."""


def _jvm_answers() -> bool:
    """Whether the driver's JVM answers within JVM_TIMEOUT; False, too, where there is none."""
    answers: list[int] = []

    def ask() -> None:
        with suppress(Exception):  # whatever py4j raises of a gateway that is gone
            from pyspark import SparkContext

            answers.append(SparkContext._gateway.jvm.System.currentTimeMillis())

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(JVM_TIMEOUT)
    return bool(answers)


_OURS = (__file__, "<frozen runpy>", runpy.__file__)


def name_of(error: BaseException) -> str:
    # Spark 3 calls it the error's class.
    condition = getattr(error, "getCondition", getattr(error, "getErrorClass", lambda: None))()
    state = getattr(error, "getSqlState", lambda: None)()
    java = getattr(error, "java_exception", None)
    name = str(java.getClass().getName()) if java is not None else type(error).__name__
    codes = ", ".join(part for part in (condition, f"SQLSTATE {state}" if state else None) if part)
    return f"{name} [{codes}]" if codes else name


def first_lines(message: str, limit: int = 12) -> str:
    lines = [line for line in message.strip().split("\n") if not line.lstrip().startswith("at ")]
    return "\n".join(lines[:limit])[:4000]


# Ways to run


def script_xcom(folder: Path) -> dict[str, Any]:
    """What the script left at `spark.tidemill.result`."""
    try:
        text = (folder / "xcom.json").read_text()
    except FileNotFoundError:
        return {}
    return {"return_value": json.loads(within_limit(text))}


def within_limit(text: str) -> str:
    if len(text) > RESULT_LIMIT:
        raise ValueError(f"the result has {len(text):,} bytes; at most {RESULT_LIMIT:,} travel. Write a path instead")
    return text


def run_script(folder: Path, argv: list[str]) -> dict[str, Any]:
    sys.argv = argv
    sys.path.insert(0, str(Path(argv[0]).parent))
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    return {"outcome": {"state": "success", "xcom": script_xcom(folder)}}


def run_statements(session: Any, plan: dict[str, Any]) -> dict[str, Any]:
    """Runs the statements in order; the rows of the last one go to the output, or are the result."""
    *first, last = plan["statements"]
    for statement in first:
        rows = session.sql(statement)
        if rows.columns:  # a query is begun by who wants its rows alone: also one that is a check
            rows.write.format("noop").mode("overwrite").save()
    rows = session.sql(last)
    if not rows.columns:
        return {"outcome": {"state": "success"}}
    twice = sorted({name for name in rows.columns if rows.columns.count(name) > 1})
    if twice:
        raise ValueError(f"the last statement has several columns named {', '.join(twice)}. Name them apart with AS")
    if plan["staged"] is not None:
        rows.write.format(plan["output_format"]).mode("overwrite").save(plan["staged"]["staged"])
        return {"outcome": {"state": "success"}}
    found = rows.limit(plan["max_rows"] + 1).collect()
    if len(found) > plan["max_rows"]:
        raise ValueError(
            f"the last statement has more than {plan['max_rows']:,} rows. Give the task an output, or a higher max_rows"
        )
    text = within_limit(json.dumps([as_json(row) for row in found]))
    return {"outcome": {"state": "success", "xcom": {"return_value": json.loads(text)}}}


def as_json(value: Any) -> Any:
    """*value* of a row as Spark's own to_json writes it, but for decimals, which keep all their digits as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case dict():
            return {key if isinstance(key, str) else str(as_json(key)): as_json(one) for key, one in value.items()}
        case tuple() if hasattr(value, "asDict"):
            return {name: as_json(one) for name, one in zip(getattr(value, "__fields__", ()), value, strict=True)}
        case list() | tuple():
            return [as_json(one) for one in value]
        case _:
            return str(value)


def _in_few_lines(error: BaseException) -> tuple[str, str]:
    name, message = name_and_message(error)
    return name, first_lines(message)


def _local_modules(roots: list[Path]) -> list[Any]:
    """Return the modules that have been imported from *roots*, but for packages that are installed there."""
    found = []
    for name, module in [*sys.modules.items()]:
        file = Path(getattr(module, "__file__", None) or "/")
        is_local = "site-packages" not in file.parts and any(file.is_relative_to(root) for root in roots)
        if is_local and getattr(module, "__name__", "") == name != "__main__":
            found.append(module)
    return found


def run_function(folder: Path, code: dict[str, Any], session: Any) -> dict[str, Any]:
    """Calls the attempt's function of the DAG file that *code* names."""
    from pyspark import cloudpickle
    from tidemill.activities.processes.answers import as_left
    from tidemill.activities.work.dag_code import import_dags, module_name
    from tidemill.activities.work.function import perform
    from tidemill.model.run.attempts import TaskAttempt

    attempt = TaskAttempt.model_validate_json((folder / "attempt.json").read_text())
    path = Path(code["path"]).absolute()
    roots = [Path(root).absolute() for root in code["roots"]]
    dags = import_dags(path, roots)
    # Executors do not have the DAG file, nor what lies beside it: what functions refer to there travels with them.
    for module in [sys.modules[module_name(path)], *_local_modules([path.parent, *roots])]:
        cloudpickle.register_pickle_by_value(module)
    result: dict[str, Any] = as_left(perform(dags, attempt, session, named=_in_few_lines))
    return result


def with_session(folder: Path, plan: dict[str, Any]) -> dict[str, Any]:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    result = run_in(session, folder, plan)
    session.stop()
    return result


def begin_with_first_session(folder: Path, plan: dict[str, Any]) -> None:
    """Has the branch of the script's table begun by the first session that it opens.

    Where that fails, this process ends with the failure: a script that goes on would write to the table itself.
    """
    from pyspark.sql import SparkSession

    opened = SparkSession.__init__
    has_begun = False

    def open_session(session: Any, *given: Any, **named: Any) -> None:
        nonlocal has_begun
        opened(session, *given, **named)
        if not has_begun:
            has_begun = True
            try:
                load_beside(folder, TABLES).begin(session, plan["table"])
            except Exception as error:
                code = finish(folder, plan, partial(raise_, error))
                sys.stdout.flush()
                os._exit(code)

    SparkSession.__init__ = open_session


def raise_(error: BaseException) -> dict[str, Any]:
    raise error


def run_in(session: Any, folder: Path, plan: dict[str, Any]) -> dict[str, Any]:
    """Runs what is given a session: a function, SQL, or the end of a table's branch."""
    if "publish" in plan:
        load_beside(folder, TABLES).settle(session, plan["publish"])
        return {"outcome": {"state": "success"}}
    if "table" in plan:
        load_beside(folder, TABLES).begin(session, plan["table"])
    place = plan.get("function")
    return run_statements(session, plan) if place is None else run_function(folder, place, session)


def finish(folder: Path, plan: dict[str, Any], run: Callable[[], dict[str, Any]]) -> int:
    """Runs the application and leaves what came of it; the exit code."""
    try:
        result = run()
    except BaseException as error:
        traceback.print_exc()
        result = {"failure": failure(error)}
    for name in ("staged", "table"):
        if plan.get(name) is not None:
            result[name] = plan[name]
    write_json(folder / "result.json", result)
    if "ships" in plan:
        tell(plan["ships"], "result", result)
        time.sleep(PRINTING_DELAY)  # the JVM's thread that carries these lines does not outlive this process
    return 1 if "failure" in result else 0


LINE_SIZE = 3000  # with what is before it less than a pipe takes at once: no other process writes in between
PRINTING_DELAY = 1.0


def tell(attempt: str, about: str, content: dict[str, Any]) -> None:
    """Prints *content* in lines that the worker finds in the log of this driver's pod: no disk is shared with it."""
    text = base64.b64encode(zlib.compress(json.dumps(content).encode())).decode()
    parts = [text[at : at + LINE_SIZE] for at in range(0, len(text), LINE_SIZE)]
    sys.stdout.flush()
    for number, part in enumerate(parts, 1):
        os.write(1, f"\ntidemill:{attempt}:{about}:{number}/{len(parts)}:{part}\n".encode())


def unpacked(place: Path) -> Path:
    """The attempt's folder: *place*, or where the archive is unpacked that *place* is; below the current one, say."""
    if place.is_dir():
        return place
    with zipfile.ZipFile(place) as archive:
        folder: Path = Path.cwd() / json.loads(archive.read("plan.json"))["folder"]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        archive.extractall(folder)
    return folder


def main() -> int:
    folder, application = unpacked(Path(sys.argv[1])), sys.argv[2:]
    plan = json.loads((folder / "plan.json").read_text())
    known: dict[str, Any] = {}
    if "only_one" in plan and not is_first(**plan["only_one"]):
        print("another application has this attempt; this one ends without doing anything")
        return 0
    if "only_one" in plan:
        try:
            check_container()
        except ContainerLostError as error:
            return finish(folder, plan, partial(raise_, error))
    if application and Path(application[0]).exists():
        application[0] = str(Path(application[0]).absolute())
    if plan.get("on_cluster"):
        known = whereabouts()
        if not take_claim(folder, known):
            print("another driver has this attempt; this one ends without doing anything")
            return 0
        log = os.open(plan["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
    # Imported before the watching thread starts: two threads in this import at once would break it.
    import pyspark.sql  # noqa: F401

    figures = Figures(folder, plan.get("ships"))
    threading.Thread(target=watch, args=(folder, os.getppid(), known, plan.get("ships"), figures), daemon=True).start()

    def run() -> dict[str, Any]:
        if application and "table" in plan:
            begin_with_first_session(folder, plan)
        try:
            if "side" in plan:
                result: dict[str, Any] = load_beside(folder, plan["side"]["file"]).run_below(plan["side"], known)
                return result
            return run_script(folder, application) if application else with_session(folder, plan)
        finally:
            figures.look_at_active(is_final=True)

    return finish(folder, plan, run)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
