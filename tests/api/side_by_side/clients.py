"""What Airflow's own clients do with a server: the calls of `airflow_client`, and the commands of `airflowctl`.

Run as a program of its own, with the address of a server and a token, since both are made for one server each. It
prints a line of JSON for each call.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import airflow_client.client as airflow

RUN = "scheduled__2025-01-01T03:00:00+00:00"
SALES_RUN = {"dag_id": "sales", "dag_run_id": RUN}
SQUARE = {**SALES_RUN, "task_id": "transform.square"}
BAD = {"dag_id": "fails", "dag_run_id": "b", "task_id": "bad"}
FROM, TO = "2025-01-01T00:00:00+00:00", "2025-01-02T23:00:00+00:00"

CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("AssetApi", "get_assets", {"name_pattern": "report"}),
    ("AssetApi", "get_asset_events", {"source_dag_id": "sales", "limit": 1}),
    ("BackfillApi", "list_backfills", {"dag_id": "fails"}),
    ("ConnectionApi", "get_connections", {}),
    ("ConnectionApi", "post_connection", {
        "connection_body": airflow.ConnectionBody(connection_id="of_client", conn_type="http", host="h", password="p")
    }),
    ("ConnectionApi", "get_connection", {"connection_id": "of_client"}),
    ("ConnectionApi", "delete_connection", {"connection_id": "of_client"}),
    ("DAGApi", "get_dags", {"tags": ["sales"]}),
    ("DAGApi", "get_dag", {"dag_id": "sales"}),
    ("DAGApi", "get_dag_details", {"dag_id": "sales"}),
    ("DAGApi", "get_dag_tags", {}),
    ("DAGApi", "patch_dag", {"dag_id": "guarded", "dag_patch_body": airflow.DAGPatchBody(is_paused=False)}),
    ("DAGApi", "get_dag", {"dag_id": "none"}),
    ("DagRunApi", "get_dag_runs", {"dag_id": "sales", "order_by": ["run_after"], "limit": 1}),
    ("DagRunApi", "get_dag_run", SALES_RUN),
    ("DagRunApi", "get_upstream_asset_events", SALES_RUN),
    ("DagRunApi", "trigger_dag_run", {
        "dag_id": "branches",
        "trigger_dag_run_post_body": airflow.TriggerDAGRunPostBody(dag_run_id="of_client", logical_date=None),
    }),
    ("DagRunApi", "wait_dag_run_until_finished", {"dag_id": "branches", "dag_run_id": "of_client", "interval": 1}),
    ("DagRunApi", "get_list_dag_runs_batch", {
        "dag_id": "~", "dag_runs_batch_body": airflow.DAGRunsBatchBody(dag_ids=["sales"], order_by="run_after")
    }),
    ("DagRunApi", "patch_dag_run", {
        "dag_id": "branches", "dag_run_id": "of_client", "dag_run_patch_body": airflow.DAGRunPatchBody(note="noted")
    }),
    ("DagRunApi", "clear_dag_run", {
        "dag_id": "branches", "dag_run_id": "of_client", "dag_run_clear_body": airflow.DAGRunClearBody(dry_run=True)
    }),
    ("DagSourceApi", "get_dag_source", {"dag_id": "sales"}),
    ("DagStatsApi", "get_dag_stats", {"dag_ids": ["consumer"]}),
    ("DagVersionApi", "get_dag_versions", {"dag_id": "sales"}),
    ("DagWarningApi", "list_dag_warnings", {}),
    ("EventLogApi", "get_event_logs", {"dag_id": "none"}),
    ("ImportErrorApi", "get_import_errors", {}),
    ("JobApi", "get_jobs", {"limit": 1}),
    ("MonitorApi", "get_health", {}),
    ("PluginApi", "get_plugins", {}),
    ("PoolApi", "get_pools", {}),
    ("PoolApi", "get_pool", {"pool_name": "default_pool"}),
    ("PoolApi", "post_pool", {"pool_body": airflow.PoolBody(name="of_client", slots=2)}),
    ("PoolApi", "delete_pool", {"pool_name": "of_client"}),
    ("ProviderApi", "get_providers", {"limit": 1}),
    ("TaskApi", "get_tasks", {"dag_id": "sales"}),
    ("TaskApi", "get_task", {"dag_id": "sales", "task_id": "load"}),
    ("TaskInstanceApi", "get_task_instances", SALES_RUN),
    ("TaskInstanceApi", "get_task_instance", {**SALES_RUN, "task_id": "load"}),
    ("TaskInstanceApi", "get_mapped_task_instances", SQUARE),
    ("TaskInstanceApi", "get_mapped_task_instance", {**SQUARE, "map_index": 1}),
    ("TaskInstanceApi", "get_task_instance_tries", BAD),
    ("TaskInstanceApi", "get_task_instance_dependencies", BAD),
    ("TaskInstanceApi", "get_extra_links", BAD),
    ("TaskInstanceApi", "get_log", {**BAD, "try_number": 1}),
    ("TaskInstanceApi", "get_hitl_details", {"dag_id": "approved", "dag_run_id": "a"}),
    ("TaskInstanceApi", "get_task_instances_batch", {
        "dag_id": "~", "dag_run_id": "~",
        "task_instances_batch_body": airflow.TaskInstancesBatchBody(dag_ids=["sales"], task_ids=["load"]),
    }),
    ("TaskInstanceApi", "post_clear_task_instances", {
        "dag_id": "branches",
        "clear_task_instances_body": airflow.ClearTaskInstancesBody(dag_run_id="of_client", dry_run=True,
                                                                    only_failed=False),
    }),
    ("VariableApi", "post_variable", {"variable_body": airflow.VariableBody(key="of_client", value="v")}),
    ("VariableApi", "get_variables", {}),
    ("VariableApi", "patch_variable", {
        "variable_key": "of_client", "variable_body": airflow.VariableBody(key="of_client", value="w")
    }),
    ("VariableApi", "delete_variable", {"variable_key": "of_client"}),
    ("VersionApi", "get_version", {}),
    ("XComApi", "get_xcom_entries", {**SALES_RUN, "task_id": "extract"}),
    ("XComApi", "get_xcom_entry", {**SALES_RUN, "task_id": "extract", "xcom_key": "return_value"}),
]  # fmt: skip

COMMANDS: list[str] = [
    "version --remote",
    "assets list",
    "backfill list fails",
    f"backfill create-dry-run --dag-id sales --from-date {FROM} --to-date {TO}",
    "config list",
    "connections list",
    "connections create --connection-id of_ctl --conn-type http --host h",
    "connections get of_ctl",
    "connections delete of_ctl",
    "connections import {folder}/connections.json",
    "dagrun get fails b",
    "dagrun list --dag-id fails --state failed --limit 10",
    "dags get sales",
    "dags get-details sales",
    "dags get-stats consumer",
    "dags get-tags",
    "dags list",
    "dags list-import-errors",
    "dags list-version sales",
    "dags list-warning",
    "dags next-execution intervals",
    "dags pause guarded",
    "dags unpause guarded",
    "dags trigger guarded --dag-run-id of_ctl",
    "jobs list",
    "plugins list",
    "plugins list-import-errors",
    "pools list",
    "pools get default_pool",
    "pools create --name of_ctl --slots 2",
    "pools export {folder}/pools.json",
    "pools import {folder}/pools.json",
    "pools delete of_ctl",
    "providers list",
    "variables create --key of_ctl --value v",
    "variables get of_ctl",
    "variables list",
    "variables delete of_ctl",
    "variables import {folder}/variables.json",
    f"xcom get sales {RUN} extract return_value",
    f"xcom list sales {RUN} extract",
]


def calls(url: str, token: str) -> Iterator[dict[str, Any]]:
    """Each call of the client's: the operation, what it is answered as its model has it, or the status of a refusal."""
    asked: list[str] = []
    with airflow.ApiClient(airflow.Configuration(host=url, access_token=token)) as client:
        send = client.call_api

        def noting(method: str, address: str, *arguments: Any, **more: Any) -> Any:
            asked.append(f"{method} {address.removeprefix(url).partition('?')[0]}")
            return send(method, address, *arguments, **more)

        client.call_api = noting  # type: ignore[method-assign]
        for api, method, given in CALLS:
            asked.clear()
            status, body = 200, None
            try:
                found = getattr(getattr(airflow, api)(client), method)(**given)
                body = found.to_dict() if hasattr(found, "to_dict") else found
            except airflow.ApiException as error:
                status = error.status
            except Exception as error:  # it does not understand the answer
                body = type(error).__name__
            yield {"call": f"{api}.{method}", "asked": asked[-1], "status": status, "body": body}


def commands(url: str, token: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Each command of airflowctl's: how it has ended, and what it has printed as JSON."""
    os.environ.update({"AIRFLOW_HOME": str(folder), "AIRFLOW_CLI_TOKEN": token, "COLUMNS": "400"})
    from airflowctl.__main__ import main

    for name, content in (
        ("connections", {"imported": {"conn_type": "http", "host": "h"}}),
        ("variables", {"imported": "v"}),
    ):
        (folder / f"{name}.json").write_text(json.dumps(content))
    login = f"auth login --api-url {url} --api-token {token} --skip-keyring"
    for command in (login, *COMMANDS):
        sys.argv = ["airflowctl", *command.replace("{folder}", str(folder)).split()]
        printed, code = io.StringIO(), 0
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            try:
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
            except Exception:  # said on standard error, and the command ends with 1
                code = 1
        if command is not login:
            yield {"command": command, "code": code, "printed": _json_in(printed.getvalue())}


def _json_in(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for line in (*calls(sys.argv[1], sys.argv[2]), *commands(sys.argv[1], sys.argv[2], Path(made))):
            print(json.dumps(line, default=str), flush=True)
