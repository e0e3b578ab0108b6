"""The verdict is able to fail: records in which one promise is broken, and why it says so."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.evidence import Evidence
from tests.chaos.finding import Corpse, Final
from tests.chaos.observer import Event, Notebook, Record, read_record, sort
from tests.chaos.report import explain
from tests.chaos.verdict import Verdict

LEASE = 2.0


class Story:
    """Writes records as workers do. Worker 1 is consumer `c1`; leases are joined at 0."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._numbers = 0
        for pid in (1, 2, 3, 4):
            self.renew(pid, 0.0)

    def tell(self, at: float, pid: int, what: str, **facts: Any) -> Story:
        self.events.append(Event(at, pid, what, facts))
        return self

    def renew(self, pid: int, sent: float) -> Story:
        return self.tell(sent + 0.01, pid, "renewed", sent=sent, consumers=[f"c{pid}"])

    def order(
        self, job: str, at: float = 0.1, *, sequence: str | None = None, **facts: Any
    ) -> Story:
        fields = {"job": job, "lane": "lane", "sequence": sequence, "plan": "ok"} | facts
        self.tell(at, 9, "asked", jobs=[fields])
        return self.tell(at + 0.01, 9, "acked", jobs=[job])

    def run(
        self,
        job: str,
        pid: int,
        start: float,
        end: float | None,
        *,
        answer: str | None = "ok",
        action: str = "complete",
        outcome: str = "ok",
        claimed: float | None = None,
        heard: float | None = None,
        consumer: str | None = None,
        **facts: Any,
    ) -> Story:
        """`claimed`, `heard`: when its claim was sent and answered."""
        self._numbers += 1
        number = self._numbers
        sent = start - 0.02 if claimed is None else claimed
        at = start - 0.01 if heard is None else heard
        self.tell(
            at,
            pid,
            "claimed",
            consumer=consumer or f"c{pid}",
            sent=sent,
            delivery=number,
            jobs=[job],
        )
        defaults = {"lane": "lane", "sequence": None, "place": 1, "plan": "ok"}
        self.tell(start, pid, "start", job=job, delivery=number, **defaults | facts)
        if end is not None:
            self.tell(end, pid, "end", job=job, delivery=number, outcome=outcome)
            if answer is not None:
                self.tell(
                    end + 0.01, pid, "reply",
                    job=job, delivery=number, action=action, answer=answer,
                )  # fmt: skip
        return self

    def mark(self, job: str, pid: int, at: float) -> Story:
        """The start mark of the run that is told next."""
        return self.tell(at, pid, "marked", job=job, delivery=self._numbers + 1)

    @property
    def record(self) -> Record:
        return sort(sorted(self.events, key=lambda event: event.at))

    def verdict(self, final: Final | None = None, **ceilings: int) -> Verdict:
        evidence = Evidence(self.record, lease=LEASE, grace=0.5)
        return Verdict(evidence, final or Final(), ceilings=ceilings)

    def broken(self, final: Final | None = None, **ceilings: int) -> set[str]:
        return {finding.rule for finding in self.verdict(final, **ceilings).findings}


@pytest.fixture
def story() -> Story:
    return Story()


def test_what_goes_well_is_no_finding(story: Story) -> None:
    story.order("a", sequence="s").order("b", 0.2, sequence="s")
    story.run("a", 1, 1.0, 1.1, sequence="s", place=1, outcome="ValueError", action="retry")
    story.run("a", 1, 1.2, 1.3, sequence="s", place=1, attempt=2)
    story.run("b", 2, 1.4, 1.5, sequence="s", place=2)
    assert story.broken(Final(totals={"enqueued": 2, "completed": 2}), lane=1) == set()


# ── nothing is lost ─────────────────────────────────────────────────────────────────────────────


def test_a_job_that_is_nowhere(story: Story) -> None:
    assert story.order("a").broken() == {"lost"}


def test_a_job_whose_only_good_run_was_refused(story: Story) -> None:
    story.order("a").run("a", 1, 1.0, 1.1, answer="lost")
    assert story.broken() == {"lost"}


def test_a_job_that_stays_behind(story: Story) -> None:
    assert story.order("a").broken(Final(left=frozenset({"a"}))) == {"lost"}


def test_a_dead_job_is_not_lost_and_one_never_acknowledged_need_not_be(story: Story) -> None:
    story.order("a").tell(
        1.0, 9, "asked", jobs=[{"job": "b", "lane": "lane", "sequence": None, "plan": "ok"}]
    )
    assert story.broken(Final({"a": Corpse(False, 0, 1)})) == set()


def test_totals_that_disagree(story: Story) -> None:
    story.order("a").run("a", 1, 1.0, 1.1)
    assert story.broken(Final(totals={"enqueued": 1, "completed": 2})) == {"totals"}


def test_a_job_that_is_run_again_although_its_completion_was_taken(story: Story) -> None:
    story.order("a").run("a", 1, 1.0, 1.1).run("a", 2, 1.5, 1.6, answer="settled")
    assert story.broken() == {"twice"}


def test_a_job_completed_twice(story: Story) -> None:
    story.order("a").run("a", 1, 1.0, 1.1).run("a", 2, 1.05, 1.2)
    assert "twice" in story.broken()


# ── overlaps ────────────────────────────────────────────────────────────────────────────────────


def test_two_runs_of_a_job_while_the_first_lease_is_held(story: Story) -> None:
    story.order("a").run("a", 1, 1.0, 1.9, answer="lost").run("a", 2, 1.5, 1.6)
    assert story.broken() == {"overlap"}


def test_two_runs_in_a_sequence_while_the_first_lease_is_held(story: Story) -> None:
    story.order("a", sequence="s").order("b", 0.2, sequence="s")
    story.run("b", 1, 1.0, 1.9, sequence="s", place=2).run("a", 2, 1.5, 1.6, sequence="s", place=1)
    assert "overlap" in story.broken()


def test_a_lease_that_was_lost_explains_an_overlap_if_the_first_ending_was_refused(
    story: Story,
) -> None:
    story.renew(2, 3.0).order("a")
    story.run("a", 1, 1.0, 4.0, answer="lost").run("a", 2, 3.1, 3.2)
    assert story.broken() == set()


def test_a_renewal_takes_the_explanation_away(story: Story) -> None:
    story.renew(2, 3.0).renew(1, 1.5).order("a")
    story.run("a", 1, 1.0, 4.0, answer="lost").run("a", 2, 3.1, 3.2)
    assert story.broken() == {"overlap"}


def test_a_lost_lease_whose_ending_was_accepted(story: Story) -> None:
    story.renew(2, 3.0).order("a")
    story.run("a", 1, 1.0, 4.0, action="retry").run("a", 2, 3.1, 3.2)
    assert story.broken() == {"overlap"}


def test_a_dead_workers_job_that_is_given_away_before_its_lease_ends(story: Story) -> None:
    story.order("a").run("a", 1, 1.0, None).tell(1.1, 1, "died", code=-9).run("a", 2, 1.5, 1.6)
    assert story.broken() == {"overlap"}


def test_a_dead_workers_job_after_its_lease(story: Story) -> None:
    story.renew(2, 3.0).order("a").run("a", 1, 1.0, None).run("a", 2, 3.0, 3.1)
    assert story.broken() == set()


def test_a_thread_that_outlives_its_workers_stop(story: Story) -> None:
    story.order("a").tell(0.9, 1, "told to stop")
    story.run("a", 1, 1.0, 1.9, action="release", in_thread=True).run("a", 2, 1.5, 1.6)
    assert story.broken() == set()


def test_a_thread_within_its_workers_grace(story: Story) -> None:
    story.order("a").tell(1.1, 1, "told to stop")
    story.run("a", 1, 1.0, 1.9, answer=None, in_thread=True).run("a", 2, 1.5, 1.6)
    assert story.broken() == {"overlap"}


def test_a_claim_whose_answer_came_too_late_is_not_run(story: Story) -> None:
    story.renew(2, 3.0).order("a")
    story.run("a", 2, 3.1, 3.5).run("a", 1, 3.2, 3.3, answer="lost", claimed=1.0)
    assert story.broken() == {"late"}


def test_a_start_mark_whose_answer_came_too_late(story: Story) -> None:
    story.renew(2, 3.0).order("a").run("a", 2, 3.1, 3.15, answer="lost")
    story.mark("a", 1, 3.2).run("a", 1, 3.3, 3.4, answer="lost", heard=1.5, suspect=True)
    story.run("a", 2, 3.5, 3.6)
    assert story.broken() == {"late"}


def test_a_worker_that_stood_still_just_before_a_start(story: Story) -> None:
    story.renew(2, 3.0).order("a").run("a", 2, 3.1, 3.5)
    story.run("a", 1, 3.2, 3.3, answer="lost", heard=1.5)
    assert story.broken() == set()


def test_a_zombie_whose_ending_was_accepted(story: Story) -> None:
    story.renew(2, 3.0).order("a").run("a", 2, 3.1, 3.5)
    story.run("a", 1, 3.2, 3.3, action="release", heard=1.5)
    assert story.broken() == {"overlap"}


# ── sequences ───────────────────────────────────────────────────────────────────────────────────


def test_a_next_job_that_does_not_wait_for_the_answer(story: Story) -> None:
    story.order("a", sequence="s").order("b", 0.2, sequence="s")
    story.run("a", 1, 1.0, 1.1, sequence="s", place=1)
    story.run("b", 1, 1.105, 1.2, sequence="s", place=2)
    assert story.broken() == {"sequence"}


def test_a_later_job_that_overtakes(story: Story) -> None:
    story.order("a", sequence="s").order("b", 0.2, sequence="s")
    story.run("b", 1, 1.0, 1.1, sequence="s", place=2)
    story.run("a", 2, 1.2, 1.3, sequence="s", place=1)
    assert story.broken() == {"order"}


def test_a_later_job_that_overtakes_a_retry(story: Story) -> None:
    story.order("a", sequence="s").order("b", 0.2, sequence="s")
    story.run("a", 1, 1.0, 1.1, sequence="s", place=1, outcome="ValueError", action="retry")
    story.run("b", 2, 1.2, 1.3, sequence="s", place=2)
    story.run("a", 2, 1.4, 1.5, sequence="s", place=1)
    assert story.broken() == {"order"}


def test_an_urgent_job_does_not_overtake_what_has_been_taken(story: Story) -> None:
    story.order("b", sequence="s").order("a", 0.9, sequence="s", priority=9)
    story.run("b", 1, 1.0, 1.1, sequence="s", place=2, claimed=0.5)
    story.run("a", 2, 1.2, 1.3, sequence="s", place=1)
    assert story.broken() == set()


def test_a_zombie_that_ends_late_overtakes_nobody(story: Story) -> None:
    story.order("a", sequence="s").order("b", 0.2, sequence="s").renew(2, 3.0)
    story.run("a", 1, 1.0, 4.0, sequence="s", place=1, answer="lost")
    story.run("a", 2, 3.1, 3.2, sequence="s", place=1)
    story.run("b", 2, 3.3, 3.4, sequence="s", place=2)
    assert story.broken() == set()


def test_a_sequence_that_goes_on_although_a_dead_job_holds_it(story: Story) -> None:
    story.order("a", sequence="s").order("b", 0.2, sequence="s")
    story.run("a", 1, 1.0, 1.1, sequence="s", place=1, outcome="Bury", action="bury")
    story.run("b", 1, 1.2, 1.3, sequence="s", place=2)
    story.tell(1.5, 9, "operator", job="a", verb="discard")
    assert story.broken() == {"order"}


def test_a_place_that_changes(story: Story) -> None:
    story.order("a")
    story.run("a", 1, 1.0, 1.1, place=1, outcome="ValueError", action="retry")
    story.run("a", 1, 1.2, 1.3, place=2)
    assert story.broken() == {"place"}


def test_places_against_the_order_of_enqueueing(story: Story) -> None:
    story.order("a", sequence="s").order("b", 0.2, sequence="s")
    story.run("b", 1, 1.0, 1.1, sequence="s", place=1)
    story.run("a", 1, 1.2, 1.3, sequence="s", place=2)
    assert story.broken() == {"place"}


# ── ceilings ────────────────────────────────────────────────────────────────────────────────────


def test_more_runs_than_the_ceiling(story: Story) -> None:
    for pid, job in enumerate("abc", start=1):
        story.order(job).run(job, pid, 1.0 + pid / 100, 1.5)
    assert story.broken(lane=3) == set()
    assert story.broken(lane=2) == {"ceiling"}


def test_permits_of_lost_leases_do_not_count(story: Story) -> None:
    story.renew(2, 3.0).order("a").order("b")
    story.run("a", 1, 1.0, 4.0, answer="lost").run("b", 2, 3.1, 3.2).run("a", 2, 3.3, 3.4)
    assert story.broken(lane=1) == set()


def test_a_dead_workers_permit_counts_until_its_lease_ends(story: Story) -> None:
    story.order("a").order("b").run("a", 1, 1.0, None).run("b", 2, 1.5, 1.6)
    assert story.broken(Final({"a": Corpse(False, 0, 1)}), lane=1) == {"ceiling"}


# ── deaths ──────────────────────────────────────────────────────────────────────────────────────


def lethal(story: Story, job: str, runs: Iterable[int]) -> Story:
    story.order(job, plan="kill")
    for pid in runs:
        at = 3.0 * pid
        story.renew(pid, at - 0.1).mark(job, pid, at - 0.05)
        story.run(job, pid, at, None, plan="kill", suspect=pid > 1)
    return story


def test_a_killer_that_dies_at_the_third_time(story: Story) -> None:
    lethal(story, "k", (1, 2, 3))
    assert story.broken(Final({"k": Corpse(True, 3, 0)})) == set()


def test_a_killer_that_goes_on(story: Story) -> None:
    lethal(story, "k", (1, 2, 3)).renew(4, 13.9).run("k", 4, 14.0, 14.1, plan="kill")
    assert story.broken() == {"deaths"}


def test_a_killer_that_dies_too_late(story: Story) -> None:
    lethal(story, "k", (1, 2, 3, 4))
    assert story.broken(Final({"k": Corpse(True, 4, 0)})) == {"deaths"}


def test_a_job_buried_for_the_deaths_of_others(story: Story) -> None:
    story.order("a").run("a", 1, 1.0, None)
    assert story.broken(Final({"a": Corpse(True, 3, 0)})) == {"deaths"}


def test_two_suspects_side_by_side(story: Story) -> None:
    story.order("a").order("b").mark("a", 1, 0.9).run("a", 1, 1.0, 1.5, suspect=True)
    story.mark("b", 1, 1.1).run("b", 1, 1.2, 1.3, suspect=True)
    assert story.broken() == {"suspect"}


def test_a_suspect_in_a_thread_whose_lease_was_given_up(story: Story) -> None:
    story.order("a").order("b").mark("a", 1, 0.9)
    story.run("a", 1, 1.0, 1.8, suspect=True, in_thread=True, answer=None).run("a", 2, 4.0, 4.1)
    story.tell(1.1, 1, "renewed", sent=1.05, consumers=["anew"]).renew(2, 3.9).mark("b", 1, 1.1)
    story.run("b", 1, 1.2, 1.3, suspect=True, consumer="anew")
    assert story.broken() == set()


def test_a_suspect_that_runs_unmarked(story: Story) -> None:
    story.order("a").run("a", 1, 1.0, 1.5, suspect=True)
    assert story.broken() == {"suspect"}


def test_attempts(story: Story) -> None:
    story.order("a", max_attempts=1).order("h", plan="hopeless", max_attempts=2)
    story.run("a", 1, 1.0, 1.1, attempt=2)
    assert story.broken(Final({"h": Corpse(False, 0, 1)})) == {"attempts"}
    assert len(story.verdict(Final({"h": Corpse(False, 0, 1)})).findings) == 2


# ── the record and the report ───────────────────────────────────────────────────────────────────


def test_a_line_cut_off_by_a_kill_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "record"
    notebook = Notebook(path)
    notebook.note("acked", jobs=[])
    with path.open("a") as file:
        file.write('\n{"at": 1, "wh')
    notebook.note("told to stop", pid=7)
    notebook.close()
    record = read_record(path)
    assert [event.what for event in record.events] == ["acked", "told to stop"]
    assert set(record.stops) == {7}


def test_a_finding_tells_the_story_of_its_jobs(story: Story) -> None:
    story.order("a").run("a", 1, 1.0, 1.9, answer="lost").run("a", 2, 1.5, 1.6)
    story.tell(1.2, 9, "fault", name="frozen", victim=1).tell(1.2, 9, "fault", name="cut", victim=3)
    text = explain(story.record, story.verdict().findings)
    assert (
        "overlap: a started at 1.500 during a (pid 1) while the first one's lease was held" in text
    )
    assert "frozen" in text
    assert "cut" not in text
