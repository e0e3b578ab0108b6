"""Exit codes, and how an error becomes a line on stderr and one of them.

0    done
1    failed, not found, not done in full; of `check` and `doctor`: not well
2    wrong usage: an argument or option, or what they say together
3    the server cannot be reached, refuses, or is too old
130  interrupted
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import NoReturn

import typer

from rota.errors import (
    ConfigError,
    PayloadError,
    QueueBroken,
    QueueClosed,
    RotaError,
    ServerFull,
    ServerTooOld,
    Unavailable,
    UnknownTask,
)
from rota.values.names import visible

FAILED = 1
USAGE = 2
SERVER = 3
INTERRUPTED = 130


def say(text: str) -> None:
    """Lines for people, on stderr."""
    typer.echo(visible(text, keep="\n\t"), err=True)


def fail(message: str, code: int) -> NoReturn:
    say(f"rota: {message}")
    raise typer.Exit(code)


UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def open_closed_streams() -> None:
    """What was closed before the start (`>&-`) becomes the null device.

    In the order of the descriptors, so that no connection gets the place of one of them.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Output that cannot be written (a full disk) is a line on stderr, and exit status 1."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        with contextlib.suppress(OSError):
            say(f"rota: cannot write: {error.strerror}")
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # the interpreter writes what is left at its end, and would fail again
                with open(os.devnull, "w") as null:
                    os.dup2(null.fileno(), stream.fileno())
        sys.exit(FAILED)


CODES: dict[type[RotaError], tuple[int, str]] = {
    ServerFull: (SERVER, "\n  Workers drain a full server by themselves; or raise maxmemory."),
    QueueBroken: (SERVER, ""),
    QueueClosed: (SERVER, ""),
    ServerTooOld: (SERVER, "\n  Choose another server with --url or ROTA_URL."),
    Unavailable: (
        SERVER,
        "\n  Is the server running? --url chooses another, or ROTA_URL where the code names none.",
    ),
    ConfigError: (USAGE, ""),
    PayloadError: (USAGE, ""),
    UnknownTask: (USAGE, ""),
    RotaError: (FAILED, ""),
}
"""Of the first that an error is: the exit code, and what may help."""


@contextlib.contextmanager
def reporting() -> Iterator[None]:
    """Turns rota's errors into a message that says what to do next, and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        fail("interrupted", INTERRUPTED)
    except RotaError as error:
        code, help = next(told for kind, told in CODES.items() if isinstance(error, kind))
        fail(f"{error}{help}", code)
