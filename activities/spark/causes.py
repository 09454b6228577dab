"""Why spark-submit has failed, found in what it has printed: the sentence that says it, and not the last line."""

import re
from collections.abc import Sequence

FIRST = (
    re.compile(r"^(Fatal Python error: .+)"),
    re.compile(r"^Message: (.+)"),  # of Kubernetes' API
    re.compile(r"^Error: (.+)"),  # of spark-submit itself
    re.compile(r"(All masters are unresponsive.*)"),
    re.compile(r"^Caused by: (.+)"),
    re.compile(r"^(?:Exception in thread .*? )?((?:[\w$]+\.)+[\w$]*(?:Exception|Error)\b.*)"),
    re.compile(r"(.*(?:Exception|Error)\b.*)"),
)
"""What is looked for, the first that is found anywhere; of several lines of one kind, the last: the deepest cause."""
CHATTER = re.compile(r" (?:WARN|INFO|DEBUG|TRACE) [\w.$]+: |^\[tidemill\] application ")
"""Lines of Spark's log, and tidemill's own, that tell of no failure."""
LONGEST = 1500
REFUSALS = re.compile(
    r"is forbidden|error looking up service account|unknown queue|above the max(imum)? threshold"
    r"|Invalid resource request|does not have permission|cannot submit applications|is invalid:"
    r"|When running with master .* must be set|Must specify the driver container image|Please specify spark\."
    r"|doesn't have a resource type|no matches for kind"  # of an operator that is not installed
    r"|Only one of --proxy-user|namespaces \S+ not found",
    re.IGNORECASE,
)
"""What a cluster says where asking again changes nothing."""
PASSING = re.compile(r"exceeded quota|status unknown for quota", re.IGNORECASE)
"""Says that it is refused now: others give room."""
FUTILE = re.compile(r"used: (?:[\w./-]+=0[a-zA-Z]*,?)+ ?,? ?limited:", re.IGNORECASE)
"""Says that nobody has any of a quota, and it is not enough: there is nobody to wait for."""


def cause_of(lines: Sequence[str]) -> str:
    """The line among *lines* that says why; the last one that is not empty where none does."""
    for pattern in FIRST:
        found = [match[1].strip() for line in lines if (match := pattern.search(line.strip()))]
        if found:
            return found[-1][:LONGEST]
    words = [line.strip() for line in lines if line.strip() and not CHATTER.search(line)]
    if words:
        return words[-1][:LONGEST]
    return "what it printed does not say why" if lines else "it printed nothing"


def is_refusal(cause: str) -> bool:
    """Return whether *cause* is one that no other start of the same try overcomes."""
    return REFUSALS.search(cause) is not None and not waits_for_others(cause)


def waits_for_others(cause: str) -> bool:
    """Return whether *cause* passes when others give room."""
    return PASSING.search(cause) is not None and FUTILE.search(cause) is None
