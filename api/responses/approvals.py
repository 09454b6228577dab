"""What a person is asked by a task, or was."""

from collections.abc import Sequence
from typing import Any

from ...model.run.changes import form_of
from ...model.run.forms import InputForm
from ...model.run.views import TaskView
from ...model.spec.dag import DagSpec
from ...model.spec.tasks import ApprovalTask
from ...model.states import TaskState
from .tasks import ShownRun, instance_answer


def _form_in(spec: DagSpec | None, view: TaskView) -> InputForm | None:
    """What a person is asked by the task, or was; None: nobody is asked anything, or not yet."""
    if view.response is not None:
        return view.response.form
    task = spec.by_id.get(view.task_id) if spec is not None else None
    if not isinstance(task, ApprovalTask):
        return view.form
    if view.form is not None:
        return form_of(task, view.form.subject)
    return form_of(task, view.why if view.state is TaskState.AWAITING_INPUT else None)  # its worker is of release 0.2


def detail_of(shown: ShownRun, view: TaskView) -> dict[str, Any] | None:
    """Return what a person is asked by a task, or was, and the answer; None: nobody is asked (Airflow: HITLDetail)."""
    form, response = _form_in(shown.spec, view), view.response
    if form is None:
        return None
    return {
        "options": list(form.options),
        "subject": form.subject,
        "body": form.body,
        "defaults": list(form.defaults) if form.defaults is not None else None,
        "multiple": form.multiple,
        "params": form.params,
        "assigned_users": [{"id": name, "name": name} for name in form.assigned_users],
        "created_at": (view.started_at or view.queued_at or shown.run.run_after).isoformat(),
        "responded_by_user": user_named(response.by) if response is not None else None,
        "responded_at": response.at.isoformat() if response is not None else None,
        "chosen_options": list(response.chosen) if response is not None else None,
        "params_input": response.params if response is not None else {},
        "response_received": response is not None or view.state is TaskState.SUCCESS,
        "task_instance": instance_answer(shown, view).model_dump(mode="json"),
    }


def user_named(name: str | None) -> dict[str, str] | None:
    """Return the user of that name as Airflow's answers have one."""
    return {"id": name, "name": name} if name else None


def details_of(shown: ShownRun, views: Sequence[TaskView]) -> list[dict[str, Any]]:
    """Return the same of each task of a run that has begun."""
    return [one for view in views if view.started_at is not None and (one := detail_of(shown, view)) is not None]
