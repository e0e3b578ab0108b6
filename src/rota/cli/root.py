"""Nouns, the groups of commands, and `rota worker`, a command and a noun."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup


def noun(name: str, help: str) -> typer.Typer:
    """A group of commands about one thing."""
    app = typer.Typer(
        name=name,
        help=help,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_nothing)
    return app


def _nothing() -> None:
    pass


class RootGroup(TyperGroup):
    """Sends `rota worker ls` and its like to their group."""

    steering: Any = None
    """The group of the commands that look at workers."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.steering = self.commands.pop("workers", None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The rule of the base class, but for one word that is a command and a noun."""
        verbs = {} if self.steering is None else self.steering.commands
        if args[0] == "worker" and len(args) > 1 and args[1] in verbs:
            return "worker", self.steering, args[1:]
        return super().resolve_command(ctx, args)
