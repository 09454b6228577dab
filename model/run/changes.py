"""What a person's request means for a run: which instances take which state. Decided from the run's state alone."""

from collections.abc import Collection, Iterable

from ..base import Model
from ..errors import InvalidInputError
from ..spec.dag import DagSpec
from ..spec.graph import ancestors
from ..spec.references import RETURN_VALUE
from ..spec.tasks import ApprovalTask, BaseTask
from ..states import FAILURES, WAITS, TaskState
from .forms import InputForm, check_choice
from .identity import RunIdentity
from .instance_keys import split_key
from .messages import Answer
from .revisions import ClearRequest, MarkRequest, RunMark, selected, to_clear
from .state import DagRunState, queued_state
from .task_instances import Failure, Outcome, TaskInstance


class Change(Model):
    """The states that instances are to take, and mapped tasks that are to be expanded anew."""

    states: dict[str, TaskState]
    collapse: tuple[str, ...] = ()
    reason: str


def cleared(state: DagRunState, request: ClearRequest) -> Change:
    """Those instances run again. What is mapped over values that are made anew is expanded anew.

    Raises InvalidInputError.
    """
    keys = to_clear(state.spec, state.states, request)
    tasks = {split_key(key)[0] for key in keys}
    scopes = {
        state.spec.map_scopes[task_id]
        for task_id in tasks & set(state.spec.mapped)
        if tasks & set(state.spec.mapped_over(task_id))
    }
    collapse = [task_id for task_id, scope in state.spec.map_scopes.items() if scope in scopes]
    for task_id in collapse:
        busy = [
            instance.key
            for instance in state.of_task(task_id)
            if instance.state.holds_a_worker or instance.state is TaskState.RESTARTING
        ]
        if busy:
            raise InvalidInputError(
                f"{', '.join(busy[:5])} still run, and would be mapped over other values. Mark them first, or wait"
            )
    return Change(states=dict.fromkeys(keys, TaskState.NONE), collapse=tuple(collapse), reason="cleared")


def marked(state: DagRunState, request: MarkRequest) -> Change:
    """Those instances take the state of the request. Raises InvalidInputError."""
    keys = selected(state.spec, state.states, request)
    return Change(states=dict.fromkeys(keys, request.state), reason=f"marked {request.state}")


def that_fit(spec: DagSpec, marks: Iterable[MarkRequest]) -> list[MarkRequest]:
    """Return *marks* of whole tasks without those of tasks that *spec* has no more: they were another version's."""
    known = [mark.of_tasks(task for task in mark.tasks if task in spec.by_id) for mark in marks]
    return [mark for mark in known if mark.tasks]


def without_tasks(marks: Iterable[MarkRequest], tasks: Collection[str]) -> list[MarkRequest]:
    """Return *marks* of whole tasks without those of *tasks*."""
    left = [mark.of_tasks(task for task in mark.tasks if task not in tasks) for mark in marks]
    return [mark for mark in left if mark.tasks]


def marked_while_queued(run: RunIdentity, spec: DagSpec, marks: Iterable[MarkRequest]) -> DagRunState:
    """Return how a run stands that has not begun, some of whose tasks are marked."""
    state = queued_state(run, spec)
    for mark in that_fit(spec, marks):
        change = marked(state, mark)
        for key, end in change.states.items():
            state.instances[key].state, state.instances[key].reason = end, change.reason
    return state


def whole_tasks(state: DagRunState, keys: Iterable[str]) -> list[str]:
    """Return the tasks whose instances *keys* are.

    Raises InvalidInputError for some of a mapped task's: those are made when the run begins.
    """
    tasks = list(dict.fromkeys(split_key(key)[0] for key in keys))
    left = {split_key(key)[0] for key in state.states.keys() - {*keys}}
    if parts := [task for task in tasks if task in left]:
        raise InvalidInputError(
            f"{', '.join(parts)}: the run has not begun, and makes the instances then. Name all of them, or the task"
        )
    return tasks


def resumed(state: DagRunState, request: MarkRequest) -> Change:
    """What has failed downstream of instances that a person marks begins anew: the run goes on there (as in Airflow).

    Raises InvalidInputError.
    """
    marked_keys = {*selected(state.spec, state.states, request)}
    below = {other for key in marked_keys for other in ancestors(state.spec.downstreams, split_key(key)[0])}
    failed = [
        key
        for key, old in state.states.items()
        if old in FAILURES and key not in marked_keys and split_key(key)[0] in below
    ]
    return Change(states=dict.fromkeys(failed, TaskState.NONE), reason=f"cleared: upstream was marked {request.state}")


def keeps_times(state: DagRunState, mark: MarkRequest | None, mark_run: RunMark | None) -> bool:
    """Whether a change only says how a run that has ended did end: its times stay (as in Airflow).

    Raises InvalidInputError.
    """
    return mark_run is not None or (mark is not None and not resumed(state, mark).states)


def run_marked(state: DagRunState, mark: RunMark, *, keeps_teardowns: bool = False) -> Change:
    """Tasks that run, or wait for something, take the state of the run; what has ended keeps its own (as in Airflow).

    With *keeps_teardowns* the teardowns go on.
    """
    under_way = [key for key, old in state.states.items() if old.holds_a_worker or old in WAITS]
    ends = dict.fromkeys(under_way, TaskState(mark.state))
    if keeps_teardowns:
        ends = {key: end for key, end in ends.items() if not state.spec.by_id[split_key(key)[0]].is_teardown}
    return Change(states=ends, reason=f"the run was marked {mark.state}")


def form_of(task: ApprovalTask, subject: str | None = None) -> InputForm:
    """Return what a person is asked by a task of tidemill's own; *subject*: what its template came to."""
    return InputForm(
        subject=task.subject if subject is None else subject,
        options=task.options,
        body=task.doc_md,
        defaults=task.defaults,
        multiple=task.multiple,
    )


def form_in(task: BaseTask, instance: TaskInstance) -> InputForm | None:
    """Return what a person is asked by an instance, or was and has not answered; None: nothing, or not yet."""
    if isinstance(task, ApprovalTask):
        return form_of(task, instance.subject) if instance.subject is not None else None
    deferral = instance.deferral
    return deferral.form if deferral is not None and deferral.form is not None else instance.form


def answer_of(task: ApprovalTask, answer: Answer, *, is_default: bool = False) -> Outcome | Failure:
    """What an answer makes of the task that waited for it. Raises InvalidInputError for one that is not offered.

    *is_default*: nobody has answered in time.
    """
    check_choice(form_of(task), answer)
    by = "default" if is_default else answer.by
    who = by or "somebody"
    if task.fail_on_reject and "Reject" in answer.chosen:
        return Failure(error_type="Rejected", message=f"rejected by {who}", retryable=False)
    chosen = {"chosen_options": list(answer.chosen), "params_input": answer.params, "responded_by": by}
    return Outcome(xcom={RETURN_VALUE: chosen}, note=f"answered by {who}")
