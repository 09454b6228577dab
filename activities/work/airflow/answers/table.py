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


def answer(asking: Asking, message: Message) -> Message | None:
    """The answer to *message*. Raises InvalidInputError for a message that nobody answers, or cannot now."""
    found = ANSWERS.get(message["type"])
    if found is None:
        raise InvalidInputError(f"Airflow's Task SDK has asked {message['type']}, which is not answered here")
    return found(asking, message)
