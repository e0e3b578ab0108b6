"""The doorbell's rules one by one; `tests/model/test_doorbell_search.py` proves them together."""

from __future__ import annotations

from rota.consume.doorbell import Actions, Doorbell, PassOn, Poke

BEAT = 5.0


def bell() -> Doorbell[str]:
    return Doorbell(beat=BEAT)


def look(
    door: Doorbell[str],
    waiter: str,
    *,
    due_in: float | None = None,
    taken: bool = False,
    left: bool = False,
    now: float = 0.0,
) -> Actions[str]:
    """The waiter claims, has free slots left and waits."""
    door.sending(waiter)
    return door.idle(waiter, due_in=due_in, taken=taken, left=left, now=now)


def test_parks_only_while_somebody_is_idle() -> None:
    door = bell()
    assert not door.wants_park()
    look(door, "a")
    assert door.wants_park()
    door.sending("a")
    assert not door.wants_park()


def test_a_token_pokes_the_one_that_waits_longest() -> None:
    door = bell()
    for waiter in "abc":
        look(door, waiter)
    assert door.token() == (Poke("a"),)


def test_one_poke_not_yet_sent_answers_every_token() -> None:
    door = bell()
    for waiter in "ab":
        look(door, waiter)
    assert door.token() == (Poke("a"),)
    assert door.token() == ()
    door.sending("a")
    assert door.token() == (Poke("b"),)


def test_a_token_nobody_here_can_answer_is_passed_on() -> None:
    door = bell()
    assert door.token() == (PassOn(),)
    door.sending("a")
    assert door.token() == (PassOn(),), "the claim in flight may have been too early"


def test_the_next_is_poked_only_when_something_came_and_more_is_left() -> None:
    for taken, left, actions in (
        (True, True, (Poke("b"),)),
        (True, False, ()),
        (False, True, ()),  # the queue's gate is closed
        (False, False, ()),
    ):
        door = bell()
        look(door, "b")
        assert look(door, "a", taken=taken, left=left) == actions, (taken, left)


def test_a_full_claim_that_left_work_pokes_the_next_and_passes_nothing_on() -> None:
    door = bell()
    for waiter in "ab":
        look(door, waiter)
    door.token()
    door.sending("a")
    assert door.busy("a", left=True, now=0) == (Poke("b"),)
    door.sending("b")
    assert door.busy("b", left=True, now=0) == (), "the script has rung for what it left"


def test_a_full_claim_tells_no_due_time_so_its_debt_goes_on() -> None:
    door = bell()
    for waiter in "ab":
        look(door, waiter)
    door.token()
    door.sending("a")
    assert door.busy("a", left=False, now=0) == (Poke("b"),)
    door.sending("b")
    assert door.busy("b", left=False, now=0) == (PassOn(),)


def test_a_full_claim_without_a_debt_owes_nothing() -> None:
    door = bell()
    look(door, "b")
    door.sending("a")
    assert door.busy("a", left=False, now=0) == ()


def test_a_debt_goes_along_when_a_waiter_claims_again_at_once() -> None:
    door = bell()
    look(door, "a")
    door.token()
    door.sending("a")
    door.sending("a")
    assert door.busy("a", left=False, now=0) == (PassOn(),)


def test_who_goes_hands_on_what_it_was_poked_for() -> None:
    door = bell()
    for waiter in "ab":
        look(door, waiter)
    door.token()
    assert door.gone("a", now=0) == (Poke("b"),)
    door.sending("b")
    assert door.gone("b", now=0) == (PassOn(),), "its answer finds no reader"
    assert door.gone("b", now=0) == ()


def test_an_idle_one_goes_quietly_when_nothing_is_due_soon() -> None:
    door = bell()
    look(door, "a", due_in=BEAT + 1)
    assert door.gone("a", now=0) == ()
    assert door.next_timer() == BEAT + 1, "kept: passing it on would not ring yet"


def test_the_last_to_leave_hands_the_time_over() -> None:
    door = bell()
    look(door, "a", due_in=4)
    look(door, "b", due_in=4)
    assert door.gone("a", now=0) == ()
    door.sending("b")
    assert door.busy("b", left=False, now=0) == (PassOn(),)
    assert door.next_timer() is None


def test_the_time_is_handed_over_by_the_chains_own_bell() -> None:
    door = bell()
    look(door, "a", due_in=4)
    door.sending("a")
    assert door.busy("a", left=True, now=0) == ()
    assert door.next_timer() is None


def test_a_failed_claim_owes_a_look_each_time_it_is_reported() -> None:
    door = bell()
    look(door, "b")
    door.sending("a")
    assert door.failed("a", now=0) == (Poke("b"),)
    door.sending("b")
    assert door.failed("a", now=0) == (PassOn(),)


def test_the_timer_pokes_when_it_is_time_and_once() -> None:
    door = bell()
    look(door, "a", due_in=2, now=10)
    assert door.next_timer() == 12
    assert door.timer(11.9) == ()
    assert door.timer(12) == (Poke("a"),)
    assert door.next_timer() is None
    assert door.timer(12) == ()


def test_a_timer_nobody_here_can_answer_is_passed_on() -> None:
    door = bell()
    look(door, "a", due_in=2)
    door.sending("b")
    door.sending("a")
    assert door.timer(2) == (PassOn(),)


def test_a_newer_answer_moves_the_time_back() -> None:
    door = bell()
    look(door, "a", due_in=2)
    look(door, "a", due_in=None)
    assert door.next_timer() is None


def test_of_overlapping_answers_the_earlier_time_stands() -> None:
    for first, second in ((2.0, 9.0), (9.0, 2.0), (2.0, None)):
        door = bell()
        door.sending("a")
        door.sending("b")
        door.idle("b", due_in=first, taken=False, left=False, now=0)
        door.idle("a", due_in=second, taken=False, left=False, now=0)
        assert door.next_timer() == 2.0, (first, second)


def test_after_a_loss_it_looks_before_it_parks() -> None:
    door = bell()
    for waiter in "ab":
        look(door, waiter)
    assert door.lost() == (Poke("a"),)
    assert not door.wants_park()
    door.sending("a")
    assert door.failed("a", now=0) == (Poke("b"),)
    assert not door.wants_park()
    look(door, "b")
    assert door.wants_park()


def test_a_loss_with_nobody_idle_is_passed_on() -> None:
    assert bell().lost() == (PassOn(),)


def test_a_beat_pokes_one_even_if_another_never_sent() -> None:
    door = bell()
    assert door.beat() == ()
    for waiter in "abc":
        look(door, waiter)
    assert door.beat() == (Poke("a"),)
    assert door.beat() == (Poke("b"),)


def test_a_waiter_that_did_not_look_first_is_made_to_look() -> None:
    door = bell()
    assert door.idle("a", due_in=None, taken=False, left=False, now=0) == (Poke("a"),)
