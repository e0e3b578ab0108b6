"""No interleaving leaves work with nobody to look, and each rule is needed for that.

The small worlds run always. `ROTA_SEARCH=large` adds larger ones, minutes and some GB each.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from rota.consume.doorbell import Actions, Doorbell, PassOn
from tests.model.doorbell_search import Findings, Plan, search

ONE_EACH = ((1,), (1,))
ALONE = ((1, 1),)  # one process, two waiters
TWO_AND_ONE = ((1, 1), (1,))  # two waiters of one slot, sharing a blocker
WIDE_AND_ONE = ((2,), (1,))  # a worker's fetch loop for two slots

SMALL = {
    "two jobs": Plan(ONE_EACH, {"one": 2}),
    "a batch": Plan(ONE_EACH, {"two": 1}),
    "a job, a delayed one": Plan(ONE_EACH, {"one": 1, "delayed": 1}),
    "one call, both kinds": Plan(ONE_EACH, {"one and delayed": 1}),
    "leaving": Plan(ONE_EACH, {"one and delayed": 1, "cancel": 1}),
    "stopping": Plan(ONE_EACH, {"one": 1, "cancel": 1, "stop": 1}),
    "stopping in time": Plan(ONE_EACH, {"delayed": 1, "stop": 1}),
    "claims that fail": Plan(ONE_EACH, {"one": 1, "fail": 1}),
    "claims that fail in time": Plan(ONE_EACH, {"delayed": 1, "fail": 1}),
    "blockers that break": Plan(ONE_EACH, {"one": 1, "lost": 1}),
    "scripts that fail": Plan(ONE_EACH, {"one": 1, "cancel": 1, "pass_on fails": 1}),
    "two waiters alone": Plan(ALONE, {"delayed": 1}),
    "two waiters alone, one call": Plan(ALONE, {"one and delayed": 1}),
    "two waiters, a job": Plan(TWO_AND_ONE, {"one": 1}),
    "two slots, a batch": Plan(WIDE_AND_ONE, {"two": 1}),
    "two slots, both kinds": Plan(WIDE_AND_ONE, {"one and delayed": 1}),
}

LARGE = {
    "two dues": Plan(ONE_EACH, {"delayed": 1, "later": 1}),
    "three processes": Plan(((1,), (1,), (1,)), {"one and delayed": 1}),
    "two slots, all kinds": Plan(WIDE_AND_ONE, {"one": 1, "delayed": 1, "cancel": 1}),
    "two waiters, both kinds": Plan(TWO_AND_ONE, {"one": 1, "delayed": 1}),
    "two waiters, one call": Plan(TWO_AND_ONE, {"one and delayed": 1}),
    "three kinds of work": Plan(ONE_EACH, {"one": 1, "delayed": 1, "later": 1}),
    "leaving and work": Plan(ONE_EACH, {"one": 1, "delayed": 1, "cancel": 1}),
    "failing and work": Plan(ONE_EACH, {"one": 1, "delayed": 1, "fail": 1}),
    "stopping and work": Plan(ONE_EACH, {"one": 1, "delayed": 1, "stop": 1}),
    "breaking and work": Plan(ONE_EACH, {"one": 1, "delayed": 1, "lost": 1}),
    "all faults": Plan(ONE_EACH, {"one": 1, "cancel": 1, "fail": 1, "lost": 1, "stop": 1}),
}


class IgnoresTokensInFlight(Doorbell[int]):
    """A token that comes while a claim is in flight counts as answered by it."""

    def token(self) -> Actions[int]:
        return () if self._flying else super().token()


class DropsTokensWhenFull(Doorbell[int]):
    """A process without an idle waiter keeps a token to itself."""

    def token(self) -> Actions[int]:
        return super().token() if self._idle or self._poked else ()


class ForgetsThePoked(Doorbell[int]):
    """Who goes takes the debt along."""

    def gone(self, waiter: int, *, now: float) -> Actions[int]:
        self._forget(waiter)
        return self._leave(owes=False, now=now)


class KeepsNoTimeWhenFull(Doorbell[int]):
    """A process that fills up hands no due time on."""

    def _leave(self, *, owes: bool, now: float, rung: bool = False) -> Actions[int]:
        if not (self._idle or self._poked or self._flying):
            self._due = None
        return super()._leave(owes=owes, now=now, rung=rung)


class LatestAnswerWins(Doorbell[int]):
    """The answer read last is taken for the newest, whenever its claim was sent."""

    def _learn(self, flight: object, due: float | None) -> None:
        self._due = due


class FullClaimPays(Doorbell[int]):
    """A claim that came back full pays its debt, though it told no due time."""

    def busy(self, waiter: int, *, left: bool, now: float) -> Actions[int]:
        self._flying.pop(waiter, None)
        return super().busy(waiter, left=left, now=now)


class FailureOwesOnlyWhatRested(Doorbell[int]):
    """A failed claim hands on a debt that rested on it, but none of its own."""

    def failed(self, waiter: int, *, now: float) -> Actions[int]:
        flight = self._flying.get(waiter)
        self._forget(waiter)
        return self._leave(owes=flight is not None and flight.owes, now=now)


class ParksAgainWithoutLooking(Doorbell[int]):
    """After an error of the blocker it just parks again."""

    def lost(self) -> Actions[int]:
        return ()


class MissesTimersInFlight(Doorbell[int]):
    """A due time that comes while nobody is idle is forgotten."""

    def timer(self, now: float) -> Actions[int]:
        return tuple(action for action in super().timer(now) if not isinstance(action, PassOn))


class TrustsTheUnlooked(Doorbell[int]):
    """A waiter may fall asleep without a claim of its own."""

    def idle(
        self, waiter: int, *, due_in: float | None, taken: bool, left: bool, now: float
    ) -> Actions[int]:
        self.sending(waiter)
        return super().idle(waiter, due_in=due_in, taken=taken, left=left, now=now)


class ParksWhenFull(Doorbell[int]):
    """A process without an idle waiter parks all the same."""

    def wants_park(self) -> bool:
        return True


def broken(plan: Plan, bell: type[Doorbell[int]]) -> Plan:
    return replace(plan, bell=bell)


JOB_LEAVES = Plan(ONE_EACH, {"one": 1, "cancel": 1})
TIME_LEAVES = Plan(ONE_EACH, {"delayed": 1, "cancel": 1})
NEVER_BACK = Plan(ONE_EACH, {"delayed": 1, "fail": 1, "cancel": 1})
TIMER_ALONE = Plan(ALONE, {"delayed": 1, "cancel": 1})
UNLOOKED = Plan(ONE_EACH, {"one": 1}, look=False, unrung=1)

BROKEN = {
    "tokens ignored in flight": broken(JOB_LEAVES, IgnoresTokensInFlight),
    "tokens dropped when full": broken(JOB_LEAVES, DropsTokensWhenFull),
    "debts of the gone forgotten": broken(JOB_LEAVES, ForgetsThePoked),
    "no time kept when full": broken(TIME_LEAVES, KeepsNoTimeWhenFull),
    "latest answer wins": broken(SMALL["two waiters alone"], LatestAnswerWins),
    "full claims pay": broken(SMALL["one call, both kinds"], FullClaimPays),
    "failures owe nothing": broken(NEVER_BACK, FailureOwesOnlyWhatRested),
    "late claims": replace(NEVER_BACK, settle=False),
    "no look after a loss": broken(SMALL["blockers that break"], ParksAgainWithoutLooking),
    "timers missed in flight": broken(TIMER_ALONE, MissesTimersInFlight),
    "falling asleep without a look": broken(UNLOOKED, TrustsTheUnlooked),
    "no chain": replace(SMALL["a batch"], chain=False),
    "dues not announced": replace(Plan(ONE_EACH, {"delayed": 1}), announce=False),
    "passed on for work only": replace(TIME_LEAVES, pass_on_due=False),
    "stopping with a BLPOP unread": replace(SMALL["stopping"], see_out=False),
}


def explain(found: Findings) -> str:
    return "\n".join(["deaf:", *(found.deaf or ()), "spin:", *(found.spin or ())])


@pytest.mark.parametrize("name", SMALL)
def test_no_interleaving_of_a_small_world_leaves_work_unheard(name: str) -> None:
    found = search(SMALL[name])
    assert found.deaf is None, explain(found)
    assert found.spin is None, explain(found)
    assert found.complete, f"{found.states} states and not at the end"


@pytest.mark.parametrize("name", BROKEN)
def test_each_rule_broken_leaves_work_unheard(name: str) -> None:
    found = search(BROKEN[name], limit=200_000)
    assert found.deaf is not None, f"nothing found in {found.states} states"


def test_a_full_process_that_parks_hands_its_token_round_and_round() -> None:
    found = search(broken(SMALL["two jobs"], ParksWhenFull), limit=200_000)
    assert found.spin is not None, f"nothing found in {found.states} states"


def test_a_waiter_that_registers_without_a_look_is_made_to_look() -> None:
    found = search(UNLOOKED, limit=200_000)
    assert found.deaf is None, explain(found)
    assert found.complete


@pytest.mark.skipif(os.environ.get("ROTA_SEARCH") != "large", reason="runs with ROTA_SEARCH=large")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", LARGE)
def test_no_interleaving_of_a_larger_world_leaves_work_unheard(name: str) -> None:
    found = search(LARGE[name], limit=3_000_000)
    assert found.deaf is None, explain(found)
    assert found.spin is None, explain(found)
