"""What is installed, and that it works where nothing of ours is."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            str(folder),
            str(ROOT),
        ],
        check=True,
        capture_output=True,
    )
    [built] = folder.glob("*.whl")
    return built


def test_everything_is_installed_below_one_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        tops = {name.split("/")[0] for name in files.namelist()}
        assert {top for top in tops if not top.endswith(".dist-info")} == {"tidemill"}
        names = set(files.namelist())
    assert {"tidemill/py.typed", "tidemill/workflows/dag/workflow.py", "tidemill/examples/flights/flights.py"} <= names


def test_the_wheel_holds_every_module_of_the_checkout(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
    for folder in ("model", "activities", "kinds", "workflows", "worker", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            assert f"tidemill/{path.relative_to(ROOT)}" in names


def test_the_wheel_works_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    """Its code from the wheel alone; the libraries are those of the test environment, not downloaded again."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    target = tmp_path / "installed"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel)],
        check=True,
    )
    libraries = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    env = {**os.environ, "PYTHONPATH": f"{target}{os.pathsep}{libraries}"}
    told = subprocess.run(
        [str(python), "-P", "-c", "import tidemill; from tidemill import DAG, task; print(tidemill.__file__)"],
        env=env, check=True, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert told.stdout.strip() == str(target / "tidemill" / "__init__.py")


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-demo.lock", "requirements-test.lock"])
def test_a_lock_names_no_registry_and_every_hash(name: str) -> None:
    lock = (ROOT / name).read_text()
    assert "://" not in lock
    assert "--index" not in lock
    pins = re.split(r"\n(?=\S)", lock.strip())
    assert all("==" in pin.split("\n")[0] and "--hash=sha256:" in pin for pin in pins)


def test_a_worker_imports_neither_spark_nor_pandas() -> None:
    """They are of an extra that not every worker has."""
    code = (
        "import sys; import tidemill.worker.cli.dag_commands, tidemill.worker.plugin\n"
        "import tidemill.activities.work.fork_server\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'pyspark', 'pandas', 'sqlglot', 'matplotlib'}))"
    )
    told = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "[]"


def test_what_a_child_runs_imports_no_temporal() -> None:
    """It stays small, and holds nothing of its worker's."""
    code = "import sys; import tidemill.activities.work.fork_server; print('temporalio' in sys.modules)"
    told = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "False"


def test_the_public_names_are_the_ones_listed() -> None:
    import tidemill

    assert {*dir(tidemill)} == {*tidemill.__all__}
    assert all(getattr(tidemill, name) is not None for name in tidemill.__all__)


def test_the_face_imports_a_name_when_it_is_used() -> None:
    """So that the command line is quick: `tidemill --help` needs neither models nor Temporal."""
    code = "import sys; import tidemill.worker.cli; print({'pydantic', 'temporalio', 'pendulum'} & {*sys.modules})"
    told = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "set()"
