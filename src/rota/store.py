"""What changes a queue, in the words of the domain. Each method is an operation without I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from rota import config, names, scripts
from rota.errors import BatchInterrupted, ConfigError, LaneFull, RotaError
from rota.keys import Keys
from rota.model import (
    Answer,
    Enqueued,
    Exchanged,
    JobSpec,
    Outcome,
    Settlement,
    new_nonce,
)
from rota.names import shown
from rota.scripting import Operation, Packed, Tail, Wait, together
from rota.timing import instant, milliseconds, seconds

OnFull = Literal["outcome", "raise", "wait"]

MAX_JOBS_PER_CALL = 1000
MAX_BYTES_PER_CALL = 2 * 1024 * 1024
LARGE_BYTES = 2048
PAGE = 500
FULL_PAUSE_S = 0.25
MAX_NOTE_BYTES = 1000

_OUTCOMES: dict[str, Outcome] = {"c": "created", "d": "duplicate", "f": "lane_full"}
_to_json = msgspec.json.Encoder().encode


class Unset:
    """The type of `UNSET`: a limit that stays as it is."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()


def chunks(specs: Iterable[JobSpec]) -> Iterator[list[JobSpec]]:
    """Cuts specs into calls of at most 1,000 jobs or 2 MiB; a larger payload travels alone."""
    chunk: list[JobSpec] = []
    size = 0
    for spec in specs:
        if chunk and (
            len(chunk) == MAX_JOBS_PER_CALL or size + len(spec.payload) > MAX_BYTES_PER_CALL
        ):
            yield chunk
            chunk, size = [], 0
        chunk.append(spec)
        size += len(spec.payload)
    if chunk:
        yield chunk


def next_chunk(
    parts: Iterator[list[JobSpec]], outcomes: Sequence[Enqueued], *, first: bool
) -> list[JobSpec]:
    """The next call's worth, [] at the end.

    Where the specs themselves fail, BatchInterrupted says how far the jobs got; before the
    first call, bad input is raised as what it is.
    """
    try:
        return next(parts, [])
    except Exception as error:
        if first and isinstance(error, RotaError):
            raise
        raise BatchInterrupted(outcomes, [], _cause(error)) from error


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _column(values: list[object]) -> list[object] | Literal[False]:
    return values if any(value is not False for value in values) else False


def _columns(specs: Sequence[JobSpec]) -> Packed:
    """Jobs by column, so that what no job uses costs one byte."""
    return Packed(
        [
            [spec.id for spec in specs],
            [spec.lane for spec in specs],
            _column([False if s.ordering_key is None else s.ordering_key for s in specs]),
            _column([spec.priority or False for spec in specs]),
            _column([spec.delay or False for spec in specs]),
            _column([False if spec.at is None else spec.at for spec in specs]),
        ]
    )


class Store:
    """The write side of one queue."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    # ── enqueueing ──────────────────────────────────────────────────────────────────────────

    def enqueue(
        self, specs: Sequence[JobSpec], *, atomic: bool = False
    ) -> Operation[list[Enqueued]]:
        """Stores at most one call's worth of jobs; outcomes in order. Safe to send again."""
        status, text = yield from scripts.enqueue(
            self.keys,
            nonce=new_nonce(),
            atomic=atomic,
            large=any(len(spec.payload) > LARGE_BYTES for spec in specs),
            jobs=_columns(specs),
            bodies=Tail([spec.body for spec in specs]),
        )
        if status == "full":
            raise LaneFull(text)
        return [
            Enqueued(spec.id, _OUTCOMES[letter]) for spec, letter in zip(specs, text, strict=True)
        ]

    def enqueue_one(self, spec: JobSpec) -> Operation[Enqueued]:
        """Stores one job; raises LaneFull where its lane's backlog limit refuses it."""
        (done,) = yield from self.enqueue([spec])
        if done.outcome == "lane_full":
            raise LaneFull(spec.lane)
        return done

    def enqueue_many(
        self, specs: Iterable[JobSpec], *, on_full: OnFull, wait: float, atomic: bool
    ) -> Operation[list[Enqueued]]:
        """Stores any number of jobs, in calls of bounded size."""
        check_on_full(on_full)
        if atomic:
            return (yield from self._enqueue_atomic(list(specs)))
        outcomes: list[Enqueued] = []
        parts = chunks(specs)
        while chunk := next_chunk(parts, outcomes, first=not outcomes):
            try:
                outcomes += yield from self._enqueue_chunk(chunk, on_full=on_full, wait=wait)
            except LaneFull:
                raise
            except Exception as error:
                if len(chunk) == 1 and not outcomes and isinstance(error, RotaError):
                    raise
                raise BatchInterrupted(outcomes, chunk, _cause(error)) from error
        return outcomes

    def enqueue_part(
        self, chunk: list[JobSpec], *, on_full: OnFull, wait: float
    ) -> Operation[list[Enqueued]]:
        """One chunk of a stream, whose earlier outcomes the caller has."""
        try:
            return (yield from self._enqueue_chunk(chunk, on_full=on_full, wait=wait))
        except LaneFull:
            raise
        except Exception as error:
            raise BatchInterrupted([], chunk, _cause(error)) from error

    def _enqueue_chunk(
        self, chunk: list[JobSpec], *, on_full: OnFull, wait: float
    ) -> Operation[list[Enqueued]]:
        """One call's worth; with `wait`, jobs of full lanes are sent again for so many seconds."""
        outcomes = yield from self.enqueue(chunk)
        full = [i for i, done in enumerate(outcomes) if done.outcome == "lane_full"]
        if full and on_full == "raise":
            raise LaneFull(chunk[full[0]].lane)
        pauses = int(wait / FULL_PAUSE_S) if on_full == "wait" else 0
        while full and pauses > 0:
            yield Wait(FULL_PAUSE_S)
            pauses -= 1
            again = yield from self.enqueue([chunk[i] for i in full])
            for i, done in zip(full, again, strict=True):
                outcomes[i] = done
            full = [i for i in full if outcomes[i].outcome == "lane_full"]
        return outcomes

    def _enqueue_atomic(self, specs: list[JobSpec]) -> Operation[list[Enqueued]]:
        size = sum(len(spec.payload) for spec in specs)
        if len(specs) > MAX_JOBS_PER_CALL or (len(specs) > 1 and size > MAX_BYTES_PER_CALL):
            raise ConfigError(
                f"atomic: expected at most {MAX_JOBS_PER_CALL} jobs and {MAX_BYTES_PER_CALL} bytes "
                f"of payload in one call, given {len(specs)} jobs and {size} bytes"
            )
        return (yield from self.enqueue(specs, atomic=True)) if specs else []

    # ── consumers ───────────────────────────────────────────────────────────────────────────

    def join(self, consumer: str, *, lease_ms: int, name: str) -> Operation[int]:
        return (yield from scripts.join(self.keys, consumer=consumer, lease_ms=lease_ms, name=name))

    def leave(self, consumer: str) -> Operation[int]:
        """Ends a lease; returns how many jobs went back to their places."""
        total, more = 0, True
        while more:
            more, back, _ = yield from scripts.leave(self.keys, consumer=consumer, limit=PAGE)
            total += back
        return total

    def heartbeat(self, consumers: Sequence[str], *, lease_ms: int) -> Operation[list[bool]]:
        """Renews leases; False for each that has ended."""
        reply = yield from scripts.heartbeat(
            self.keys, lease_ms=lease_ms, consumers=Packed(list(consumers))
        )
        return [bool(renewed) for renewed in reply]

    def exchange(
        self,
        consumer: str,
        *,
        number: int,
        want: int,
        prefetch: int,
        park: bool,
        done: Sequence[tuple[str, str]] = (),
    ) -> Operation[Exchanged]:
        """Settles `done` (job, delivery) as completed and claims up to `want` entries."""
        return (
            yield from scripts.exchange(
                self.keys,
                consumer=consumer,
                number=number,
                want=want,
                prefetch=prefetch,
                park=park,
                done=Packed([[id for id, _ in done], [delivery for _, delivery in done]]),
            )
        )

    def settle(self, consumer: str, settlements: Sequence[Settlement]) -> Operation[list[Answer]]:
        """Settles each delivery in its own way; one answer each, in order."""
        answers: list[Answer] = []
        for start in range(0, len(settlements), PAGE):
            rows = [
                (s.id, s.delivery, s.action, s.delay, s.error if s.error else False, s.hold)
                for s in settlements[start : start + PAGE]
            ]
            answers += yield from scripts.settle(self.keys, consumer=consumer, entries=Packed(rows))
        return answers

    def start(self, consumer: str, job: str, delivery: str) -> Operation[str]:
        """Marks a job with a death behind it as started; it may be run on `ok` only."""
        return (yield from scripts.start(self.keys, consumer=consumer, id=job, delivery=delivery))

    def held_by(self, consumer: str, *, number: int) -> Operation[dict[str, str] | None]:
        """Raises the consumer's claim number and lists what it holds, job → delivery.

        None where its lease is gone.
        """
        held: dict[str, str] = {}
        cursor = "0"
        while True:
            status, cursor, pairs = yield from scripts.reconcile_consumer(
                self.keys, consumer=consumer, number=number, cursor=cursor, limit=PAGE
            )
            if status == "lost":
                return None
            held.update(pairs)
            if cursor == "0":
                return held

    def pass_on(self, *, beat_ms: int) -> Operation[int]:
        return (yield from scripts.pass_on(self.keys, beat_ms=beat_ms))

    def beat(self) -> Operation[float | None]:
        """Keeps the queue's time until nothing more is due; returns seconds to the next thing.

        At most 20 pages: what is left is carried on by the next beat of anyone.
        """
        due: float | None = None
        for _ in range(20):
            more, due, _ = yield from scripts.beat(self.keys, limit=PAGE)
            if not more:
                break
        return due

    # ── lanes and the queue ─────────────────────────────────────────────────────────────────

    def lane_set(
        self,
        lane: str,
        *,
        ceiling: int | Unset | None = UNSET,
        weight: float | Unset | None = UNSET,
        backlog: int | Unset | None = UNSET,
    ) -> Operation[None]:
        """Changes a lane's limits; what is UNSET stays, None removes a setting."""
        yield from scripts.lane_set(
            self.keys,
            lane=lane,
            ceiling=_setting(ceiling, config.ceiling),
            weight=_setting(weight, config.weight),
            backlog=_setting(backlog, config.backlog),
        )

    def pause(
        self,
        lane: str,
        *,
        reason: str | None,
        by: str | None,
        until: datetime | float | None,
    ) -> Operation[None]:
        until_ms = -1 if until is None else instant(until, "until")
        yield from scripts.pause(self.keys, lane=lane, until_ms=until_ms, why=_why(reason, by))

    def resume(self, lane: str) -> Operation[bool]:
        return bool((yield from scripts.resume(self.keys, lane=lane)))

    def block(
        self, lane: str, delay: float | timedelta, *, reason: str | None, by: str | None
    ) -> Operation[None]:
        """Keeps the lane out of the ring for a time; only ever extends. 0 blocks nothing."""
        ms = milliseconds(seconds(delay, "delay"))
        if ms > 0:
            yield from scripts.block(self.keys, lane=lane, ms=ms, why=_why(reason, by))

    def unblock(self, lane: str) -> Operation[bool]:
        return bool((yield from scripts.unblock(self.keys, lane=lane)))

    def queue_set(self, *, default_ceiling: int | Unset | None = UNSET) -> Operation[None]:
        """Changes the default ceiling and carries it to the lanes that wait."""
        setting = _setting(default_ceiling, config.ceiling)
        yield from self._set_queue(default_ceiling=setting)
        yield from self.beat()

    def set_lanes(self, limits: Mapping[str, Mapping[str, Any]]) -> Operation[None]:
        """Changes many lanes, lane → the keywords of `lane_set`; all are checked first."""
        calls = []
        for lane, given in _mapping(limits, "set_lanes").items():
            unknown = _mapping(given, f"lane {shown(lane)}").keys() - {
                "ceiling",
                "weight",
                "backlog",
            }
            if unknown:
                raise ConfigError(
                    f"lane {shown(lane)}: expected ceiling, weight or backlog, "
                    f"given {shown(sorted(map(str, unknown)))}"
                )
            calls.append(
                scripts.lane_set(
                    self.keys,
                    lane=names.lane_name(lane),
                    ceiling=_setting(given.get("ceiling", UNSET), config.ceiling),
                    weight=_setting(given.get("weight", UNSET), config.weight),
                    backlog=_setting(given.get("backlog", UNSET), config.backlog),
                )
            )
        for start in range(0, len(calls), PAGE):
            yield from together(calls[start : start + PAGE])

    def shut_gate(self, *, reason: str | None, by: str | None) -> Operation[None]:
        yield from self._set_queue(paused=_why(reason, by))

    def open_gate(self) -> Operation[None]:
        yield from self._set_queue(paused="-")

    def _set_queue(
        self, *, default_ceiling: str = "", dead_max: str = "", dead_age: str = "", paused: str = ""
    ) -> Operation[None]:
        yield from scripts.queue_set(
            self.keys,
            default_ceiling=default_ceiling,
            dead_max=dead_max,
            dead_age=dead_age,
            paused=paused,
        )


def _setting(
    value: float | int | Unset | None, check: Callable[[object], float | int | None]
) -> str:
    """How a script is told of a limit: '' unchanged, '-' removed, else its value."""
    if isinstance(value, Unset):
        return ""
    checked = check(value)
    return "-" if checked is None else repr(checked)


def _why(reason: str | None, by: str | None) -> str:
    note = {"reason": _note(reason, "reason"), "by": _note(by, "by")}
    return _to_json(note).decode()


def _note(text: object, name: str) -> str | None:
    if text is None:
        return None
    if isinstance(text, str) and len(text.encode(errors="replace")) <= MAX_NOTE_BYTES:
        return text.encode(errors="replace").decode()
    raise ConfigError(
        f"{name}: expected text of at most {MAX_NOTE_BYTES} bytes, given {shown(text)}"
    )


def _mapping(value: object, what: str) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    raise ConfigError(f"{what}: expected a mapping of settings, given {shown(value)}")


def check_on_full(on_full: object) -> None:
    if on_full not in ("outcome", "raise", "wait"):
        raise ConfigError(f"on_full: expected 'outcome', 'raise' or 'wait', given {shown(on_full)}")
