"""Pages of jobs, sequences and lanes, and the cursors that lead from one to the next."""

from __future__ import annotations

import base64
import binascii
import zlib
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from rota.values.errors import ConfigError
from rota.values.model import JobInfo, JobState, LaneInfo, QueueInfo
from rota.values.names import shown

SequenceState = Literal["ready", "held", "blocked"]
RetryAnswer = Literal["ok", "none", "running", "waiting", "unreadable"]

Place = list[bytes]
"""Where a page ends, as its script says it, byte by byte: a name in it may be no text. Empty at the
start and after the last."""

CURSOR_VERSION = b"\x01"

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Place).decode


@dataclass(frozen=True, slots=True)
class JobsPage:
    """Some jobs, those of several lanes in no order, and where to go on; `cursor` is None after the
    last page, and else of use to the same call only.

    A page may have fewer jobs than asked for, or none, and yet not be the last: no page looks at
    more than some thousand jobs, or brings more than a few MiB.
    """

    jobs: list[JobInfo]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class SequenceInfo:
    """A sequence as it stands; an ordered lane is one, with the ordering key ''.

    `held`: some of its jobs (`jobs_held`, in order) are in the hands of `held_by` (host:pid).
    `blocked`: it stays out until `blocked_until` (Unix seconds; None: until someone acts), for
    `reason`. `head`: the job that comes first, or the one that stops it: with `head_dead` a dead
    one whose hold ends when it is replayed, discarded or skipped. `waiting` counts the rest.
    """

    lane: str
    ordering_key: str
    state: SequenceState
    waiting: int
    head: str | None
    held_by: str | None
    jobs_held: list[str]
    blocked_until: float | None
    reason: str | None
    head_dead: bool


@dataclass(frozen=True, slots=True)
class SequencesPage:
    """Some sequences, and where to go on; a page may be short, as of jobs."""

    sequences: list[SequenceInfo]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class LanesPage:
    """Some lanes, in no order, and where to go on; a page may be short, as of jobs. A lane that
    changes between pages may come twice."""

    lanes: list[LaneInfo]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class FoundQueue:
    """A queue that is on a server: its name, what opens its keys, its totals."""

    name: str
    prefix: str
    info: QueueInfo


def cursor_text(listing: str, place: Place) -> str | None:
    """A place in a listing as a word that goes anywhere: into a URL, onto a command line."""
    if not place:
        return None
    body = _pack([listing.encode(), *place])
    sum = zlib.crc32(body).to_bytes(4, "big")  # tells it from one that was made up
    return base64.urlsafe_b64encode(CURSOR_VERSION + sum + body).decode().rstrip("=")


def cursor_place(listing: str, cursor: object) -> Place:
    """The place a cursor of that listing names, empty for None; raises ConfigError."""
    if cursor is None:
        return []
    if isinstance(cursor, str):
        try:
            read = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
            _, *place = _unpack(read[5:])
        except (ValueError, binascii.Error, msgspec.DecodeError):
            place = []
        if cursor_text(listing, place) == cursor:
            return place
    raise ConfigError(f"cursor: expected one that a page gave, given {shown(cursor)}")


def job_state(value: object) -> JobState:
    """Raises ConfigError."""
    state: JobState
    for state in get_args(JobState):
        if value == state:
            return state
    raise ConfigError(f"state: expected {', '.join(get_args(JobState))}, given {shown(value)}")
