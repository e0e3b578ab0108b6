"""What the command line's logs look like: lines for people, or a JSON object a line."""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Literal

from rota.cli.exits import say
from rota.cli.printing import printable_json
from rota.observe import joblog
from rota.values.names import visible
from rota.work.executor import current_job

LogFormat = Literal["console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]


def log_to_stderr(form: LogFormat | None = None, level: LogLevel | None = None) -> None:
    """Call it after the application's module was imported. None: the command line says nothing.

    Where the application has not set logging up, lines for people at INFO. Where it has, its set-up
    stays, but for what the command line says: with a format all lines go to stderr in it, instead
    of to the console in the application's; a level holds for them. What the application says of
    rota's own loggers stays even so, and a line says that. Loggers of ours that it disabled by the
    way (`dictConfig` does, unless told not to) are enabled.
    """
    root = logging.getLogger()
    for logger in _loggers_of_ours():
        logger.disabled = False
    as_we_like = not root.handlers or _is_by_chance(root)
    if as_we_like or form is not None:
        for handler in filter(_is_console, root.handlers[:]):
            root.removeHandler(handler)
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonFormatter() if form == "json" else _console())
        root.addHandler(handler)
    if as_we_like or level is not None:
        least = logging.getLevelNamesMapping()[(level or "info").upper()]
        root.setLevel(least)
        for handler in filter(_is_console, root.handlers):
            handler.setLevel(min(handler.level, least))
    if form is not None or level is not None:
        logging.disable(logging.NOTSET)
        _say_what_does_not_hold(form, level)


def _loggers_of_ours() -> list[logging.Logger]:
    found = logging.getLogger().manager.loggerDict
    ours = [name for name in found if name == "rota" or name.startswith("rota.")]
    return [logging.getLogger(name) for name in sorted(ours)]


def _is_by_chance(root: logging.Logger) -> bool:
    """Set up by `logging.warning(…)` and its like, which nobody means as a set-up."""
    handler = root.handlers[0]
    return (
        len(root.handlers) == 1
        and root.level == logging.WARNING
        and type(handler) is logging.StreamHandler
        and handler.formatter is not None
        and handler.formatter._fmt == logging.BASIC_FORMAT
    )


def _is_console(handler: logging.Handler) -> bool:
    streams = (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__)
    return isinstance(handler, logging.StreamHandler) and handler.stream in streams


_say_once = functools.cache(say)


def _say_what_does_not_hold(form: LogFormat | None, level: LogLevel | None) -> None:
    for logger in _loggers_of_ours():
        elsewhere = not logger.propagate or any(map(_is_console, logger.handlers))
        if form is not None and elsewhere:
            _say_once(f"rota: the application says itself where {logger.name} writes: --log-format "
                      "does not hold there")  # fmt: skip
        if level is not None and logger.level:
            _say_once(f"rota: the application gives {logger.name} a level: --log-level does not "
                      "hold there")  # fmt: skip


def _console() -> logging.Formatter:
    return ConsoleFormatter(f"%(asctime)s %(levelname)s {os.getpid()} %(name)s: %(message)s")


class ConsoleFormatter(logging.Formatter):
    """Lines for people. Some hold texts of others, and none of those steers a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record), keep="\n\t")


class JsonFormatter(logging.Formatter):
    """One object a line: time (UTC), level, logger, message, pid; of a job also its fields.

    A handler's own lines get the fields of the job it runs. What was given as `extra` under other
    names is not written.
    """

    def format(self, record: logging.LogRecord) -> str:
        row: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        given = {name: getattr(record, name, None) for name in joblog.FIELDS}
        if given["job"] is None:
            given |= _of_running_job()
        row |= {name: value for name, value in given.items() if value is not None}
        if record.exc_info:
            row["error"] = self.formatException(record.exc_info)
        return printable_json(json.dumps(row, ensure_ascii=False, default=str))


def _of_running_job() -> dict[str, object]:
    try:
        job = current_job()
    except LookupError:
        return {}
    fields = joblog.fields("", job)
    del fields["queue"]
    return fields
