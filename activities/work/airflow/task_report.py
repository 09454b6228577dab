"""What a task that Airflow's Task SDK runs has told so far."""

from dataclasses import dataclass, field
from typing import Any

from ....model.run.forms import InputForm

LINKS = "_link_"
"""How results begin that only lead to pages of other systems."""


@dataclass
class TaskReport:
    """What a try has left, and how it says that it has ended."""

    xcom: dict[str, Any] = field(default_factory=dict)
    """Results as Airflow's serde writes them."""
    deleted: set[str] = field(default_factory=set)
    lengths: dict[str, int] = field(default_factory=dict)
    """How many values there are in results that others may be mapped over, by key."""
    skips: list[str] = field(default_factory=list)
    """The tasks directly downstream that are not to run."""
    form: InputForm | None = None
    end: dict[str, Any] | None = None
    """The message by which it has ended, or has left its worker."""
    other_run: str | None = None
    """What was last heard of a run that the task has started, or wanted to: why it fails where it does not say so."""
    rendered: dict[str, Any] = field(default_factory=dict)
    map_label: str | None = None

    @property
    def results(self) -> dict[str, Any]:
        """What others may use."""
        return {key: value for key, value in self.xcom.items() if not key.startswith(LINKS)}
