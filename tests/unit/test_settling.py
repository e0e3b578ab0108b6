"""Endings on their way to the server: what is sent again, what is counted, who is told."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rota.consume.deliveries import Deliveries, Ended
from rota.observe.observer import JobCounts
from rota.script.keys import Keys
from rota.store import Store
from rota.values.endings import Failed, burial
from rota.values.model import Job, Settlement
from rota.values.signals import Bury
from rota.work.settling import MAX_SETTLED, Settling, Tally


def job(id: str, charge: str = "cost") -> Job:
    return Job(
        id=id, task="work", lane="a", ordering_key=None, priority=0, attempt=1, max_attempts=5,
        timeout=None, on_dead="skip", charge=charge, expires=None, enqueued_at=0.0, payload=b"{}",
        delivery="1", suspect=False, place=1,
    )  # fmt: skip


class Desk:
    """What settles, with jobs in hand, and how often the loop was woken."""

    def __init__(self, *jobs: Job) -> None:
        self.woken = 0
        woken: Any = SimpleNamespace(set=self._wake)
        deliveries = Deliveries(Store(Keys("q")), lease_ms=1000, decode=lambda job: None)
        deliveries.jobs.update({one.id: one for one in jobs})
        self.deliveries = deliveries
        self.settling = Settling("q", deliveries, woken)

    def _wake(self) -> None:
        self.woken += 1


def test_a_job_is_equal_to_itself_only() -> None:
    one, twin = job("a"), job("a")
    assert one != twin
    assert {one: 1, twin: 2}[one] == 1
    one.args = (1,)
    assert hash(one) != hash(twin)


def test_the_loop_is_woken_once_until_it_takes_what_there_is() -> None:
    jobs = [job(f"j{n}") for n in range(4)]
    desk = Desk(*jobs)
    for one in jobs[:3]:
        desk.settling.end(one, None)
    assert desk.woken == 1
    assert desk.settling.take().done == jobs[:3]
    assert not desk.settling
    desk.settling.end(jobs[3], Bury("no"))
    assert desk.woken == 2
    (other,) = desk.settling.take().others
    assert (other.job, other.what.action) == (jobs[3], "bury")


def test_what_is_more_than_one_exchange_carries_follows() -> None:
    jobs = [job(f"j{n}") for n in range(MAX_SETTLED + 1)]
    desk = Desk(*jobs)
    for one in jobs:
        desk.settling.end(one, None)
    assert desk.settling.take().done == jobs[:-1]
    assert desk.woken == 2, "the loop has to come again"
    assert desk.settling.take().done == jobs[-1:]
    assert not desk.settling.take()


def test_what_had_no_answer_is_sent_again_before_what_ended_since() -> None:
    first, second, third = jobs = [job("a"), job("b"), job("c")]
    desk = Desk(*jobs)
    desk.settling.end(first, None)
    desk.settling.end(second, Failed(error="e", kind="E"))
    batch = desk.settling.take()
    desk.settling.settled(batch, ["ok"])
    desk.settling.end(third, None)
    desk.settling.put_back(batch)
    again = desk.settling.take()
    assert (again.done, again.others) == ([first, third], [])


@pytest.mark.parametrize("counts_them", [False, True])
def test_answers_are_counted(counts_them: bool) -> None:
    jobs = [job(f"j{n}") for n in range(5)]
    desk, counts = Desk(*jobs), JobCounts()
    if counts_them:
        desk.settling.observer = counts
    for one in jobs[:3]:
        desk.settling.end(one, None)
    desk.settling.end(jobs[3], Bury("no"))
    desk.settling.end(jobs[4], Failed(error="e", kind="E"))
    batch = desk.settling.take()
    desk.settling.settled(batch, ["ok", "settled"])
    desk.settling.completed(batch, ["ok", "settled", "lost"])
    assert desk.settling.tally == Tally(done=2, retried=1, dead=1, lost=1)
    counted = {("work", "completed"): 2, ("work", "lost"): 1}
    counted |= {("work", "buried"): 1, ("work", "retried"): 1}
    assert counts.jobs == (counted if counts_them else {})


def test_every_job_has_to_have_its_answer() -> None:
    desk = Desk(one := job("a"))
    desk.settling.end(one, None)
    with pytest.raises(ValueError, match="0 answers for 1 job"):
        desk.settling.completed(desk.settling.take(), [])


def test_what_could_not_be_run_is_dead_when_the_server_has_buried_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk, counts = Desk(), JobCounts()
    desk.settling.observer = counts
    bury = burial("x", "1", "broken", hold=False)
    back = Settlement("y", "1", "release", unstarted=True)
    desk.settling.take_over([Ended(None, bury, "broken"), Ended(job("y"), back, "expired")])
    batch = desk.settling.take()
    assert (desk.woken, len(batch.others)) == (1, 2)
    assert (desk.settling.tally, caplog.messages) == (Tally(), [])
    desk.settling.settled(batch, ["ok", "ok"])
    assert desk.settling.tally == Tally(dead=1)
    assert counts.jobs == {("", "refused"): 1}
    assert caplog.messages == ["job x was not run and is dead: broken"]
    assert vars(caplog.records[0])["queue"] == "q"


def test_a_job_refused_under_a_lost_lease_is_left_to_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()
    desk.settling.take_over([Ended(None, burial("x", "1", "broken", hold=False), "broken")])
    desk.settling.lose()
    assert (bool(desk.settling), desk.settling.tally, caplog.messages) == (False, Tally(), [])


def test_a_delivery_that_is_not_in_hand_is_not_sent() -> None:
    desk = Desk(held := job("a"))
    desk.settling.end(job("a"), None)
    assert (bool(desk.settling), desk.settling.tally.lost) == (False, 1)
    desk.settling.lease_lost = True
    desk.settling.end(held, None)
    assert (bool(desk.settling), desk.settling.tally.lost) == (False, 2)


async def test_who_waits_is_told_of_the_answer_and_of_a_lost_lease() -> None:
    accepted, lost = jobs = [job("a"), job("b")]
    desk = Desk(*jobs)
    waiting = [asyncio.create_task(desk.settling.answered(one)) for one in jobs]
    desk.settling.end(accepted, None)
    batch = desk.settling.take()
    desk.settling.end(lost, None)
    await asyncio.sleep(0)
    desk.deliveries.let_go(batch.done)
    desk.settling.completed(batch, ["ok"])
    await asyncio.wait_for(waiting[0], 5)
    assert not waiting[1].done()
    desk.settling.lose()
    await asyncio.wait_for(waiting[1], 5)
    assert desk.settling.tally == Tally(done=1, lost=1)
    await asyncio.wait_for(desk.settling.answered(lost), 5)


def test_a_job_charged_by_time_ends_when_its_handler_does() -> None:
    desk = Desk(one := job("a", charge="time"))
    one.begin()
    desk.settling.end(one, None)
    assert one.took is not None
    assert one.ran() == one.took
