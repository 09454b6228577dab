"""How large what people hand in may be. Temporal carries two megabytes in one piece, and each piece travels often."""

import gzip
import json
from collections.abc import Sequence
from typing import Any

from .errors import InvalidInputError

CONF_LIMIT = 32 * 1024
"""Bytes of a run's conf, as JSON: every task of the run is given it."""
CONFS_LIMIT = 1_000_000
"""Bytes of conf of all the runs of a DAG that are queued or running."""
TRIGGERS_LIMIT = 200_000
"""Bytes of a request for runs, as JSON: it travels in one piece with the DAG."""
SPEC_LIMIT = 1_800_000
"""Bytes of a DAG, as JSON and compressed."""


def json_size(value: Any) -> int:
    """Bytes of *value* as JSON."""
    return len(json.dumps(value, default=str).encode())


def check_conf_size(conf: dict[str, Any], runs: int = 1) -> None:
    """Raises InvalidInputError for a conf that is too large for a run, or for *runs* of a DAG at once.

    Only what is asked for is held against this: what a release before has taken on stays readable.
    """
    size = json_size(conf)
    if size > CONF_LIMIT:
        raise InvalidInputError(
            f"conf has {size:,} bytes as JSON, and a run's conf may have {CONF_LIMIT:,}. "
            "Keep the data elsewhere, and give its address"
        )
    if conf and size * runs > CONFS_LIMIT:
        raise InvalidInputError(
            f"conf: {runs} runs at once have {size * runs:,} bytes of it, and the runs of a DAG may have "
            f"{CONFS_LIMIT:,}. Shorten it, or lower max_active_runs"
        )


def check_triggers_size(requests: Sequence[Any]) -> None:
    """Raises InvalidInputError for more than one piece carries."""
    size = json_size(requests)
    if size > TRIGGERS_LIMIT:
        remedy = "Shorten its conf" if len(requests) == 1 else "Ask for fewer runs at a time"
        raise InvalidInputError(
            f"the request for {len(requests)} runs has {size:,} bytes as JSON, and may have {TRIGGERS_LIMIT:,}. "
            f"{remedy}"
        )


def check_spec_size(dag_id: str, document: str) -> None:
    """Raises InvalidInputError for a DAG that Temporal would not carry. *document* is its JSON."""
    if len(document) <= SPEC_LIMIT:
        return
    size = len(gzip.compress(document.encode(), 3))
    if size > SPEC_LIMIT:
        raise InvalidInputError(
            f"DAG {dag_id!r} has {size:,} bytes, compressed, and may have {SPEC_LIMIT:,}. "
            "Keep long texts (doc_md, commands, arguments) in files, or make several DAGs of it"
        )
