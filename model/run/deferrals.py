"""A try that has left its worker to wait for something, and how it goes on (Airflow: deferral)."""

from datetime import datetime, timedelta
from typing import Any

from ..base import Instant, Model, OmitDefaults
from .forms import InputForm

UNWATCHED_FOR = timedelta(minutes=1)
FAIL = "__fail__"
"""The method by which a task hears that its wait has failed (Airflow's name)."""
FAILED_BY_TRIGGER = "__failed_by_trigger__"
"""Where a trigger has failed its task: nothing of that is called but its callbacks."""


class Deferral(OmitDefaults, Model):
    """What a try waits for, and the method that it goes on with. Values are as Airflow's serde writes them."""

    next_method: str
    next_kwargs: dict[str, Any] = {}
    trigger: str | None = None
    """The trigger's class, as `package.module.Class`; None: a person is waited for."""
    trigger_kwargs: dict[str, Any] = {}
    moment: Instant | None = None
    """Where the trigger only waits for a moment: that is a timer, and needs no process."""
    event: Any = None
    """What the trigger says then."""
    ends_task: bool = False
    """Whether the task has succeeded then, without going on."""
    timeout_at: Instant | None = None
    form: InputForm | None = None
    since: Instant | None = None
    """When the try began."""

    @property
    def alarm(self) -> datetime | None:
        """When a timer is to wake it: at its moment, or when it has waited too long.

        Who watches a trigger minds the time himself; the timer is for triggers that nobody watches.
        """
        if self.trigger is not None and self.moment is None:
            return None if self.timeout_at is None else self.timeout_at + UNWATCHED_FOR
        known = [at for at in (self.moment, self.timeout_at) if at is not None]
        return min(known, default=None)

    def woken(self, event: Any) -> "Deferral":
        """How the try goes on after *event*."""
        return self.model_copy(update={"next_kwargs": {**self.next_kwargs, "event": event}})

    def failed(self, error: str, traceback: tuple[str, ...] = ()) -> "Deferral":
        """How the try goes on where nothing came of the wait: it hears of it, and fails by itself."""
        kwargs = {"error": error, "traceback": [*traceback] or None}
        return self.model_copy(update={"next_method": FAIL, "next_kwargs": kwargs})

    def failed_by_trigger(self) -> "Deferral":
        """How the try goes on whose trigger has failed it."""
        return self.model_copy(update={"next_method": FAILED_BY_TRIGGER, "next_kwargs": {}})


class TriggerEnd(Model):
    """What has come of a trigger."""

    event: Any = None
    ended: str | None = None
    """The state that the task has by that: success, failed or skipped."""
    xcom: dict[str, Any] = {}
    error: str | None = None
    traceback: tuple[str, ...] = ()
