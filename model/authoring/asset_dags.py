"""`@asset`: a function that is a DAG of one task, which writes the asset of its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, cast

from .assets import Asset, AssetRef
from .dags import DAG
from .decorators import task


class _AssetDecorator:
    """`@asset(schedule=...)`, and `@asset.multi(outlets=[...])` for several assets (Airflow: asset)."""

    def __call__(
        self,
        *,
        schedule: Any = None,
        name: str | None = None,
        uri: str | None = None,
        group: str = "asset",
        extra: dict[str, Any] | None = None,
        **options: Any,
    ) -> Callable[[Callable[..., Any]], Asset]:
        """Arguments of the function are assets that it reads, apart from `self`, `context` and `outlet_events`."""

        def made(function: Callable[..., Any]) -> Asset:
            written = Asset(name or function.__name__, uri, group=group, extra=extra)
            _make_dag(function, [written], schedule, written.name, options)
            return written

        return made

    def multi(
        self, *, outlets: Sequence[Any], schedule: Any = None, **options: Any
    ) -> Callable[[Callable[..., Any]], DAG]:
        """A DAG of the function's name that writes all of *outlets*."""
        return lambda function: _make_dag(function, outlets, schedule, function.__name__, options)


asset: _AssetDecorator = _AssetDecorator()


def _make_dag(
    function: Callable[..., Any], outlets: Sequence[Any], schedule: Any, dag_id: str, options: dict[str, Any]
) -> DAG:
    parameters = inspect.signature(function).parameters.values()
    read = [p.name for p in parameters if p.default is p.empty and p.name not in ("self", "context", "outlet_events")]
    given = {name: AssetRef(name=name) for name in read}

    def run(**context: Any) -> Any:
        special = {"self": outlets[0], "context": context, "outlet_events": context["outlet_events"]}
        return function(**given, **{p.name: special[p.name] for p in parameters if p.name in special})

    update_wrapper(run, function)
    everything = inspect.Parameter("context", inspect.Parameter.VAR_KEYWORD)
    cast(Any, run).__signature__ = inspect.Signature([everything])
    with DAG(dag_id, schedule=schedule, **{"catchup": False, **options}) as made:
        task(task_id=function.__name__, outlets=list(outlets), inlets=[*given.values()])(run)()
    return made
