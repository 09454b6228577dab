"""Tells OpenLineage of runs and tasks. Needs the extra `openlineage`; OPENLINEAGE_* variables configure it."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from queue import SimpleQueue

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    JobFacet,
    RunFacet,
    documentation_job,
    error_message_run,
    job_type_job,
    nominal_time_run,
    parent_run,
    processing_engine_run,
)

from ...activities.lineage import namespace
from ...model.run.lineage import LineageFact, dataset_of
from ...workflows.lineage import listeners

PRODUCER = f"https://pypi.org/project/tidemill/{version('tidemill')}"
MAX_WAITING = 10_000
"""Events that may wait while nobody takes them; what comes then is passed over, and counted in the log."""
CLOSING_TIMEOUT = 10.0

log = logging.getLogger(__name__)


class Sender:
    """A thread that sends what workflows tell, in order: a slow or dead receiver holds up no run."""

    def __init__(self, client: OpenLineageClient) -> None:
        self._client = client
        self._waiting: SimpleQueue[LineageFact | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._send_all, name="tidemill-lineage", daemon=True)
        self._dropped = 0

    def start(self) -> None:
        self._thread.start()

    def tell(self, fact: LineageFact) -> None:
        """Has *fact* sent, soon."""
        if self._waiting.qsize() < MAX_WAITING:
            self._waiting.put(fact)
        else:
            self._dropped += 1

    def close(self) -> None:
        """Sends what waits, for a moment."""
        self._waiting.put(None)
        self._thread.join(CLOSING_TIMEOUT)
        self._client.close(1.0)

    def _send_all(self) -> None:
        while (fact := self._waiting.get()) is not None:
            try:
                self._client.emit(run_event(fact, namespace()))
            except Exception as error:  # whatever a transport raises, runs go on
                log.warning("OpenLineage did not take %s of %s: %s", fact.event, fact.job.name, error)
            if self._dropped:
                log.warning("%d OpenLineage events were passed over: nobody took those before them", self._dropped)
                self._dropped = 0


@contextmanager
def lineage() -> Iterator[None]:
    """Has OpenLineage told of what this process decides, as long as the block."""
    sender = Sender(OpenLineageClient())
    sender.start()
    listeners.append(sender.tell)
    try:
        yield
    finally:
        listeners.remove(sender.tell)
        sender.close()


def run_event(fact: LineageFact, in_namespace: str) -> RunEvent:
    """*fact* as OpenLineage writes it."""
    return RunEvent(
        eventType=RunState(fact.event),
        eventTime=fact.at.isoformat(),
        run=Run(runId=str(fact.job.run_id), facets=_run_facets(fact, in_namespace)),
        job=Job(namespace=in_namespace, name=fact.job.name, facets=_job_facets(fact)),
        producer=PRODUCER,
        inputs=[InputDataset(*dataset_of(asset, in_namespace)) for asset in fact.inputs],
        outputs=[OutputDataset(*dataset_of(asset, in_namespace)) for asset in fact.outputs],
    )


def _run_facets(fact: LineageFact, in_namespace: str) -> dict[str, RunFacet]:
    found: dict[str, RunFacet] = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
            version=version("tidemill"), name="tidemill", producer=PRODUCER
        )
    }
    if fact.nominal_start is not None:
        found["nominalTime"] = nominal_time_run.NominalTimeRunFacet(
            nominalStartTime=fact.nominal_start.isoformat(),
            nominalEndTime=fact.nominal_end.isoformat() if fact.nominal_end is not None else None,
            producer=PRODUCER,
        )
    if fact.parent is not None:
        found["parent"] = parent_run.ParentRunFacet(
            run=parent_run.Run(runId=str(fact.parent.run_id)),
            job=parent_run.Job(namespace=in_namespace, name=fact.parent.name),
            producer=PRODUCER,
        )
    if fact.error is not None:
        found["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=fact.error, programmingLanguage="PYTHON", producer=PRODUCER
        )
    return found


def _job_facets(fact: LineageFact) -> dict[str, JobFacet]:
    kind = "TASK" if fact.is_task else "DAG"
    found: dict[str, JobFacet] = {
        "jobType": job_type_job.JobTypeJobFacet(
            processingType="BATCH", integration="TIDEMILL", jobType=kind, producer=PRODUCER
        )
    }
    if fact.description:
        found["documentation"] = documentation_job.DocumentationJobFacet(
            description=fact.description, producer=PRODUCER
        )
    return found
