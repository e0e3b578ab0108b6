"""`rota enqueue`: a file's lines become jobs."""

from __future__ import annotations

import contextlib
import inspect
import math
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import typer

from rota.cli import options
from rota.cli.exits import FAILED, SERVER, fail, reporting, say
from rota.cli.queues import find_queue, is_module_queue
from rota.cli.records import BadLine, Lines, Row, read_csv, read_json_lines, size_of
from rota.cli.terminal import Bar, bar
from rota.errors import BatchInterrupted, ConfigError, PayloadError, ServerFull, Unavailable
from rota.payload.codec import encode_plain
from rota.queue import Queue
from rota.task import AnyTask
from rota.values import names
from rota.values.ids import new_id
from rota.values.jobspec import DEFAULT_LANE, JobSpec, check_size
from rota.values.model import OnFull

SHOWN_BAD_LINES = 20
SPARE_LINE_BYTES = 1 << 16
OUTCOMES = ("created", "duplicate", "lane_full", "bad")
NOT_IN = ("lane_full", "lane_broken", "bad")


Format = Literal["jsonl", "csv"]
_SUFFIXES: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}


def enqueue(
    queue: Annotated[
        str,
        typer.Argument(
            metavar="QUEUE",
            help="A queue's name (any task is accepted), or module:queue (task and arguments are "
            "checked, and the task's limits hold).",
        ),
    ],
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's name.")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="JSON lines (.jsonl, .ndjson), CSV (.csv), or - for standard input. A line's "
            "fields are the task's keyword arguments, an array's items positional ones.",
        ),
    ],
    lane_from: Annotated[
        str | None, typer.Option(metavar="FIELD", help="The field that names the job's lane.")
    ] = None,
    ordering_key_from: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="The field whose equal values keep their order."),
    ] = None,
    id_from: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="The field that is the job's id: enqueueing again adds only what is missing.",
        ),
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="[default: by the file's suffix; jsonl for -]")
    ] = None,
    on_full: Annotated[
        Literal["outcome", "wait", "raise"],
        typer.Option(
            help="A lane at its backlog limit: count the job as lane_full, wait for room, or stop."
        ),
    ] = "outcome",
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for room, with --on-full wait.")
    ] = 60,
    url: options.NewUrl = None,
) -> None:
    """Enqueue a job per line of a file.

    Numbers used as lane, key or id become text; a line where one is missing or empty is bad. CSV
    values stay text. A bad line is reported and does not stop the rest. Exit status: 0 all lines
    are in, 1 bad lines, full or broken lanes, 2 usage, 3 server.
    """
    with reporting():
        target = find_queue(queue, url, starts=True)
        fields = {
            "--lane-from": lane_from,
            "--ordering-key-from": ordering_key_from,
            "--id-from": id_from,
        }
        module = is_module_queue(queue)
        maker = SpecMaker(target, task, fields, check=module)
        with _open(file) as stream, bar(_columns, total=size_of(stream), lines=0) as move:
            kind = format or _guess(file)
            lines = Lines(stream, 4 * target.max_payload + SPARE_LINE_BYTES)
            rows = read_csv(lines) if kind == "csv" else read_json_lines(lines)
            job = _Enqueueing(target, maker, lines, move, stops=on_full == "raise")
            job.run(rows, on_full="wait" if on_full == "wait" else "outcome", wait=wait)
        if not lines.number:
            say("standard input is empty" if file == "-" else "the file is empty")
        elif lane_from is None and not module and job.counts["created"]:
            say(f"no --lane-from: all jobs are in lane {DEFAULT_LANE}")
    raise typer.Exit(FAILED if any(job.counts[name] for name in NOT_IN) else 0)


@dataclass(slots=True)
class _Enqueueing:
    """One file on its way in, and what has become of its lines."""

    queue: Queue
    maker: SpecMaker
    lines: Lines
    move: Bar
    stops: bool
    counts: Counter[str] = field(default_factory=Counter)
    holders: Counter[str] = field(default_factory=Counter)

    def run(self, rows: Iterator[Row | BadLine], *, on_full: OnFull, wait: float) -> None:
        """Enqueues them and prints the count per outcome, whatever happens."""
        try:
            stream = self.queue.sync.enqueue_stream(self._specs(rows), on_full=on_full, wait=wait)
            for done in stream:
                self.counts[done.outcome] += 1
                if done.outcome == "duplicate":
                    self.holders[done.holder or "unreadable"] += 1
        except BatchInterrupted as error:
            self._interrupted(error.__cause__ or error, len(error.unsure))
        except ServerFull as error:
            self._interrupted(error, 0)
        finally:
            self.queue.sync.close()
            if self.counts["bad"] > SHOWN_BAD_LINES:
                say(f"{self.counts['bad'] - SHOWN_BAD_LINES} more bad lines not shown")
            told = [f"{self.counts[name]} {name}" for name in OUTCOMES]
            if broken := self.counts["lane_broken"]:
                told.append(f"{broken} lane_broken")
                say("a lane is broken: rota doctor names the key that is damaged")
            typer.echo(", ".join(told))
            if self.holders:
                held = (f"{count} {state}" for state, count in sorted(self.holders.items()))
                say(f"duplicates of jobs that are there: {', '.join(held)}")
            if self.holders["dead"]:
                say("a dead job keeps its id until rota dead replay or discard")

    def _specs(self, rows: Iterator[Row | BadLine]) -> Iterator[JobSpec]:
        for row in rows:
            if self.stops and self.counts["lane_full"]:
                say(f"a lane is full: stopped before line {row.number}")
                return
            self.move(completed=self.lines.bytes_read, lines=self.lines.number)
            if isinstance(row, BadLine):
                self._report(row.number, row.reason)
                continue
            try:
                spec = self.maker.make(row.value)
            except (ConfigError, PayloadError) as error:
                self._report(row.number, str(error))
                continue
            yield spec

    def _report(self, number: int, reason: str) -> None:
        self.counts["bad"] += 1
        if self.counts["bad"] <= SHOWN_BAD_LINES:
            say(f"line {number}: {reason}")

    def _interrupted(self, cause: BaseException, unsure: int) -> None:
        if not isinstance(cause, Unavailable) or not self.counts.total():
            raise cause
        rest = f"{unsure} more jobs may be stored or not" if unsure else "No more jobs are stored"
        fail(
            f"{cause}\n  {rest}. Once the server takes jobs again, enqueue the file again: with "
            "--id-from only what is missing is added, without it every line is stored anew.",
            SERVER,
        )


def _columns(rich: Any) -> list[Any]:
    texts = "{task.percentage:>3.0f}%", "{task.fields[lines]} lines"
    return [rich.BarColumn(), *texts, rich.TimeRemainingColumn()]


def _guess(file: str) -> Format:
    if file == "-":
        return "jsonl"
    suffix = Path(file).suffix.lower()
    if suffix not in _SUFFIXES:
        raise ConfigError(f"{file}: expected {', '.join(_SUFFIXES)}, or --format jsonl or csv")
    return _SUFFIXES[suffix]


@contextlib.contextmanager
def _open(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    with stream:
        yield stream


# ── from a line's arguments to the job they make ────────────────────────────────────────────────


Fields = dict[str, str | None]
"""By the options that say it: which field holds a job's lane, which its ordering key, its id."""


class SpecMaker:
    """Makes jobs of one task. `check`: the queue's code is known, and the task must be its."""

    def __init__(self, queue: Queue, task: str, fields: Fields, *, check: bool) -> None:
        """Raises UnknownTask or ConfigError for what would make every line bad."""
        self._queue = queue
        self._name = names.task_name(task)
        self._fields = fields
        self._task = queue.find_task(task) if check else None
        if self._task is not None:
            _check_fields(self._task, fields)

    def make(self, value: dict[str, object] | list[object]) -> JobSpec:
        """The job of one line; raises ConfigError or PayloadError saying what is wrong with it."""
        args, kwargs = (value, None) if isinstance(value, list) else (None, value)
        payload = encode_plain(args, kwargs)
        if self._task is not None:
            return self._checked(self._task, payload, kwargs)
        check_size(payload, self._queue.max_payload)
        lane, key, id = self._names(kwargs)
        return JobSpec(
            task=self._name,
            payload=payload,
            lane=DEFAULT_LANE if lane is None else lane,
            ordering_key=key,
            id=new_id() if id is None else id,
        )

    def _checked(self, task: AnyTask, payload: bytes, fields: dict[str, object] | None) -> JobSpec:
        """What the task itself would make of the arguments, its policy included."""
        args, kwargs = task.codec.decode(payload)
        if fields is None:
            fields = task.codec.bind(args, kwargs)
        lane, key, id = self._names(fields)
        twin = task.options(lane=lane, id=id)
        if key is not None:
            twin = task.options(lane=lane, id=id, ordering_key=key)
        return twin.spec(*args, **kwargs)

    def _names(self, given: dict[str, object] | None) -> list[str | None]:
        return [_name(given, field, option) for option, field in self._fields.items()]


def _check_fields(task: AnyTask, fields: Fields) -> None:
    parameters = inspect.signature(task.function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    for option, name in fields.items():
        task.codec.check_from(name, option)


def _name(given: dict[str, object] | None, field: str | None, option: str) -> str | None:
    if field is None:
        return None
    if given is None:
        raise ConfigError(f"{option} {field}: expected an object with that field, given an array")
    if field not in given:
        raise ConfigError(f"{option} {field}: there is no such field")
    value = given[field]
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    return names.as_name(value, f"{option} {field}")
