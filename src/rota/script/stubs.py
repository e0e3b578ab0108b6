"""The scripts as typed functions, one stub per file in `lua/`. Contracts stand in the files.

Each returns a `Call`; an operation of `store` or `inspector` yields it.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from rota.script import replies
from rota.script.keys import Keys
from rota.script.loader import Packed, Tail, script
from rota.values.names import text_of


@script(replies.outcomes)
def enqueue(
    keys: Keys, *, atomic: bool, large: bool, distinct: bool, jobs: Packed, bodies: Tail
) -> None: ...


@script(replies.exchanged)
def exchange(
    keys: Keys, *, consumer: str, number: int, want: int, prefetch: int, park: bool, done: Packed
) -> None: ...


@script(replies.answers)
def settle(keys: Keys, *, consumer: str, entries: Packed) -> None: ...


@script(replies.beat)
def beat(keys: Keys, *, limit: int, watched_ms: int) -> None: ...


@script(replies.number)
def join(keys: Keys, *, consumer: str, lease_ms: int, name: str) -> None: ...


@script(replies.raw)
def heartbeat(keys: Keys, *, lease_ms: int, consumers: Packed) -> None: ...


@script(replies.raw)
def leave(keys: Keys, *, consumer: str, died: bool, limit: int) -> None: ...


@script(text_of)
def start(keys: Keys, *, consumer: str, id: str, delivery: str) -> None: ...


@script(replies.page_of_held)
def reconcile_consumer(
    keys: Keys, *, consumer: str, number: int, cursor: str, limit: int
) -> None: ...


@script(replies.number)
def pass_on(keys: Keys, *, beat_ms: int) -> None: ...


@script(replies.number)
def lane_set(
    keys: Keys, *, lane: str, ceiling: str, weight: str, rate: str, backlog: str, template: str
) -> None: ...


@script(replies.number)
def pause(keys: Keys, *, lane: str, until_ms: int, why: str) -> None: ...


@script(replies.number)
def resume(keys: Keys, *, lane: str) -> None: ...


@script(replies.number)
def block(keys: Keys, *, lane: str, ms: int, why: str) -> None: ...


@script(replies.number)
def unblock(keys: Keys, *, lane: str) -> None: ...


@script(replies.number)
def queue_set(
    keys: Keys,
    *,
    default_ceiling: str,
    default_weight: str,
    ceiling: str,
    dead_max: str,
    dead_age: str,
    declared: bool,
) -> None: ...


@script(replies.number)
def template_set(
    keys: Keys, *, name: str, ceiling: str, weight: str, rate: str, backlog: str
) -> None: ...


@script(replies.number)
def template_drop(keys: Keys, *, name: str) -> None: ...


@script(replies.templates)
def templates(keys: Keys) -> None: ...


@script(replies.number)
def gate_shut(keys: Keys, *, until_ms: int, why: str) -> None: ...


@script(replies.number)
def gate_open(keys: Keys) -> None: ...


@script(replies.answers_of_dead)
def replay(keys: Keys, *, ids: Packed) -> None: ...


@script(replies.answers_of_dead)
def discard(keys: Keys, *, ids: Packed) -> None: ...


@script(replies.raw)
def purge(keys: Keys, *, lane: str, limit: int, total: str) -> None: ...


@script(replies.lanes_to_purge)
def purge_page(keys: Keys, *, cursor: str, limit: int) -> None: ...


@script(text_of)
def cancel(keys: Keys, *, id: str, by: str) -> None: ...


@script(replies.cancelled_page)
def cancel_running(
    keys: Keys, *, consumer: str, lane: str, by: str, cursor: str, limit: int
) -> None: ...


@script(replies.asked)
def asked_page(keys: Keys, *, consumers: Packed, after: int, cursor: str, limit: int) -> None: ...


@script(tuple)
def move(keys: Keys, *, source: str, target: str, cursor: bytes, limit: int) -> None: ...


@script(tuple)
def reprioritize(keys: Keys, *, lane: str, priority: int, cursor: bytes, limit: int) -> None: ...


@script(replies.consumers)
def consumers_page(keys: Keys, *, cursor: str, limit: int) -> None: ...


@script(replies.lanes_named)
def lanes_named(keys: Keys, *, lanes: Packed) -> None: ...


@script(replies.lanes)
def lanes_page(keys: Keys, *, cursor: Packed, limit: int) -> None: ...


@script(replies.lanes)
def turns_page(keys: Keys, *, cursor: Packed, limit: int) -> None: ...


@script(replies.queue_info)
def queue_info(keys: Keys) -> None: ...


@script(replies.job_info)
def job_info(keys: Keys, *, id: str) -> None: ...


@script(replies.jobs)
def waiting_page(
    keys: Keys, *, lane: str, task: str, cursor: Packed, limit: int, looks: int
) -> None: ...


@script(replies.jobs)
def running_page(
    keys: Keys, *, lane: str, task: str, cursor: Packed, limit: int, looks: int
) -> None: ...


@script(replies.jobs)
def timed_page(
    keys: Keys, *, kind: str, lane: str, task: str, cursor: Packed, limit: int, looks: int
) -> None: ...


@script(replies.sequence_info)
def sequence_info(keys: Keys, *, lane: str, key: str) -> None: ...


@script(replies.sequences)
def sequences_page(keys: Keys, *, lane: str, cursor: Packed, limit: int, looks: int) -> None: ...


@script(text_of)
def skip(keys: Keys, *, lane: str, key: str, id: str, by: str) -> None: ...


@script(text_of)
def hasten(keys: Keys, *, id: str) -> None: ...


@script(replies.number)
def order(keys: Keys, *, consumer: str, word: str) -> None: ...


@script(replies.texts)
def orders_of(keys: Keys, *, consumers: Packed) -> None: ...


@script(replies.raw)
def explain_job(keys: Keys, *, id: str) -> None: ...


@script(replies.raw)
def explain_lane(keys: Keys, *, lane: str) -> None: ...


@script(replies.holder)
def holder_page(keys: Keys, *, id: str, cursor: str, limit: int) -> None: ...


@script(replies.held_of_lane)
def held_page(keys: Keys, *, consumer: str, lane: str, cursor: str, limit: int) -> None: ...


@script(replies.texts)
def tasks_of(keys: Keys, *, ids: Packed) -> None: ...


@script(replies.audited)
def audit_page(keys: Keys, *, kind: str, cursor: str, limit: int, names: Tail) -> None: ...


@script(replies.mended)
def audit_mend(keys: Keys, *, things: Tail) -> None: ...


@script(replies.raw)
def audit_keys(keys: Keys, *, pattern: str, cursor: str, limit: int) -> None: ...


@script(replies.raw)
def audit_recount(keys: Keys, *, lane: bytes, first: int, limit: int) -> None: ...


@script(replies.raw)
def audit_sums(keys: Keys, *, active: bool, cursor: str, limit: int) -> None: ...


@script(replies.rights)
def rights(keys: Keys, *, commands: Packed, names: Tail) -> None: ...
