"""What the command line's logs look like: lines for people, or a JSON object a line."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from enum import StrEnum

from rota import joblog
from rota.cli.rows import printable_json
from rota.executor import current_job
from rota.names import visible


class LogFormat(StrEnum):
    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """`warning` leaves out the line for each job that is done."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def log_to_stderr(form: LogFormat = LogFormat.CONSOLE, level: LogLevel = LogLevel.INFO) -> None:
    """Unless the application has set up logging itself."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form is LogFormat.JSON else _console())
    logging.basicConfig(level=level.upper(), handlers=[handler])


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
