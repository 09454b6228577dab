"""How long a server takes for its pages."""

import asyncio
import time
from collections.abc import Mapping
from statistics import median, quantiles

import httpx
from figures import Figure

ROUNDS = 100


async def page_times(
    url: str, paths: Mapping[str, str], beside: str, headers: Mapping[str, str] | None = None
) -> list[Figure]:
    """Each path asked for many times, one after another."""
    figures = []
    async with httpx.AsyncClient(base_url=url, timeout=120, headers=headers) as web:
        for name, path in paths.items():
            took = []
            for _ in range(ROUNDS + 1):
                start = time.perf_counter()
                (await web.get(path)).raise_for_status()
                took.append(1000 * (time.perf_counter() - start))
                await asyncio.sleep(0.05)
            first, *took = took
            figures.append(Figure(f"{name}, {beside}: the first time", "ms", first))
            figures.append(Figure(f"{name}, {beside}: p50", "ms", median(took)))
            figures.append(Figure(f"{name}, {beside}: p99", "ms", quantiles(took, n=100)[-1]))
    return figures
