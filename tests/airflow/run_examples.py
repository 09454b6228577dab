"""Runs every example DAG file of the installed Airflow, and compares the end states with Airflow's own `dag.test()`.

They are the files of a bundle, as users have them: what runs is a version of the folder, and not the folder.
Writes the table of docs/airflow_examples.md. Usage: run_examples.py [NAME ...] [--no-reference]
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "airflow")]

from airflow_stack import PYTHON, airflow_place  # noqa: E402
from bundle_folder import Folder  # noqa: E402
from support import Stack, stack, temporal_server  # noqa: E402
from tidemill.model.bundle.data import FileView  # noqa: E402
from tidemill.model.errors import InvalidInputError  # noqa: E402
from tidemill.model.run.identity import TriggerRequest  # noqa: E402
from tidemill.model.run.messages import Answer  # noqa: E402
from tidemill.model.run.views import RunDetails  # noqa: E402
from tidemill.model.spec.dag import DagSpec  # noqa: E402
from tidemill.model.states import TaskState  # noqa: E402

PAGE = ROOT / "docs" / "airflow_examples.md"
UNSCHEDULED = DagSpec(dag_id="x").schedule
REFERENCE = ROOT / "tests" / "data" / "airflow_examples.json"
"""By dag_id: how its tasks end by `dag.test()`."""
SECONDS, SECONDS_AGAIN = 60, 200
"""How long a DAG may take at first, and where something of its file was not done by then."""
os.environ["AIRFLOW_CONN_FS_DEFAULT"] = (
    '{"conn_type": "fs", "extra": {"path": "/"}}'  # as Airflow's own defaults have it
)
CONF = {
    "example_params_ui_tutorial": {"required_field": "given by a person"},
    "example_passing_params_via_test_command": {"foo": "given by a person"},
}
"""Where a DAG asks for what has no default, a person gives it: here and to `dag.test()`."""
HEAD = """# The example DAG files of Airflow {version}

Every example file of Airflow and of its standard provider, unchanged, in a bundle of tidemill, and by Airflow's own
`dag.test()` on the same machine, without a network. Made by `make airflow` on {date}; no line of it is written by hand.

{summary}

| file | DAGs | tidemill | `dag.test()` | the same |
|---|---|---|---|---|
"""


@dataclass
class Result:
    """What came of one file."""

    name: str
    dags: int = 0
    error: str | None = None
    ours: dict[str, dict[str, str]] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    theirs: dict[str, Any] = field(default_factory=dict)

    @property
    def is_same(self) -> bool:
        compared = {dag_id: states for dag_id, states in self.theirs.items() if isinstance(states, dict)}
        return all(self.ours.get(dag_id) == _known(states) for dag_id, states in compared.items())

    @property
    def passes(self) -> bool:
        """Whether every task has succeeded, or was skipped."""
        return not self.error and all(
            state in ("success", "skipped") for states in self.ours.values() for state in states.values()
        )


def _known(states: dict[str, str | None]) -> dict[str, str]:
    return {key: state or "none" for key, state in states.items()}


def example_files() -> list[Path]:
    """The example files of the installed packages."""
    code = "import airflow, airflow.providers.standard as s; print(airflow.__path__[0]); print(list(s.__path__)[0])"
    found = subprocess.run([str(PYTHON), "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    places = [Path(line) / "example_dags" for line in found if line.startswith("/")]
    return sorted(path for place in places for path in place.glob("*.py") if path.name != "__init__.py")


async def bundle_of_examples(made: Stack, folder: Path) -> dict[str, FileView]:
    """Make a bundle of copies of the example folders, and read it. Return its files, by their names."""
    for path in await asyncio.to_thread(example_files):
        copy = folder / path.parents[1].name
        if not copy.exists():
            shutil.copytree(path.parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    examples = Folder(made, folder, "examples")
    await examples.begin()
    return {Path(path).stem: file for path, file in (await examples.look()).items()}


async def register_alone(made: Stack, dag_id: str) -> None:
    """Have the DAG, of the version that its bundle has made, run by hand alone."""
    spec = await made.tidemill.dags.spec(dag_id)
    await made.tidemill.dags.register(spec.model_copy(update={"schedule": UNSCHEDULED}))
    await made.tidemill.dags.pause(dag_id, paused=False)


def reference_of(path: Path, home: Path, date: datetime) -> dict[str, Any]:
    """The end states by Airflow itself."""
    env = {**os.environ, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    alone = home / "one" / path.stem  # dag.test() reads the whole folder that its file is in
    others = [other.name for other in path.parent.glob("*.py") if other != path]
    shutil.copytree(path.parent, alone, ignore=lambda folder, _: others if Path(folder) == path.parent else [])
    env |= {"PATH": f"{PYTHON.parent}{os.pathsep}{env['PATH']}", "AIRFLOW__CORE__DAGS_FOLDER": str(alone)}
    if not (home / "airflow.db").exists():
        subprocess.run([str(PYTHON), "-m", "airflow", "db", "migrate"], env=env, check=True, capture_output=True)
    script = str(Path(__file__).with_name("reference_run.py"))
    command = [str(PYTHON), script, str(alone / path.name), str(SECONDS), date.isoformat(), json.dumps(CONF)]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=3 * SECONDS)
        printed = done.stdout
    except subprocess.TimeoutExpired as error:  # it waits, and heeds no alarm
        printed = bytes(error.stdout or b"").decode()
    found: dict[str, Any] = {}
    for line in printed.splitlines():
        if line.startswith("REFERENCE "):
            found |= json.loads(line.removeprefix("REFERENCE "))
    return found


async def answer_people(made: Stack, dag_id: str, run_id: str) -> None:
    """Answers whatever a run asks, as a person would who takes what is offered first."""
    while True:
        details = await made.tidemill.runs.describe(dag_id, run_id)
        for task in details.tasks:
            if task.state is TaskState.AWAITING_INPUT and task.form is not None:
                person = (*task.form.assigned_users, "somebody")[0]
                answer = Answer(task=task.key, chosen=task.form.options[:1], by=person)
                try:
                    await made.tidemill.tasks.respond(dag_id, run_id, answer)
                except InvalidInputError as error:
                    print(f"    {task.key}: {error}")
        await asyncio.sleep(1)


async def run_dag(made: Stack, dag_id: str, date: datetime, within: int) -> RunDetails:
    request = TriggerRequest(logical_date=date, conf=CONF.get(dag_id, {}))
    run = await made.tidemill.runs.trigger(dag_id, request)
    answering = asyncio.create_task(answer_people(made, dag_id, run.run_id))
    try:
        return await made.finished(dag_id, run.run_id, within=within)
    except AssertionError:
        return await made.tidemill.runs.describe(dag_id, run.run_id)
    finally:
        answering.cancel()


async def run_file(made: Stack, result: Result, dag_ids: Sequence[str], date: datetime, within: int = SECONDS) -> None:
    """Runs its DAGs, all for one *date*: some wait for each other's run."""
    for dag_id in dag_ids:
        await register_alone(made, dag_id)
    result.ours.clear()
    result.reasons.clear()
    runs = (run_dag(made, dag_id, date, within) for dag_id in dag_ids)
    for details in await asyncio.gather(*runs, return_exceptions=True):
        if isinstance(details, BaseException):
            result.reasons.append(f"{type(details).__name__}: {details}")
            continue
        result.ours[details.run.dag_id] = {task.key: str(task.state) for task in details.tasks}
        bad = [task for task in details.tasks if task.error and task.state is TaskState.FAILED]
        waiting = [task for task in details.tasks if not task.state.finished]
        result.reasons += [f"{task.key}: {task.error}".split("\n")[0][:160] for task in bad]
        result.reasons += [f"{task.key} is {task.state}: {task.why}"[:160] for task in waiting[:1]]


async def one_result(made: Stack, path: Path, file: FileView, home: Path | None) -> Result:
    """Runs one file here, and by Airflow itself if there is a *home* for it."""
    start, result = time.monotonic(), Result(path.stem)
    result.error, result.dags = file.error, len(file.dags)
    if file.dags:
        date = datetime.now(UTC)
        theirs = asyncio.create_task(asyncio.to_thread(reference_of, path, home, date)) if home is not None else None
        await run_file(made, result, file.dags, date)
        result.theirs = await theirs if theirs is not None else {}
    same = "the same" if result.is_same else f"other than {result.theirs}"
    print(f"{path.stem}: {counted(result.ours)}; {same} ({time.monotonic() - start:.0f} s)", flush=True)
    for reason in result.reasons:
        print(f"    {reason}")
    return result


async def all_results(names: list[str], *, reference: bool) -> list[Result]:
    with tempfile.TemporaryDirectory() as folder, temporal_server(Path(folder) / "server") as address:
        place = airflow_place(Path(folder) / "home")
        async with stack(address, Path(folder) / "home", place=place) as made:
            wanted = [path for path in example_files() if not names or path.stem in names]
            home = Path(folder) / "airflow" if reference else None
            files = await bundle_of_examples(made, Path(folder) / "dags")
            results = [await one_result(made, path, files[path.stem], home) for path in wanted]
            # Another file may have left meanwhile what these wait for.
            again = [result for result in results if result.ours and not result.passes]
            await asyncio.gather(*(run_again(made, result, files[result.name].dags) for result in again))
    return results


async def run_again(made: Stack, result: Result, dag_ids: Sequence[str]) -> None:
    await run_file(made, result, dag_ids, datetime.now(UTC), SECONDS_AGAIN)
    print(f"again {result.name}: {counted(result.ours)}", flush=True)


def counted(states: dict[str, Any]) -> str:
    """How many tasks are in each state."""
    counts = Counter(state for of_dag in states.values() if isinstance(of_dag, dict) for state in of_dag.values())
    return ", ".join(f"{n} {state}" for state, n in counts.most_common())


def row(result: Result) -> str:
    if result.error is not None:
        ours = result.error.split("\n")[0]
    else:
        ours = counted(result.ours) + "".join(f"<br>{reason}" for reason in result.reasons[:3])
    others = [told for told in result.theirs.values() if not isinstance(told, dict)]
    theirs = counted(result.theirs) + "".join(f"<br>{told}" for told in dict.fromkeys(map(str, others)))
    same = "" if not result.theirs else "yes" if result.is_same else "no"
    return (
        "| "
        + " | ".join(text.replace("|", "\\|") for text in (result.name, str(result.dags), ours, theirs, same))
        + " |"
    )


def write_reference(results: list[Result]) -> None:
    found = {
        dag_id: _known(states)
        for result in results
        for dag_id, states in result.theirs.items()
        if isinstance(states, dict)
    }
    REFERENCE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def write_page(results: list[Result]) -> None:
    with_dags = [result for result in results if result.dags]
    passing = [result for result in with_dags if result.passes]
    compared = [result for result in with_dags if any(isinstance(states, dict) for states in result.theirs.values())]
    same = [result for result in compared if result.is_same]
    version = subprocess.run(
        [str(PYTHON), "-c", "import airflow; print(airflow.__version__)"], capture_output=True, text=True, check=True
    ).stdout.split()[-1]
    summary = (
        f"{len(results)} files, {len(with_dags)} with DAGs, {sum(result.dags for result in results)} DAGs. In "
        f"{len(passing)} files every task succeeds or is skipped as its DAG says."
    )
    if compared:
        also = [result for result in same if not result.passes]
        summary += f" {len(also)} more end as by Airflow's own `dag.test()`, task by task: they fail there, too."
        summary += f" Of the {len(compared)} files that `dag.test()` can run, {len(same)} end as there; others choose"
        summary += " their branch by chance, fail there alone, or name a task queue that no worker polls here."
    else:
        summary += " `dag.test()` was not run."
    lines = [HEAD.format(version=version, date=datetime.now(UTC).date(), summary=summary).rstrip("\n")]
    PAGE.write_text("\n".join([*lines, *map(row, results), ""]))
    print(summary)


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    names = [name for name in sys.argv[1:] if not name.startswith("--")]
    results = asyncio.run(all_results(names, reference="--no-reference" not in sys.argv))
    if not names:
        write_page(results)
        if any(result.theirs for result in results):
            write_reference(results)


if __name__ == "__main__":
    main()
