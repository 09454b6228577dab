"""Has everything happen once before the first fork: what is loaded and built on first use is then there for all."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import tidemill

from ...model.base import build_models
from ...model.run.attempts import TaskAttempt
from ...model.run.identity import TriggerRequest, manual_run
from ...model.spec.dag import DagSource
from .dag_import import import_code
from .function import perform

DAG_FILE = Path(__file__).with_name("warm_up_dag.py")


def warm_up() -> None:
    """Imports a small DAG file and calls its function, with templates and results."""
    for name in tidemill.__all__:
        getattr(tidemill, name)
    build_models()
    path = [*sys.path]
    try:
        [dag] = import_code(DAG_FILE, ()).dags
    finally:
        sys.path[:] = path
    spec = dag.spec(source=DagSource(path=str(DAG_FILE), sha256="0" * 64))
    now = datetime.now(UTC)
    run = manual_run(spec.dag_id, spec.schedule, TriggerRequest(logical_date=now), now)
    for task in spec.tasks:
        written = TaskAttempt(run=run, task=task, try_number=1, source=spec.source).model_dump(mode="json")
        perform([dag], TaskAttempt.model_validate(json.loads(json.dumps(written))))
