"""Consumers and what they hold: leases, claims, settlements, the queue's time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from rota.script import stubs
from rota.script.keys import Keys
from rota.script.loader import Operation, Packed
from rota.values.model import Answer, Exchanged, Holdings, Instruction, Settlement

PAGE = 200
BEAT_PAGE = 100
"""Of each kind of thing a beat does; all of them together stay near 10 ms."""
BEATS = 100
ASKED_PAGE = 1000


def _row(one: Settlement) -> tuple[object, ...]:
    """As settle.lua takes it."""
    ran = False if one.ran is None else one.ran
    error = one.error or False
    return (one.id, one.delivery, one.action, one.delay, error, one.hold, one.unstarted, ran)


def _answer_again(answers: Sequence[Answer]) -> Answer:
    """What is said of a delivery that was named before, in the same call."""
    return "lost" if "lost" in answers else "settled"


class Claiming:
    """The part of the store that hands jobs out and takes their endings."""

    keys: Keys

    def join(self, consumer: str, *, lease_ms: int, name: str) -> Operation[int]:
        return (yield from stubs.join(self.keys, consumer=consumer, lease_ms=lease_ms, name=name))

    def leave(self, consumer: str, *, died: bool = False) -> Operation[int]:
        """Ends a lease; returns how many jobs went back to their places.

        `died`: its process has; a job that had started counts a death.
        """
        total, more = 0, True
        while more:
            more, back, _ = yield from stubs.leave(
                self.keys, consumer=consumer, died=died, limit=PAGE
            )
            total += back
        return total

    def evict(self, consumer: str) -> Operation[int | None]:
        """Ends another's lease; returns how many jobs went back, None where it has no lease."""
        more, total, known = yield from stubs.leave(
            self.keys, consumer=consumer, died=False, limit=PAGE
        )
        return total + ((yield from self.leave(consumer)) if more else 0) if known else None

    def heartbeat(
        self, consumers: Sequence[str], *, lease_ms: int
    ) -> Operation[list[Holdings | None]]:
        """Renews leases; what each of these consumers holds, None where its lease has ended."""
        reply = yield from stubs.heartbeat(
            self.keys, lease_ms=lease_ms, consumers=Packed(list(consumers))
        )
        return [Holdings(*map(int, row)) if row else None for row in reply]

    def exchange(
        self,
        consumer: str,
        *,
        number: int,
        want: int,
        prefetch: int,
        park: bool,
        done: Sequence[tuple[str, str]] = (),
        ran: Sequence[float | None] = (),
        within: float | None = None,
    ) -> Operation[Exchanged]:
        """Settles `done` (job, delivery) as completed and claims up to `want` entries.

        `ran`: for how many seconds each of `done` ran, where that is charged. `within`: after how
        many seconds what was claimed would be of no use.
        """
        # The script takes a delivery once, and says nothing where all are ok.
        once = done if len(set(done)) == len(done) else list(dict.fromkeys(done))
        columns: list[list[object]] = [[id for id, _ in once], [delivery for _, delivery in once]]
        if any(seconds is not None for seconds in ran):
            took = dict(zip(reversed(done), reversed(ran), strict=True))  # a first one counts
            columns.append([False if took[one] is None else took[one] for one in once])
        call = stubs.exchange(
            self.keys,
            consumer=consumer,
            number=number,
            want=want,
            prefetch=prefetch,
            park=park,
            done=Packed(columns),
        )
        call.within = within
        reply = yield from call
        answers: list[Answer] = reply.answers or ["ok"] * len(once)
        if once is not done:
            words, again = dict(zip(once, answers, strict=True)), _answer_again(answers)
            answers = [words.pop(one, again) for one in done]
        return replace(reply, answers=answers, delivery=str(number))

    def settle(self, consumer: str, settlements: Sequence[Settlement]) -> Operation[list[Answer]]:
        """Settles each delivery in its own way; one answer each, in order."""
        answers: list[Answer] = []
        for start in range(0, len(settlements), PAGE):
            rows = [_row(one) for one in settlements[start : start + PAGE]]
            answers += yield from stubs.settle(self.keys, consumer=consumer, entries=Packed(rows))
        return answers

    def start(self, consumer: str, job: str, delivery: str) -> Operation[str]:
        """Marks a job with a death behind it as started; it may be run on `ok` only."""
        return (yield from stubs.start(self.keys, consumer=consumer, id=job, delivery=delivery))

    def deliveries_of(self, consumer: str, *, number: int) -> Operation[dict[str, str] | None]:
        """Raises the consumer's claim number and lists what it holds, job → delivery.

        None where its lease is gone.
        """
        held: dict[str, str] = {}
        cursor = "0"
        while True:
            status, cursor, pairs = yield from stubs.reconcile_consumer(
                self.keys, consumer=consumer, number=number, cursor=cursor, limit=PAGE
            )
            if status == "lost":
                return None
            held.update(pairs)
            if cursor == "0":
                return held

    def pass_on(self, *, beat_ms: int) -> Operation[int]:
        return (yield from stubs.pass_on(self.keys, beat_ms=beat_ms))

    def beat(self, *, watched_ms: int = 0) -> Operation[float | None]:
        """Keeps the queue's time until nothing more is due; returns seconds to the next thing.

        As `keep_time`.
        """
        due, _ = yield from self.keep_time(watched_ms=watched_ms)
        return due

    def keep_time(self, *, watched_ms: int) -> Operation[tuple[float | None, bool]]:
        """Seconds to the next thing due, once nothing more is; whether to look at `asked`.

        `watched_ms`: for how long the caller has kept leases here without a break. One that was
        there through a silence of the queue is a witness that the server was away.
        At most 100 pages: what is left is carried on by the next beat of anyone.
        """
        due: float | None = None
        asked = False
        for _ in range(BEATS):
            more, due, _, asked = yield from stubs.beat(
                self.keys, limit=BEAT_PAGE, watched_ms=watched_ms
            )
            if not more:
                break
        return due, asked

    def order(self, consumer: str, word: Instruction) -> Operation[bool]:
        """Asks the process of a consumer to be quiet or to stop; False where it has no lease."""
        return bool((yield from stubs.order(self.keys, consumer=consumer, word=word)))

    def orders(self, consumers: Sequence[str]) -> Operation[dict[str, Instruction]]:
        """What was asked of these consumers, of those of whom something was."""
        words = yield from stubs.orders_of(self.keys, consumers=Packed(list(consumers)))
        pairs = zip(consumers, words, strict=True)
        return {consumer: cast(Instruction, word) for consumer, word in pairs if word}

    def asked(self, consumers: Sequence[str]) -> Operation[dict[str, list[tuple[str, str]]]]:
        """Jobs in these consumers' hands that were asked to be cancelled, with their deliveries."""
        found: dict[str, list[tuple[str, str]]] = {}
        after, cursor = 0, "0"
        while after < len(consumers):
            after, cursor, rows = yield from stubs.asked_page(
                self.keys,
                consumers=Packed(list(consumers)),
                after=after,
                cursor=cursor,
                limit=ASKED_PAGE,
            )
            for consumer, id, delivery in rows:
                found.setdefault(consumer, []).append((id, delivery))
        return found
