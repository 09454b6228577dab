"""Writes docs/reference/ from the code: `make docs`. `--check` only says whether the pages are as the code is."""

import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import typer
from fastapi import FastAPI
from pydantic import BaseModel
from tidemill.api.app import ROUTERS
from tidemill.model.base import Model
from tidemill.model.spec.dag import DagSpec
from tidemill.model.spec.schema import dag_schema
from tidemill.model.spec.tasks import BaseTask
from tidemill.worker.cli import app as command_line
from tidemill.worker.settings.groups import GROUPS
from tidemill.worker.settings.reading import OTHERS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
MADE = "Made from the code by `make docs`.\n"


# The command line


def cli_page() -> str:
    group = typer.main.get_command(command_line)
    parts = ["# The command line", "", MADE]
    for name, command in commands(group, "tidemill"):
        parts += [f"## {name}", "", f"{command.help or ''}", "", *table_of(command)]
    return "\n".join(parts)


def commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with the words that call it."""
    context = click.Context(group)
    if not isinstance(group, click.Group) and not hasattr(group, "list_commands"):
        yield name, group
        return
    for part in group.list_commands(context):
        _, found, _ = group.resolve_command(context, [part])
        yield from commands(found, f"{name} {part}")


def table_of(command: Any) -> list[str]:
    shown = [param for param in command.params if not getattr(param, "hidden", False)]
    if not shown:
        return []
    rows = ["| | |", "|---|---|"]
    for param in shown:
        names = ", ".join(f"`{opt}`" for opt in [*param.opts, *param.secondary_opts])
        if param.param_type_name == "argument":
            names = f"`{str(param.name).upper()}`" + ("" if param.required else ", optional")
        rows.append(f"| {names} | {cell(getattr(param, 'help', None) or '')} |")
    return [*rows, ""]


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


# Settings


SETTING = re.compile(r"^\| `TIDEMILL_(\w+)` \|([^|]*)\| (.*) \|$", re.MULTILINE)


def settings_page() -> str:
    documented = {name: rest for name, *rest in SETTING.findall((ROOT / "docs" / "operating.md").read_text())}
    rows = []
    for group in GROUPS:
        rows += [f"## {group.title}", "", "| variable | default | meaning |", "|---|---|---|"]
        for name in group.model_fields:
            if name.upper() not in documented:
                raise SystemExit(f"TIDEMILL_{name.upper()}: give it a line in a table of docs/operating.md")
            default, meaning = documented[name.upper()]
            rows.append(f"| `TIDEMILL_{name.upper()}` | {default.strip()} | {one_folder_up(meaning)} |")
        rows.append("")
    about = "As environment variables, or in the settings file: see [Operating](../operating.md)."
    others = [f"- `TIDEMILL_{name}`" for name in (*OTHERS, "CONN_<ID>", "VAR_<KEY>")]
    return "\n".join(
        [
            "# Settings",
            "",
            MADE,
            about,
            "",
            *rows,
            "Beside these, described in [Operating](../operating.md#settings):",
            "",
            *others,
            "",
        ]
    )


def one_folder_up(text: str) -> str:
    """*text* of operating.md with its links as they are from this folder."""
    return re.sub(r"\]\((#?)([^)]*)\)", lambda m: f"](../{'operating.md#' if m[1] else ''}{m[2]})", text)


# DAGs as data


def dag_page() -> str:
    schema = dag_schema()
    parts = [
        "# DAGs as JSON",
        "",
        MADE,
        "What `DAG(...)` in Python becomes, and what may be written by hand; as a schema: `docs/dag.schema.json`.",
        "",
        "## DAG",
        "",
        *fields_of(schema, field_docs(DagSpec)),
        "## Every task",
        "",
        cell(inspect.getdoc(BaseTask) or ""),
        "",
        *fields_of(BaseTask.model_json_schema(), field_docs(BaseTask)),
    ]
    models = {model.__name__: model for model in subclasses(Model)}
    for name, found in sorted(schema["$defs"].items()):
        if not found.get("properties"):
            continue
        is_task = issubclass(models[name], BaseTask)
        parts += [f"## {name}", "", cell(found.get("description", "")), ""]
        parts += ["It also has the fields of [every task](#every-task).", ""] if is_task else []
        parts += fields_of(found, field_docs(models[name]), without=BaseTask.model_fields if is_task else ())
    return "\n".join(parts)


def fields_of(schema: dict[str, Any], docs: dict[str, str], without: Collection[str] = ()) -> list[str]:
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for name, field in schema["properties"].items():
        if name in without:
            continue
        default = f"`{json.dumps(field['default'])}`" if field.get("default") not in (None, [], {}, "") else ""
        meaning = docs.get(name, "Tells this kind from the others." if "const" in field else "")
        rows.append(f"| `{name}` | {cell(kind(field))} | {cell(default)} | {cell(meaning)} |")
    return [*rows, ""]


def subclasses(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for found in model.__subclasses__():
        yield found
        yield from subclasses(found)


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """By field, the docstring below it in the class, or in the class that it is inherited from."""
    found: dict[str, str] = {}
    for base in reversed([base for base in model.__mro__ if issubclass(base, Model) and base is not Model]):
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, below in pairwise(body.body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                found.pop(field.target.id, None)
                if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                    found[field.target.id] = str(below.value.value)
    return found


def kind(field: dict[str, Any]) -> str:
    """The type in a few words."""
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    parts = field.get("anyOf") or field.get("oneOf")
    if parts:
        return " or ".join(dict.fromkeys(kind(part) for part in parts if part.get("type") != "null"))
    if field.get("type") == "array":
        return f"list of {kind(field['items'])}" if isinstance(field.get("items"), dict) and field["items"] else "list"
    return str(field.get("format") or field.get("type") or "anything")


# The web


def api_page() -> str:
    app = FastAPI()
    for module in ROUTERS:
        app.include_router(module.router)
    paths = app.openapi()
    parts = ["# The REST API", "", MADE, "Airflow's REST API v2: see [The web](../ui.md).", ""]
    rows = ["| operation | |", "|---|---|"]
    for path, item in sorted(paths["paths"].items()):
        for method, operation in item.items():
            told = cell(operation.get("description") or operation.get("summary") or "")
            rows.append(f"| `{method.upper()} {path}` | {told} |")
    return "\n".join([*parts, *rows, ""])


# Metrics


METRIC = re.compile(r"create_(histogram_timedelta|counter|gauge)\(\s*\"(tidemill_\w+)\",\s*\"([^\"]+)\"", re.DOTALL)


def metrics_page() -> str:
    rows = ["| metric | kind | |", "|---|---|---|"]
    for folder in ("workflows", "activities", "worker"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for how, name, told in METRIC.findall(path.read_text()):
                rows.append(f"| `{name}` | {'histogram, ms' if how.startswith('hist') else how} | {told} |")
    about = "Beside Temporal's own, where `TIDEMILL_METRICS_ADDRESS` says: see [Operating](../operating.md)."
    return "\n".join(["# Metrics", "", MADE, about, "", *rows, ""])


def pages() -> dict[str, str]:
    """By file name, what each page should say."""
    return {
        "cli.md": cli_page(),
        "settings.md": settings_page(),
        "dag.md": dag_page(),
        "api.md": api_page(),
        "metrics.md": metrics_page(),
    }


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        path = FOLDER / name
        text = inspect.cleandoc(text) + "\n"
        if "--check" in sys.argv and path.read_text() != text:
            sys.exit(f"{path.relative_to(ROOT)} is not as the code is: run `make docs`")
        path.write_text(text)


if __name__ == "__main__":
    main()
