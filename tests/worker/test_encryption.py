"""Payloads that are encrypted before they leave: Temporal holds no plain text, and everything works."""

import base64
import uuid
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from support import bash, dag, end_workflows, eventually
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.identity import TriggerRequest
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin
from tidemill.worker.service.connection import client_plugins


@activity.defn(name="raises")
async def raises_what_it_is_given(word: str) -> None:
    """Fails with what it had in hand, as people's code does."""
    raise ValueError(f"it was about {word}")


async def test_a_history_holds_no_plain_text(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYLOAD_KEY", Fernet.generate_key().decode())
    monkeypatch.setenv("TIDEMILL_CLIENT_PLUGINS", "tidemill.examples.encryption:Encryption")
    queue = f"test-{uuid.uuid4().hex[:8]}"
    client = await Client.connect(server, plugins=[*client_plugins(), TidemillPlugin(tmp_path / "home")])
    async with Worker(client, task_queue=queue, activities=[raises_what_it_is_given]):
        tidemill = Tidemill(client, queue)
        raises = {
            "kind": "activity",
            "task_id": "raises",
            "activity_type": "raises",
            "args": ["{{ dag_run.conf.word }}"],
        }
        tasks = [bash("a", "echo a-result-{{ dag_run.conf.word }}"), raises]
        await tidemill.dags.register(dag("enciphered", tasks))
        run = await tidemill.runs.trigger("enciphered", TriggerRequest(conf={"word": "plain-text-word"}))
        await eventually(lambda: tidemill.runs.find("enciphered", run.run_id), lambda found: found.state.finished)
        details = await tidemill.runs.describe("enciphered", run.run_id)
        errors = {task.task_id: task.error or "" for task in details.tasks}
        assert "it was about plain-text-word" in errors["raises"]
        bare = await Client.connect(server)
        for workflow_id in ("dag:enciphered", run.workflow_id):
            history = (await bare.get_workflow_handle(workflow_id).fetch_history()).to_json()
            assert "plain-text-word" not in history
            assert "binary/encrypted" in _decoded(history)
        await end_workflows(client, queue)


def _decoded(history: str) -> str:
    """The history with the texts of its metadata, which JSON shows in base 64."""
    return history.replace(base64.b64encode(b"binary/encrypted").decode(), "binary/encrypted")


def test_a_plugin_that_is_not_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_CLIENT_PLUGINS", "nowhere:Encryption")
    with pytest.raises(InvalidInputError, match=r"TIDEMILL_CLIENT_PLUGINS = 'nowhere:Encryption': ModuleNotFoundError"):
        client_plugins()
