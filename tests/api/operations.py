"""The operations that the API has, and which of them answers a path."""

from typing import Any

from fastapi import FastAPI

METHODS = ("get", "post", "put", "patch", "delete")


def operations(app: FastAPI) -> list[tuple[str, str, dict[str, Any]]]:
    paths = app.openapi()["paths"]
    return [
        (method, path, found) for path, item in paths.items() for method, found in item.items() if method in METHODS
    ]


def template_of(path: str, app: FastAPI) -> str:
    """The path of the operation that answers *path*: the one with the fewest parameters."""
    parts = path.partition("?")[0].split("/")
    fits = []
    for _, known, _ in operations(app):
        names = known.split("/")
        if len(names) == len(parts) and all(n == p or n.startswith("{") for n, p in zip(names, parts, strict=True)):
            fits.append(known)
    return min(fits, key=lambda known: known.count("{"), default=path)
