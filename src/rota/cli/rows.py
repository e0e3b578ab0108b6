"""What programs are told, one JSON object a line: keys that stay, whatever the tables show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import typer

from rota.script.keys import Keys
from rota.store.shares import LaneShare
from rota.values.listing import SequenceInfo
from rota.values.model import ConsumerInfo, JobInfo, LaneInfo, QueueInfo
from rota.values.names import text_of

Row = Mapping[str, Any]


def print_rows(rows: Iterable[Row]) -> None:
    for row in rows:
        typer.echo(json_line(row))


def json_line(value: Any) -> str:
    """One line of JSON that anyone may see."""
    return printable_json(msgspec.json.encode(value).decode())


def printable_json(line: str) -> str:
    """With JSON's own escape for what is not printable: that stands in texts only."""
    return line if line.isprintable() else _UNPRINTABLE.sub(_escape, line)


_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    return char if char.isprintable() else json.dumps(char)[1:-1]


def queue_row(keys: Keys, info: QueueInfo) -> Row:
    row: dict[str, Any] = msgspec.to_builtins(info)
    del row["served"], row["beat_age"], row["overdue"]
    return {"queue": keys.queue, "prefix": keys.prefix, **row}


def lane_row(lane: LaneInfo) -> Row:
    row: dict[str, Any] = msgspec.to_builtins(lane)
    del row["in_ring"], row["next_wait"]
    return {"lane": row.pop("name"), "state": lane.state, **row}


def share_row(share: LaneShare) -> Row:
    lane = share.lane
    return {
        "name": lane.name,
        "weight": lane.weight,
        "received": share.received,
        "due": share.due,
        "ratio": share.ratio,
        "behind": share.behind,
        "waiting": lane.waiting,
        "running": lane.running,
        "served": lane.served,
        "oldest_wait": lane.oldest_wait,
        "wait_mean": lane.wait_mean,
        "state": lane.state,
    }


def job_row(job: JobInfo) -> Row:
    return {**_builtins(job), "payload": _text(job.payload)}


def dead_row(job: JobInfo) -> Row:
    row = dict(job_row(job))
    del row["state"]
    died = {"died_at": row.pop("due")}
    return {**row, **died, "error": job.error or "", "worker": job.worker or ""}


def sequence_row(sequence: SequenceInfo) -> Row:
    return _builtins(sequence)


def consumer_row(consumer: ConsumerInfo) -> Row:
    return _builtins(consumer)


def _builtins(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(value, builtin_types=(bytes,))
    return found


def _text(payload: bytes) -> str:
    return text_of(payload)
