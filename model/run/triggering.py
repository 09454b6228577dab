"""What a worker is asked to watch for on behalf of a try that has left it."""

from ..base import Model
from .attempts import TaskAttempt
from .deferrals import Deferral


class TriggerQuestion(Model):
    """The trigger of a try."""

    attempt: TaskAttempt
    deferral: Deferral
