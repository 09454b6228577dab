"""What a task tells of itself: how it ends, what it skips, what it was rendered to."""

from collections.abc import Iterator
from typing import Any

from .....model.run.forms import InputForm
from ....secrets import is_sensitive
from ...rendered import shown
from . import Answering, Asking, Message


def _end(asking: Asking, message: Message) -> None:
    asking.report.end = message


def _rendered(asking: Asking, message: Message) -> None:
    asking.report.rendered = message["rendered_fields"]
    asking.worker.tell(rendered=shown(message["rendered_fields"]))


def _map_label(asking: Asking, message: Message) -> None:
    asking.report.map_label = message["rendered_map_index"]


def _skips(asking: Asking, message: Message) -> None:
    """Of a task in a mapped group the instances of its own index are meant, which the planner knows by itself."""
    for task in message["tasks"]:
        asking.report.skips.append(task if isinstance(task, str) else task[0])


def _mask(asking: Asking, message: Message) -> None:
    for secret in _secrets(message["value"], message.get("name")):
        asking.worker.tell(mask=secret)


def _secrets(value: Any, name: str | None) -> Iterator[str]:
    """What of *value* is secret: what has a name, only if that says so (as in Airflow)."""
    if isinstance(value, str):
        if name is None or is_sensitive(name):
            yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _secrets(part, key)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _secrets(part, name)


def _inlets_and_outlets(_asking: Asking, _message: Message) -> Message:
    return {"type": "InactiveAssetsResult", "inactive_assets": []}


def _first_poke(asking: Asking, _message: Message) -> Message:
    since = asking.attempt.waiting_since
    return {"type": "TaskRescheduleStartDate", "start_date": since.isoformat() if since is not None else None}


def _form(asking: Asking, message: Message) -> Message:
    asking.report.form = InputForm(
        subject=message["subject"],
        options=tuple(message["options"]),
        body=message.get("body"),
        defaults=tuple(message["defaults"]) if message.get("defaults") is not None else None,
        multiple=bool(message.get("multiple")),
        params=message.get("params") or {},
        assigned_users=tuple(
            dict.fromkeys(name for user in message.get("assigned_users") or () for name in (user["name"], user["id"]))
        ),
    )
    return {**message, "type": "HITLDetailRequestResult"}


ANSWERS: dict[str, Answering] = {
    **dict.fromkeys(("SucceedTask", "TaskState", "RetryTask", "RescheduleTask", "DeferTask", "AwaitInputTask"), _end),
    "SetRenderedFields": _rendered,
    "SetRenderedMapIndex": _map_label,
    "SkipDownstreamTasks": _skips,
    "MaskSecret": _mask,
    "ValidateInletsAndOutlets": _inlets_and_outlets,
    "GetTaskRescheduleStartDate": _first_poke,
    "CreateHITLDetailPayload": _form,
}
