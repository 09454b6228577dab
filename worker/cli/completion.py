"""The arguments that name a DAG, a run or a task; a shell completes them from the server that commands would ask."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated

import typer

from ..client import Tidemill

TIMEOUT = 2.0
"""Seconds; somebody waits with a finger on the key."""


def dag_ids(incomplete: str) -> list[str]:
    """The dag_ids that begin so."""

    async def names(tidemill: Tidemill) -> Iterable[str]:
        rows, broken = await tidemill.dags.list()
        return [*(row.dag_id for row in rows), *broken]

    return matching(names, incomplete)


def run_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """The run_ids of the DAG that was named, and `latest`."""
    dag_id = ctx.params.get("dag_id")

    async def names(tidemill: Tidemill) -> Iterable[str]:
        return ["latest", *(run.run_id for run in await tidemill.runs.list(str(dag_id)))]

    return matching(names, incomplete) if dag_id else []


def task_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """The task_ids of the DAG that was named."""
    dag_id = ctx.params.get("dag_id")

    async def names(tidemill: Tidemill) -> Iterable[str]:
        return [task.task_id for task in (await tidemill.dags.spec(str(dag_id))).tasks]

    return matching(names, incomplete) if dag_id else []


def matching(names: Callable[[Tidemill], Awaitable[Iterable[str]]], incomplete: str) -> list[str]:
    """The names that begin with *incomplete*; none where nobody answers in time."""

    async def ask() -> Iterable[str]:
        async with asyncio.timeout(TIMEOUT):
            return await names(await Tidemill.connect())

    try:
        found = asyncio.run(ask())
    except Exception:  # a shell that completes has no place for an error
        return []
    return sorted(dict.fromkeys(name for name in found if name.startswith(incomplete)))


DagId = Annotated[str, typer.Argument(help="The DAG's id.", autocompletion=dag_ids)]
AnyDagId = Annotated[str | None, typer.Argument(help="The DAG's id; none: of every DAG.", autocompletion=dag_ids)]
RunId = Annotated[str, typer.Argument(help="The run's id, or `latest`.", autocompletion=run_ids)]
TaskId = Annotated[str, typer.Argument(help="The task's id.", autocompletion=task_ids)]
Task = Annotated[str, typer.Argument(help="The task's id, or an instance such as load[3].", autocompletion=task_ids)]
Tasks = Annotated[
    list[str] | None,
    typer.Argument(help="task_ids, or instances such as load[3]; none: all.", autocompletion=task_ids),
]
