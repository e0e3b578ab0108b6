"""The command `rota`. It needs the extra `cli`; without it, it says so."""

from __future__ import annotations

import sys

from rota.work import supervisor

_EXTRA = ("typer", "rich")


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    leash = supervisor.find_leash()  # before anything is imported that might start processes
    try:
        from rota.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(
            f"rota: the command line needs {error.name}; install it with: pip install 'rota[cli]'\n"
        )
        sys.exit(2)
    run(leash)
