"""Tasks of runs: marks them, and answers those that wait for a person."""

from ...model.interfaces.run import RunInterface
from ...model.run.forms import check_answer
from ...model.run.messages import Answer
from ...model.run.revisions import MarkRequest
from .caller import Caller
from .runs import Runs


class Tasks:
    """The tasks of runs."""

    def __init__(self, caller: Caller, runs: Runs) -> None:
        self._caller = caller
        self._runs = runs

    async def mark(self, dag_id: str, run_id: str, request: MarkRequest) -> list[str]:
        """Gives tasks a state without running them. Returns the instances."""
        return await self._runs.revise(dag_id, run_id, mark=request)

    async def respond(self, dag_id: str, run_id: str, answer: Answer) -> str:
        """Answers an approval task. Raises InvalidInputError for an answer that it does not offer, or would fail of."""
        view = await self._runs.find(dag_id, run_id)
        for task in (await self._runs.describe_listed(dag_id, view)).tasks:
            if task.key == answer.task and task.form is not None:
                check_answer(task.form, answer)
        return await self._caller.change(f"run {run_id!r}", view.workflow_id, RunInterface.respond(answer))
