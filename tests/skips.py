"""What a run of the tests has left out, why, and the command that would bring it: told at the end of each run.

In CI a test may be left out only for a reason that is listed here.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Known:
    """A reason for which tests may be left out. *in_ci*: also in CI, which installs what the others lack."""

    pattern: str
    command: str
    in_ci: bool = False


KNOWN = (
    Known(r"no Chromium on this host", "apt-get install chromium"),
    Known(r"PostgreSQL's server is not installed", "apt-get install postgresql"),
    Known(r"no compose client is installed", "apt-get install docker-compose", in_ci=True),
    Known(r"needs root to become another user", "run the tests as root", in_ci=True),
    Known(r"needs root, iproute2 and the right to make", "run the tests as root, with iproute2", in_ci=True),
    Known(r"needs root and the right to mount", "run the tests as root", in_ci=True),
    Known(r"needs root and a memory control group", "run the tests as root", in_ci=True),
    Known(r"Kubernetes' API is not built", "make clusters", in_ci=True),
    Known(r"the Spark operator is not built", "make clusters", in_ci=True),
    Known(r"other releases of Spark are not here", "make sparks", in_ci=True),
    Known(r"YARN's jars are not here", "make clusters", in_ci=True),
    Known(r"libfaketime is not installed", "apt-get install faketime", in_ci=True),
    Known(r"Airflow is not there", "make .venv-airflow/.ready"),
    Known(r"npm is not installed", "apt-get install npm", in_ci=True),
    Known(r"(Airflow's sources are|Playwright is) not here", "registries of packages", in_ci=True),
    Known(r"the Temporal CLI is not beside this Python", "make env"),
    Known(r"cannot be fetched", "a package index"),
    Known(r"the seeds were not run in this process", "make test ARGS=tests/dst", in_ci=True),
)


def known_reason(text: str) -> Known | None:
    """The entry of the list for the reason of a skip."""
    return next((known for known in KNOWN if re.search(known.pattern, text)), None)


def unexpected(reasons: Iterable[str], *, in_ci: bool) -> list[str]:
    """The reasons that are not allowed: none that is listed, or in CI one that CI could have avoided."""
    found = []
    for reason in reasons:
        known = known_reason(reason)
        if in_ci and (known is None or not known.in_ci):
            found.append(reason)
    return found


def skipped(reports: Iterable[pytest.TestReport]) -> dict[str, list[str]]:
    """Tests by the reason for which they were left out."""
    found: dict[str, list[str]] = defaultdict(list)
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        found[reason.removeprefix("Skipped: ")].append(report.nodeid)
    return dict(found)


def lines(found: dict[str, list[str]]) -> list[str]:
    """What is printed: each reason, how many tests it has left out, and what would bring them."""
    told = []
    for reason, tests in sorted(found.items()):
        known = known_reason(reason)
        told.append(f"{len(tests)} left out: {reason}; {known.command if known else 'no command is known'}")
    return told


def is_ci() -> bool:
    return os.environ.get("CI", "").lower() == "true"
