"""Which function answers which message."""

from .....model.errors import InvalidInputError
from . import Answering, Asking, Message, assets, runs, secrets, stores, telling, xcom

ANSWERS: dict[str, Answering] = {
    **telling.ANSWERS,
    **xcom.ANSWERS,
    **secrets.ANSWERS,
    **runs.ANSWERS,
    **assets.ANSWERS,
    **stores.ANSWERS,
}
ANSWERED_ELSEWHERE = ("ResendLoggingFD",)
"""What the wire answers itself."""
REFUSED = ("UpdateHITLDetail", "GetHITLDetailResponse")
"""What only triggers of earlier releases of Airflow ask."""


LOOKED_AT = {
    "GetAssetByName": ("ASSET_NOT_FOUND",),
    "GetAssetByUri": ("ASSET_NOT_FOUND",),
    "GetAssetStateStoreByName": ("ASSET_STORE_NOT_FOUND",),
    "GetAssetStateStoreByUri": ("ASSET_STORE_NOT_FOUND",),
    "GetConnection": ("CONNECTION_NOT_FOUND", "PERMISSION_DENIED"),
    "GetTaskStateStore": ("TASK_STORE_NOT_FOUND",),
    "GetVariable": ("VARIABLE_NOT_FOUND", "PERMISSION_DENIED"),
    "GetXComSequenceItem": ("XCOM_NOT_FOUND",),
    "TriggerDagRun": ("DAGRUN_ALREADY_EXISTS",),
}
"""Which errors Airflow's SDK looks at itself where they are answers. Any other has to be raised in the task."""


def answer(asking: Asking, message: Message) -> Message | None:
    """The answer to *message*. Raises InvalidInputError for a message that nobody answers, or cannot now.

    What is raised here is raised in the task, where it asks.
    """
    found = ANSWERS.get(message["type"])
    if found is None:
        raise InvalidInputError(f"Airflow's Task SDK has asked {message['type']}, which is not answered here")
    reply = found(asking, message)
    is_error = reply is not None and reply["type"] == "ErrorResponse"
    if reply is not None and is_error and reply["error"] not in LOOKED_AT.get(message["type"], ()):
        raise InvalidInputError(f"{message['type']}: {reply['error']}, {reply['detail']}")
    return reply
