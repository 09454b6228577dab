"""A group whose commands are imported when they are called: `--help` and each command load only what they need."""

import gc
import importlib
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from .audited import keep_changes


class LazyGroup(TyperGroup):
    """Shows its commands by the table `places`, and imports the one that is called."""

    places: ClassVar[dict[str, tuple[str, str]]] = {}
    """By command: the attribute of this package that makes it (`module:attribute`), and its help."""

    def __init__(self, **attributes: Any) -> None:
        shown = {name: TyperCommand(name, help=text) for name, (_, text) in self.places.items()}
        super().__init__(**{**attributes, "commands": shown})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, shown, rest = super().resolve_command(ctx, args)
        return name, self._imported(name) if name and shown else None, rest

    def _imported(self, name: str) -> Any:
        place, text = self.places[name]
        module, _, attribute = place.partition(":")
        gc.disable()  # imports make many objects and no garbage: a sixth of their time would go into looking for it
        try:
            found = getattr(importlib.import_module(f".{module}", __package__), attribute)
        finally:
            gc.freeze()
            gc.enable()
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
            alone.command(name)(found)
            command = get_command(alone)
        else:
            command = get_command(found)
            command.name, command.help = name, text
        if not isinstance(command, LazyGroup):  # which does so itself, with each command that it imports
            keep_changes(command)
        return command
