"""DAG files in the process of who asks: what tests of DAGs use (Airflow: DagBag)."""

from __future__ import annotations

from pathlib import Path

from ...activities.dag_files import find_dag_files, root_of
from ...activities.work.dag_code import import_dags
from ...model.authoring.dags import DAG
from ...model.errors import InvalidInputError


def load_dags(path: str | Path) -> dict[str, DAG]:
    """Import the DAGs of a file, or of all DAG files of a folder, by dag_id.

    Raises InvalidInputError that names each file which cannot be imported, with its reason, and ids that two files
    give. Files of Airflow's packages are imported where this Python has those.
    """
    place = Path(path)
    if not place.exists():
        raise InvalidInputError(f"{place} is not there. Name a DAG file, or a folder of them")
    root = place.resolve() if place.is_dir() else root_of(place)
    found: dict[str, DAG] = {}
    problems: list[str] = []
    for file in find_dag_files(place):
        try:
            dags = import_dags(file, [root], shortens=False)
        except (Exception, SystemExit) as error:  # the file's own
            problems.append(f"{file.relative_to(root)}: {type(error).__name__}: {error}")
            continue
        problems += [
            f"{file.relative_to(root)}: DAG {made.dag_id!r} is there already" for made in dags if made.dag_id in found
        ]
        found |= {made.dag_id: made for made in dags}
    if problems:
        raise InvalidInputError("; ".join(problems))
    return found
