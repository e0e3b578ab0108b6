"""Storing jobs: in calls of bounded size, one outcome each, safe to send again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from rota.errors import (
    BatchInterrupted,
    ConfigError,
    LaneBroken,
    LaneFull,
    NotDurable,
    QueueBroken,
    QueueClosed,
    RotaError,
    ServerFull,
    ServerTooOld,
)
from rota.script import stubs
from rota.script.keys import Keys
from rota.script.loader import Call, Confirm, Operation, Packed, Reply, Tail, Wait
from rota.values.config import Durable
from rota.values.jobspec import JobSpec
from rota.values.model import Enqueued, JobState, OnFull, Outcome
from rota.values.names import shown

T = TypeVar("T")

MAX_JOBS_PER_CALL = 1000
MAX_BYTES_PER_CALL = 2 * 1024 * 1024
LARGE_BYTES = 2048
FULL_PAUSE_S = 0.25

_NOTHING_WRITTEN = (ConfigError, QueueBroken, QueueClosed, ServerFull, ServerTooOld)
_OUTCOMES: dict[str, tuple[Outcome, JobState | None]] = {
    "c": ("created", None),
    "w": ("duplicate", "waiting"),
    "l": ("duplicate", "delayed"),
    "r": ("duplicate", "running"),
    "x": ("duplicate", "dead"),
    "d": ("duplicate", None),
    "f": ("lane_full", None),
    "b": ("lane_broken", None),
}
_STORED = ("created", "duplicate")


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


def _interrupted(
    outcomes: Sequence[Enqueued], sent: Sequence[JobSpec], error: Exception
) -> BatchInterrupted:
    """A call's worth was sent, and failed like this."""
    unsure = [] if isinstance(error, _NOTHING_WRITTEN) else sent
    return BatchInterrupted(outcomes, unsure, _cause(error))


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _columns(specs: Sequence[JobSpec]) -> Packed:
    """Jobs by column, so that what no job uses costs one byte."""
    columns: list[list[object]] = [
        [spec.ordering_key or False for spec in specs],
        [spec.priority or False for spec in specs],
        [spec.delay_ms or False for spec in specs],
        [spec.at_ms or False for spec in specs],
        [_charge(spec) for spec in specs],
    ]
    return Packed(
        [
            [spec.id for spec in specs],
            [spec.lane for spec in specs],
            *(column if any(column) else False for column in columns),
        ]
    )


def _charge(spec: JobSpec) -> object:
    """What the server keeps: nothing of the usual 1; where time is charged, for which task."""
    if spec.charge == "time":
        return f"t,{spec.task}"
    return False if spec.cost == 1 else spec.cost


def _confirmed(call: Call[T], durable: Durable) -> Operation[tuple[T, Reply]]:
    """The call's result, and what the server says of its durability."""
    call.confirm = Confirm(durable.fsync, durable.replicas, durable.timeout_ms)
    call.room = "durable"
    reply, confirmed = yield call
    return call.decode(reply), confirmed


def _check_confirmed(durable: Durable, confirmed: Reply, outcomes: list[Enqueued]) -> None:
    if isinstance(confirmed, Exception):
        raise NotDurable(f"the server confirms nothing ({confirmed}); the jobs exist", outcomes)
    synced, replicas = confirmed if durable.fsync else (1, confirmed)
    if synced < 1 or replicas < durable.replicas:
        asked = [(durable.fsync, "fsync" if synced else "no fsync")]
        asked.append((durable.replicas > 0, f"{replicas} of {durable.replicas} replicas"))
        have = ", ".join(text for wanted, text in asked if wanted)
        raise NotDurable(
            f"not confirmed within {durable.timeout_ms / 1000:g} s ({have}); the jobs exist and "
            "may be lost with the server (one with appendfsync no never confirms an fsync)",
            outcomes,
        )


class Enqueueing:
    """The part of the store that takes jobs in."""

    keys: Keys

    def enqueue(
        self,
        specs: Sequence[JobSpec],
        *,
        atomic: bool = False,
        durable: Durable | None = None,
        within: float | None = None,
    ) -> Operation[list[Enqueued]]:
        """Stores at most one call's worth of jobs; outcomes in order. Safe to send again, which
        ends after `within` seconds.

        With `durable` it returns when the server has confirmed that, and raises NotDurable
        when it did not in time.
        """
        call = stubs.enqueue(
            self.keys,
            atomic=atomic,
            large=any(len(spec.payload) > LARGE_BYTES for spec in specs),
            distinct=len({spec.id for spec in specs}) == len(specs),
            jobs=_columns(specs),
            bodies=Tail([spec.body for spec in specs]),
        )
        call.within, call.room = within, "enqueues"
        if durable is None:
            status, text = yield from call
        else:
            (status, text), confirmed = yield from _confirmed(call, durable)
        if status == "full":
            raise LaneFull(text)
        if status == "broken":
            raise LaneBroken(text)
        outcomes = [
            Enqueued(spec.id, *_OUTCOMES[letter]) for spec, letter in zip(specs, text, strict=True)
        ]
        if durable is not None and any(done.outcome in _STORED for done in outcomes):
            _check_confirmed(durable, confirmed, outcomes)
        return outcomes

    def enqueue_one(self, spec: JobSpec, *, durable: Durable | None = None) -> Operation[Enqueued]:
        """Stores one job; raises LaneFull and LaneBroken where its lane refuses it."""
        (done,) = yield from self.enqueue([spec], durable=durable)
        if error := refusal(spec, done):
            raise error
        return done

    def enqueue_many(
        self,
        specs: Iterable[JobSpec],
        *,
        on_full: OnFull,
        wait: float,
        atomic: bool = False,
        durable: Durable | None = None,
    ) -> Operation[list[Enqueued]]:
        """Stores any number of jobs, in calls of bounded size.

        LaneBroken is raised when all of them have been sent: it concerns one lane's alone.
        """
        check_on_full(on_full)
        if atomic:
            return (yield from self._enqueue_atomic(list(specs), durable))
        outcomes: list[Enqueued] = []
        broken: str | None = None
        parts = chunks(specs)
        while chunk := next_chunk(parts, outcomes, first=not outcomes):
            try:
                part = yield from self._enqueue_chunk(
                    chunk, on_full=on_full, wait=wait, durable=durable
                )
            except LaneFull as error:
                raise LaneFull(error.lane, outcomes + error.outcomes) from error
            except NotDurable as error:
                raise NotDurable(str(error), outcomes + error.outcomes) from error
            except BatchInterrupted as error:
                raise BatchInterrupted(
                    outcomes + error.outcomes, error.unsure, error.cause
                ) from error.__cause__
            except Exception as error:
                certain = isinstance(error, _NOTHING_WRITTEN) or len(chunk) == 1
                if not outcomes and certain and isinstance(error, RotaError):
                    raise
                raise _interrupted(outcomes, chunk, error) from error
            outcomes += part
            pairs = zip(chunk, part, strict=True)
            first = (spec.lane for spec, done in pairs if done.outcome == "lane_broken")
            broken = broken or next(first, None)
        if broken is not None:
            raise LaneBroken(broken, outcomes)
        return outcomes

    def enqueue_part(
        self, chunk: list[JobSpec], *, on_full: OnFull, wait: float, durable: Durable | None = None
    ) -> Operation[list[Enqueued]]:
        """One chunk of a stream, whose earlier outcomes the caller has."""
        try:
            return (
                yield from self._enqueue_chunk(chunk, on_full=on_full, wait=wait, durable=durable)
            )
        except (LaneFull, NotDurable, BatchInterrupted, *_NOTHING_WRITTEN):
            raise
        except Exception as error:
            raise _interrupted([], chunk, error) from error

    def _enqueue_chunk(
        self, chunk: list[JobSpec], *, on_full: OnFull, wait: float, durable: Durable | None
    ) -> Operation[list[Enqueued]]:
        """One call's worth; with `wait`, jobs of full lanes are sent again for so many seconds."""
        outcomes = yield from self.enqueue(chunk, durable=durable)
        full = [i for i, done in enumerate(outcomes) if done.outcome == "lane_full"]
        if full and on_full == "raise":
            raise LaneFull(chunk[full[0]].lane, outcomes)
        pauses = int(wait / FULL_PAUSE_S) if on_full == "wait" else 0
        while full and pauses > 0:
            yield Wait(FULL_PAUSE_S)
            pauses -= 1
            trouble: NotDurable | None = None
            try:
                again = yield from self.enqueue([chunk[i] for i in full], durable=durable)
            except NotDurable as error:
                trouble, again = error, error.outcomes
            except Exception as error:
                if not isinstance(error, _NOTHING_WRITTEN):
                    outcomes = [done for i, done in enumerate(outcomes) if i not in full]
                raise _interrupted(outcomes, [chunk[i] for i in full], error) from error
            for i, done in zip(full, again, strict=True):
                outcomes[i] = done
            if trouble is not None:
                raise NotDurable(str(trouble), outcomes) from trouble
            full = [i for i in full if outcomes[i].outcome == "lane_full"]
        return outcomes

    def _enqueue_atomic(
        self, specs: list[JobSpec], durable: Durable | None
    ) -> Operation[list[Enqueued]]:
        size = sum(len(spec.payload) for spec in specs)
        if len(specs) > MAX_JOBS_PER_CALL or (len(specs) > 1 and size > MAX_BYTES_PER_CALL):
            raise ConfigError(
                f"atomic: expected at most {MAX_JOBS_PER_CALL} jobs and {MAX_BYTES_PER_CALL} bytes "
                f"of payload in one call, given {len(specs)} jobs and {size} bytes"
            )
        if not specs:
            return []
        return (yield from self.enqueue(specs, atomic=True, durable=durable))


def refusal(spec: JobSpec, done: Enqueued) -> RotaError | None:
    """What a single job's caller is told where its lane refused it."""
    if done.outcome == "lane_full":
        return LaneFull(spec.lane)
    return LaneBroken(spec.lane) if done.outcome == "lane_broken" else None


def check_on_full(on_full: object) -> None:
    if on_full not in ("outcome", "raise", "wait"):
        raise ConfigError(f"on_full: expected 'outcome', 'raise' or 'wait', given {shown(on_full)}")
