"""What Airflow's audit log calls each operation of its public API, as JSON. For the Python with Airflow."""

import json
from typing import Any

from airflow.api_fastapi.core_api.routes.public import public_router  # type: ignore[import-not-found]


def is_logged(dependency: Any) -> bool:
    name = getattr(dependency.call, "__qualname__", "")
    return "action_logging" in name or any(map(is_logged, dependency.dependencies))


found = {
    f"{method} /api/v2{route.path.removeprefix('/api/v2')}": route.endpoint.__name__
    for route in public_router.routes
    if is_logged(route.dependant)
    for method in route.methods
}
print(json.dumps(found))
