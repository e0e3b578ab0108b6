"""What all commands have in common: their variables, and `rota worker`, a command and a noun."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperGroup

OWN_RULES = ("url", "help", "version", "install-completion", "show-completion")
"""Options without a variable by the rule. ROTA_URL is the server where nothing else names one: it
does not overrule the code, as --url does."""


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
    """Gives every option its variable, and sends `rota worker ls` and its like to their group."""

    steering: Any = None
    """The group of the commands that look at workers."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.steering = self.commands.pop("workers", None)
        _name_variables([*self.commands.values(), *filter(None, [self.steering])])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The rule of the base class, but for one word that is a command and a noun."""
        verbs = {} if self.steering is None else self.steering.commands
        if args[0] == "worker" and len(args) > 1 and args[1] in verbs:
            return "worker", self.steering, args[1:]
        return super().resolve_command(ctx, args)


def _name_variables(commands: Iterable[Any]) -> None:
    """ROTA_ and the option's long name: --dry-run is ROTA_DRY_RUN."""
    for command in commands:
        for option in command.params:
            name = _long_name(option)
            if name and name not in OWN_RULES and option.envvar is None:
                option.envvar = "ROTA_" + name.upper().replace("-", "_")
        _name_variables(getattr(command, "commands", {}).values())


def _long_name(option: Any) -> str | None:
    names = [name for name in option.opts if name.startswith("--")]
    return max(names, key=len).removeprefix("--") if names else None
