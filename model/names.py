"""What things may be called, by Airflow's rules."""

from typing import Annotated

from pydantic import AfterValidator, Field

from .errors import InvalidInputError

NAME = r"^[\w.\-]*[\w\-][\w.\-]*$"
"""What DAGs, tasks and bundles may be called: Airflow's rule, but for `.` and `..`, which no path can name."""
LIMIT = "limit:"
"""Begins the names of pools that are limits: their slots are set by DAGs and settings, not by people."""
LONGEST_POOL = 256


def check_pool_name(name: str) -> str:
    """Return *name*: one line of text (Airflow: Pool.pool). Raises InvalidInputError where no pool can have it."""
    if name.startswith(LIMIT):
        raise InvalidInputError(
            f"{name!r} is a limit and no pool. Set max_active_tis_per_dag of its task, or the setting parallelism"
        )
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_POOL:
        raise InvalidInputError(
            f"pool name {name[:80]!r}: a name is one line of at most {LONGEST_POOL} characters. Choose another"
        )
    return name


PoolName = Annotated[str, Field(min_length=1, max_length=LONGEST_POOL), AfterValidator(check_pool_name)]
