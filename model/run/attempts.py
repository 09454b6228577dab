"""One try of a task as it is sent to a worker, with all that the work needs to know."""

from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from ..base import Instant, Model, OmitDefaults
from ..spec.dag import DagSource
from ..spec.notifiers import Event
from ..spec.owned import OwnedNames
from ..spec.tasks import EmptyTask, Task
from ..states import TaskState
from .deferrals import Deferral
from .identity import RunIdentity
from .instance_keys import UNMAPPED, instance_key
from .task_instances import StagedTable, Submission

LONGEST_FILE_NAME = 255
"""In bytes, as most file systems have it."""
INLINE_LIMIT = 32 * 1024
RESULTS_IN_HISTORY = 256 * 1024


def inline_limit(used: int) -> int:
    """How large a result may be to stay in history, where Temporal shows it, when *used* bytes are there already.

    A run's results travel with its state, so that together they stay far below what a payload may hold.
    """
    return INLINE_LIMIT if used < RESULTS_IN_HISTORY else 256


WHOLE_RUN = "__run__"
"""In the place of a task_id: what is called for a run as a whole."""


class EndedTry(OmitDefaults, Model):
    """The last try of a task instance, as the end of its run is told with it."""

    task_id: str
    map_index: int = UNMAPPED
    try_number: int
    max_tries: int = 0
    """How many retries it could have had (Airflow: max_tries)."""
    state: TaskState
    started_at: Instant | None = None
    ended_at: Instant | None = None


class CallbackCall(OmitDefaults, Model):
    """Which of the DAG file's callbacks is called, in the place of the task's function."""

    event: Event
    number: int
    of_run: bool = False
    """Whether it is one of the DAG's callbacks, and not of the task's."""
    reason: str | None = None
    asset: str | None = None
    """The asset whose callback it is."""
    about: EndedTry | None = None
    """Of the end of a run: the task instance by which it has ended."""


class TaskAttempt(OmitDefaults, Model):
    """Try *try_number* (from 1) of a task in a run. Its folder and its log are found from this alone."""

    run: RunIdentity
    task: Task
    try_number: int
    map_index: int = UNMAPPED
    poke: int = 1
    """Which poke of this try it is, for tasks that wait."""
    waiting_since: Instant | None = None
    execution: str = "1"
    """Which execution of the run this is: another one after the run was reset, or was run again."""
    params: dict[str, Any] = {}
    xcom: dict[str, dict[str, Any]] = {}
    """Results of tasks upstream, by task_id and key: those that the arguments name or may pull."""
    xcom_indexes: dict[str, dict[str, tuple[int, ...]]] = {}
    """Of which map_index the values of a list in *xcom* are, where that is not their position: some have left none."""
    tries_cleared: int = 0
    """How many tries there had been when the task was cleared last: `retries` count from there."""
    run_started_at: Instant | None = None
    """When the run began; only tasks of Airflow's ask."""
    resume: Deferral | None = None
    """Where the try goes on that has waited outside of a worker."""
    callback: CallbackCall | None = None
    first_execution: str = ""
    """The run's first execution in Temporal: unlike `execution` it stays as a long run continues as new."""
    hands_over: bool = False
    """Whether a Spark task that has its driver below a worker is to be given back, for a worker with room for one."""
    inline_limit: int = INLINE_LIMIT
    """Results of more bytes than this are kept outside of history."""
    source: DagSource | None = None
    render_template_as_native_obj: bool = False
    template_searchpath: tuple[str, ...] = ()
    templates_need_code: bool = False

    @property
    def owns(self) -> OwnedNames | None:
        """What the names that the attempt uses have to begin with; None: no rule."""
        return self.source.owns if self.source is not None else None

    @property
    def seen_by_callback(self) -> "TaskAttempt":
        """What a callback has in its context: of the end of a run the task instance by which it has ended."""
        about = self.callback.about if self.callback is not None else None
        if about is None:
            return self
        task = EmptyTask(task_id=about.task_id, retries=about.max_tries)
        return self.model_copy(
            update={"task": task, "map_index": about.map_index, "try_number": about.try_number, "tries_cleared": 0}
        )

    @property
    def max_tries(self) -> int:
        """Return after how many tries the task fails for good (Airflow: max_tries); tries at no cost do not count."""
        return self.task.retries + self.tries_cleared

    @property
    def path(self) -> str:
        """Where the attempt's files are, below the folder for logs (Airflow's layout)."""
        return attempt_path(self.run.dag_id, self.run.run_id, self.task.task_id, self.try_number, self.map_index)

    @property
    def name(self) -> str:
        """What the attempt is called wherever it runs, such as in Spark's own list of applications."""
        return f"{self.run.dag_id}.{self.key} {self.run.run_id} try {self.try_number}"

    @property
    def uuid(self) -> UUID:
        """The attempt's identity where a name has to be short and plain, such as a tag, or the name of a pod."""
        return attempt_uuid(self.run, self.task.task_id, self.try_number, self.map_index, self.execution, self.poke)

    @property
    def key(self) -> str:
        """What the instance is called within its run."""
        return instance_key(self.task.task_id, self.map_index)

    @property
    def timeout(self) -> timedelta | None:
        return self.task.execution_timeout


class SubmittedAttempt(Model):
    """An attempt and the application that it has on a cluster; None where nothing is known of one."""

    attempt: TaskAttempt
    submission: Submission | None = None


class TableAttempt(Model):
    """An attempt that has succeeded, and the rows of it that are to become a table's."""

    attempt: TaskAttempt
    staged: StagedTable
    withdraws: bool = False
    """Whether they are to be kept from it, where nobody knows whether they have become it."""


def attempt_uuid(
    run: RunIdentity, task_id: str, try_number: int, map_index: int, execution: str, poke: int = 1
) -> UUID:
    """The identity of a try of a task."""
    path = attempt_path(run.dag_id, run.run_id, task_id, try_number, map_index)
    return uuid5(NAMESPACE_URL, f"tidemill:{path}/{execution}/{poke}")


def attempt_path(dag_id: str, run_id: str, task_id: str, try_number: int, map_index: int = UNMAPPED) -> str:
    """An attempt's files below a worker's home; its log is `logs/<this>.log`."""
    names = [f"task_id={task_id}"]
    if map_index != UNMAPPED:
        names.append(f"map_index={map_index}")
    return "/".join([run_path(dag_id, run_id), *map(_file_name, [*names, f"attempt={try_number}"])])


def task_path(dag_id: str, run_id: str, task_id: str, map_index: int = UNMAPPED) -> str:
    """The folder of an instance's tries, as that of `attempt_path`."""
    return attempt_path(dag_id, run_id, task_id, 0, map_index).rpartition("/")[0]


def run_path(dag_id: str, run_id: str) -> str:
    """The folder of a run's attempts, as that of `attempt_path`."""
    return f"{dag_path(dag_id)}/{_file_name(f'run_id={run_id}')}"


def dag_path(dag_id: str) -> str:
    """The folder of a DAG's runs, as that of `attempt_path`."""
    return _file_name(f"dag_id={dag_id}")


def _file_name(name: str) -> str:
    """*name*, or where it is longer than file systems take, its beginning and a digest."""
    if len(name.encode()) <= LONGEST_FILE_NAME:
        return name
    digest = sha256(name.encode()).hexdigest()[:16]
    return name.encode()[: LONGEST_FILE_NAME - len(digest) - 1].decode(errors="ignore") + f"-{digest}"
