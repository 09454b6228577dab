"""The tasks of a run that may start as soon as there is room: who is next, and what each of them waits for."""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush

from ..spec.dag import DagSpec
from ..spec.tasks import BaseTask, EmptyTask
from ..states import TaskState
from .instance_keys import split_key

AHEAD = 200
"""Of instances that wait for the same slots, as many ask at a time: a pool knows who is next, and is not flooded."""
Kind = tuple[str, str | None, int, int]


def counts_in_parallelism(task: BaseTask) -> bool:
    """Whether *task* takes a slot of the installation: an empty task needs no worker."""
    return not isinstance(task, EmptyTask)


def needs_lease(task: BaseTask, parallelism: int | None = None) -> bool:
    """Whether a pool or a limit has to let *task* in; *parallelism* is the limit of the installation, if any."""
    limited = parallelism is not None and counts_in_parallelism(task)
    return limited or task.pool is not None or task.max_active_tis_per_dag is not None


class ReadyTasks:
    """Scheduled instances in the order of Airflow: heaviest first, then as they stand in the DAG, then by map_index.

    One that is held up by a limit of its own is passed over, so that it holds up no other.
    """

    def __init__(
        self, spec: DagSpec, order: Mapping[str, int], weights: Mapping[str, int], parallelism: int | None = None
    ) -> None:
        self._spec = spec
        self._parallelism = parallelism
        self._order = order
        self._weights = weights
        self._heap: list[tuple[int, int, int, str]] = []
        self._busy = 0
        self._active: dict[str, int] = {}
        self._full: dict[str, list[str]] = {}
        self._requested: set[str] = set()
        self._granted: set[str] = set()
        self._ahead: int | None = None
        self._open: dict[Kind, set[str]] = {}
        self._later: dict[Kind, list[tuple[int, int, str]]] = {}
        """Instances that ask when fewer of their kind do, in order."""
        self.wanted: list[str] = []
        """Instances that a lease is to be asked for; the reader empties it."""
        self.returned: list[str] = []
        """Instances whose lease was granted and cannot be used now; the reader empties it."""

    @property
    def busy(self) -> int:
        """How many instances are queued or running."""
        return self._busy

    def push(self, key: str) -> None:
        """*key* may start."""
        task_id, map_index = split_key(key)
        heappush(self._heap, (-self._weights[task_id], self._order[task_id], map_index, key))

    def count(self, key: str, old: TaskState, new: TaskState) -> None:
        """Takes note of what *key* takes up, from one state to the next."""
        self._busy += new.holds_a_worker - old.holds_a_worker
        task_id, _ = split_key(key)
        limit = self._spec.by_id[task_id].max_active_tis_per_dagrun
        if limit is not None:
            self._active[task_id] = self._active.get(task_id, 0) + new.is_active - old.is_active
            if self._active[task_id] < limit:
                for waiting in self._full.pop(task_id, ()):
                    self.push(waiting)
        if new is not TaskState.SCHEDULED and key in self._requested:
            self._requested.discard(key)
            self._granted.discard(key)
            self._open[self._kind(key)].discard(key)

    def take(self, states: Mapping[str, TaskState]) -> Iterator[str]:
        """Those that start now. Each must have been counted as queued before the next one is taken."""
        if self._busy < self._spec.max_active_tasks:
            self._ask_more(states)
        while self._heap and self._busy < self._spec.max_active_tasks:
            key = heappop(self._heap)[-1]
            if states.get(key) is TaskState.SCHEDULED and self._let_in(key):
                yield key
        if self._busy >= self._spec.max_active_tasks:
            self.give_back(states)

    def _let_in(self, key: str) -> bool:
        task_id, _ = split_key(key)
        task = self._spec.by_id[task_id]
        limit = task.max_active_tis_per_dagrun
        if limit is not None and self._active.get(task_id, 0) >= limit:
            self._full.setdefault(task_id, []).append(key)
            if key in self._granted:
                self._return(key)
            return False
        if not needs_lease(task, self._parallelism) or key in self._granted:
            return True
        if key not in self._requested:
            kind = self._kind(key)
            if self._has_to_wait(kind):
                heappush(self._later.setdefault(kind, []), (self._order[task_id], split_key(key)[1], key))
            else:
                self._ask(key)
        return False

    def ask_ahead(self, limit: int = AHEAD) -> None:
        """Asks for no more than *limit* leases of a kind at a time."""
        self._ahead = limit

    def _kind(self, key: str) -> Kind:
        """Instances of one kind can stand in for each other where they wait, but for their order."""
        task_id, _ = split_key(key)
        task = self._spec.by_id[task_id]
        limited = task_id if task.max_active_tis_per_dag is not None else ""
        return limited, task.pool, task.pool_slots, self._weights[task_id]

    def _has_to_wait(self, kind: Kind) -> bool:
        return self._ahead is not None and len(self._open.get(kind, ())) >= self._ahead

    def _ask(self, key: str) -> None:
        self.mark_requested(key)
        self.wanted.append(key)

    def _ask_more(self, states: Mapping[str, TaskState]) -> None:
        """Those that had to wait ask, as far as others have been let in or want nothing any more."""
        for kind, later in self._later.items():
            while later and not self._has_to_wait(kind):
                key = heappop(later)[-1]
                if states.get(key) is TaskState.SCHEDULED and key not in self._requested:
                    self._ask(key)

    def mark_requested(self, key: str) -> None:
        """A lease has been asked for."""
        self._requested.add(key)
        self._open.setdefault(self._kind(key), set()).add(key)

    def give_back(self, states: Mapping[str, TaskState]) -> None:
        """A slot of a pool is not held by a task that waits for something else."""
        for key in sorted(self._granted):
            if states.get(key) is TaskState.SCHEDULED:
                self._return(key)

    def _return(self, key: str) -> None:
        self.returned.append(key)
        self._granted.discard(key)
        self._requested.discard(key)

    def grant(self, key: str) -> bool:
        """*key* has its lease. False if it does not wait for one: then the lease is to be returned."""
        if key not in self._requested:
            return False
        self._granted.add(key)
        self._open[self._kind(key)].discard(key)
        self.push(key)
        return True

    def why(self, key: str) -> str:
        """What a scheduled instance waits for."""
        task_id, _ = split_key(key)
        task = self._spec.by_id[task_id]
        if key in self._full.get(task_id, ()):
            return (
                f"max_active_tis_per_dagrun = {task.max_active_tis_per_dagrun} is reached: "
                f"{self._active.get(task_id, 0)} instances of {task_id} are active in this run"
            )
        asks = key in self._requested or (needs_lease(task, self._parallelism) and self._has_to_wait(self._kind(key)))
        if asks and key not in self._granted:
            if task.pool is not None:
                return f"waits for {task.pool_slots} of the slots of pool {task.pool!r}"
            if task.max_active_tis_per_dag is None:
                return parallelism_reached(self._parallelism)
            return (
                f"max_active_tis_per_dag = {task.max_active_tis_per_dag}: other runs have as many of {task_id} active"
            )
        return (
            f"max_active_tasks = {self._spec.max_active_tasks} is reached: "
            f"{self._busy} tasks of this run are queued or running"
        )


def parallelism_reached(parallelism: int | None) -> str:
    """What a task waits for that only the installation's limit keeps from starting."""
    return f"parallelism = {parallelism} is reached: as many tasks of all DAGs are queued or running"
