"""Results of tasks. Those that an argument names were sent along, all others are asked for."""

import json
from typing import Any

from .....model.errors import InvalidInputError
from .....model.run.facts import Question
from . import Answering, Asking, Message, missing


def _set(asking: Asking, message: Message) -> Message | None:
    run, task = asking.attempt.run, asking.attempt.task
    if (message["dag_id"], message["run_id"], message["task_id"]) != (run.dag_id, run.run_id, task.task_id):
        raise InvalidInputError(f"results of {message['task_id']!r} are its own: a task can set none but its own")
    try:
        json.dumps(message["value"], allow_nan=False, ensure_ascii=False, default=str).encode()
    except ValueError as error:
        raise InvalidInputError(f"the result {message['key']!r} is not JSON: {error}. Return plain data") from None
    asking.report.xcom[message["key"]] = message["value"]
    asking.report.deleted.discard(message["key"])
    if message.get("mapped_length") is not None:
        asking.report.lengths[message["key"]] = message["mapped_length"]
    return None


def _delete(asking: Asking, message: Message) -> None:
    asking.report.xcom.pop(message["key"], None)
    asking.report.deleted.add(message["key"])


def _get(asking: Asking, message: Message) -> Message:
    index = message.get("map_index")
    values = _values(asking, message)
    value = values.get(-1 if index is None else index)
    return {"type": "XComResult", "key": message["key"], "value": value}


def _count(asking: Asking, message: Message) -> Message:
    return {"type": "XComCountResponse", "len": len(_in_order(asking, message))}


def _item(asking: Asking, message: Message) -> Message:
    values = _in_order(asking, message)
    try:
        return {"type": "XComSequenceIndexResult", "root": values[message["offset"]]}
    except IndexError:
        return missing("XCOM_NOT_FOUND", task_id=message["task_id"], key=message["key"], offset=message["offset"])


def _slice(asking: Asking, message: Message) -> Message:
    part = slice(message["start"], message["stop"], message["step"])
    return {"type": "XComSequenceSliceResult", "root": _in_order(asking, message)[part]}


def _in_order(asking: Asking, message: Message) -> list[Any]:
    values = _values(asking, message)
    return [values[index] for index in sorted(values)]


def _values(asking: Asking, message: Message) -> dict[int, Any]:
    """By map_index: what the instances of a task have left under a key; -1 stands for an unmapped one."""
    key, task_id = message["key"], message["task_id"]
    if asking.is_own(message):
        own = _own(asking, task_id, key)
        if own is not None:
            return own
        if (sent := asking.attempt.xcom.get(task_id)) is not None:
            return {-1: sent[key]} if key in sent else {}
    question = Question(
        about="xcom",
        dag_id=message["dag_id"],
        run_id=message["run_id"],
        task_ids=(task_id,),
        key=key,
        of_workflow=asking.attempt.run.workflow_id if asking.is_own(message) else None,
        include_prior_dates=bool(message.get("include_prior_dates")),
        until=asking.attempt.run.logical_date,
    )
    return {int(index): value for index, value in asking.worker.facts(question).items()}


def _own(asking: Asking, task_id: str, key: str) -> dict[int, Any] | None:
    """What this try has left itself."""
    if task_id != asking.attempt.task.task_id:
        return None
    if key in asking.report.deleted:
        return {}
    if key in asking.report.xcom:
        return {asking.attempt.map_index: asking.report.xcom[key]}
    return None


ANSWERS: dict[str, Answering] = {
    "SetXCom": _set,
    "DeleteXCom": _delete,
    "GetXCom": _get,
    "GetXComCount": _count,
    "GetXComSequenceItem": _item,
    "GetXComSequenceSlice": _slice,
}
