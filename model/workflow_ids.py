"""How long a workflow's id may be, and what becomes of a longer one."""

from hashlib import sha256

LONGEST = 255
"""In characters: what a Temporal service on PostgreSQL or MySQL has room for. A longer one stands there for ever."""
SHORTENED = "~"
"""Before the digest of a shortened name; no name of a DAG, task, pool or bundle has it."""
LONGEST_DAG = 210
"""A longer dag_id is shortened where the whole does not fit, so that there is room for what comes after it."""


def quoted(text: str) -> str:
    """Return *text* as a literal of a query of Temporal's visibility."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def bounded(text: str, limit: int = LONGEST) -> str:
    """Return *text*, or where it is longer than *limit*, which is at least 17, its beginning and a digest of it."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - 17]}{SHORTENED}{sha256(text.encode()).hexdigest()[:16]}"


def of_dag(kind: str, dag_id: str, rest: str) -> str:
    """Return the id of what belongs to a DAG: *kind*, the DAG and what it is, with parts shortened that are too long.

    The dag_id stays whole as long as there is room for the rest, since such ids are looked for by it.
    """
    whole = f"{kind}:{dag_id}:{rest}"
    if len(whole) <= LONGEST:
        return whole
    begin = f"{kind}:{bounded(dag_id, LONGEST_DAG)}:"
    return begin + bounded(rest, LONGEST - len(begin))


def beginnings_of(kind: str, dag_id: str) -> tuple[str, ...]:
    """Return what the ids of `of_dag` begin with, of any rest."""
    return tuple(dict.fromkeys((f"{kind}:{dag_id}:", f"{kind}:{bounded(dag_id, LONGEST_DAG)}:")))
