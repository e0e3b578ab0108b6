"""Templates, defaults and the queue's own ceiling: what they do to lanes, the ring and the bell."""

from __future__ import annotations

from typing import Any

import pytest

from rota.errors import ConfigError, LaneFull
from rota.script import stubs
from rota.script.keys import Keys
from rota.script.loader import Operation
from rota.values.limits import Rate, Template
from tests.lua.conftest import Desk


def template(desk: Desk, name: str, **given: Any) -> None:
    desk.run(desk.store.set_template(name, **given))


def lane(desk: Desk, name: str, **given: Any) -> None:
    desk.run(desk.store.lane_set(name, **given))


def running(desk: Desk) -> dict[str, str]:
    return desk.hash("gactive")


# ── which setting holds ─────────────────────────────────────────────────────────────────────────


def test_a_lanes_own_setting_wins_over_its_templates_and_that_over_the_queues(desk: Desk) -> None:
    template(desk, "free", ceiling=2)
    desk.run(desk.store.queue_set(default_ceiling=1))
    givens: dict[str, dict[str, object]]
    givens = {"own": {"ceiling": 3}, "free": {}, "none": {"template": None}}
    for name, given in givens.items():
        lane(desk, name, **{"template": "free", **given})
        desk.add(*[f"{name}{i}" for i in range(5)], lane=name)
    desk.claim(15)
    assert running(desk) == {"own": "3", "free": "2", "none": "1"}
    desk.clean()


def test_a_template_that_says_nothing_of_a_limit_leaves_it_to_the_queue(desk: Desk) -> None:
    template(desk, "heavy", weight=5)
    desk.run(desk.store.queue_set(default_ceiling=1))
    lane(desk, "a", template="heavy")
    desk.add("j1", "j2")
    desk.claim(2)
    assert running(desk) == {"a": "1"}
    desk.clean()


def test_an_unknown_template_is_refused_before_anything_changes(desk: Desk) -> None:
    with pytest.raises(ConfigError, match="expected one that was set, given 'fre'"):
        lane(desk, "a", ceiling=1, template="fre")
    assert not desk.hash("glimit")
    with pytest.raises(ConfigError, match="given 'fre'"):
        desk.run(desk.store.set_lanes({"a": {"ceiling": 1}, "b": {"template": "fre"}}))
    assert not desk.hash("glimit")


def test_a_template_dropped_while_lanes_are_changed_is_told(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    template(desk, "free", ceiling=2)
    desk.run(desk.store.set_lanes({"a": {"template": "free"}, "b": {"template": None}}))
    assert desk.hash("gtemplate") == {"a": "free"}

    def just_before(keys: Keys) -> Operation[dict[str, Template]]:
        yield from ()
        return {"gone": Template()}

    monkeypatch.setattr(stubs, "templates", just_before)
    with pytest.raises(ConfigError, match="given 'gone'"):
        desk.run(desk.store.set_lanes({"a": {"template": "gone"}, "b": {"ceiling": 1}}))
    assert desk.hash("gtemplate") == {"a": "free"}
    assert desk.hash("glimit") == {"b": "1"}


def test_templates_are_listed_changed_and_dropped(desk: Desk) -> None:
    rate = Rate(100, per=60, burst=20)
    template(desk, "pro", ceiling=20, weight=2.5, rate=rate, backlog=0)
    template(desk, "pro", ceiling=None)
    template(desk, 'odd "{}" é', weight=1)
    assert desk.run(desk.store.templates()) == {
        "pro": Template(weight=2.5, rate=rate, backlog=0),
        'odd "{}" é': Template(weight=1),
    }
    assert desk.run(desk.store.drop_template("pro")) is True
    assert desk.run(desk.store.drop_template("pro")) is False
    assert [*desk.run(desk.store.templates())] == ['odd "{}" é']


def test_there_are_a_thousand_templates_at_most(desk: Desk) -> None:
    desk.raw.hset(desk.key("templates"), mapping={f"t{i}": "{}" for i in range(1000)})
    template(desk, "t7", ceiling=1)
    with pytest.raises(ConfigError, match="at most 1000 templates, 'one more' is more"):
        template(desk, "one more", ceiling=1)


# ── a change reaches the lanes ──────────────────────────────────────────────────────────────────


def test_a_raised_template_brings_its_lanes_back_by_pages(desk: Desk) -> None:
    template(desk, "free", ceiling=1)
    names = [f"lane{i}" for i in range(600)]
    for name in names:
        lane(desk, name, template="free")
        desk.add(f"{name}-1", f"{name}-2", lane=name)
    desk.claim(600)
    assert not desk.zset("ring")
    desk.silence()
    unchanged = {"weight": "", "rate": "", "backlog": ""}
    desk.run(iter(stubs.template_set(desk.keys, name="free", ceiling="2", **unchanged)))
    assert desk.bell() == 1, "nobody was woken to carry the change on"
    sizes = []
    while "sweep" in desk.hash("config"):
        desk.run(iter(stubs.beat(desk.keys, limit=100, watched_ms=-1)))
        sizes.append(len(desk.zset("ring")))
    assert sizes[-1] == 600
    assert len(sizes) >= 4
    assert sizes[0] < 400, "not in pages"
    desk.clean()


def test_a_claim_goes_by_a_lowered_template_before_the_change_arrives(desk: Desk) -> None:
    template(desk, "free", ceiling=5)
    for name in ("a", "b"):
        lane(desk, name, template="free")
        desk.add(*[f"{name}{i}" for i in range(5)], lane=name)
    desk.claim(2)
    unchanged = {"weight": "", "rate": "", "backlog": ""}
    desk.run(iter(stubs.template_set(desk.keys, name="free", ceiling="1", **unchanged)))
    assert desk.claim(5) == []
    desk.clean()
    desk.beat()
    assert not desk.zset("ring")
    desk.clean()


def test_a_dropped_template_leaves_its_lanes_to_the_defaults(desk: Desk) -> None:
    template(desk, "stopped", ceiling=0)
    lane(desk, "a", template="stopped")
    desk.add("j1")
    assert desk.claim() == []
    desk.run(desk.store.drop_template("stopped"))
    assert desk.claim() == [["j1"]]
    template(desk, "stopped", ceiling=0)
    desk.add("j2")
    assert desk.claim() == [], "a template of that name is there again"
    desk.clean()


@pytest.mark.parametrize("inside", [True, False])
def test_a_greater_default_weight_does_not_leave_a_lane_waiting(desk: Desk, inside: bool) -> None:
    desk.run(desk.store.queue_set(default_weight=0.01))
    lane(desk, "b", weight=1)
    desk.add("a1", "a2", "a3")
    desk.add(*[f"b{i}" for i in range(200)], lane="b")
    while ["a1"] not in desk.claim():
        pass
    if not inside:
        desk.run(desk.store.pause("a", reason=None, by=None, until=None))
    desk.run(desk.store.queue_set(default_weight=1))
    desk.run(desk.store.resume("a"))
    assert ["a2"] in desk.claim(4)
    desk.clean()


def test_a_templates_backlog_and_rate_hold(desk: Desk) -> None:
    template(desk, "free", backlog=2, rate=Rate(1))
    lane(desk, "a", template="free")
    assert desk.add("j1", "j2", "j3") == ["created", "created", "lane_full"]
    with pytest.raises(LaneFull):
        desk.add_specs([desk_spec("j4")], atomic=True)
    assert desk.claim(2) == [["j1"]]
    desk.clock.advance(1000)
    assert desk.claim(2) == [["j2"]]
    desk.clean()


def desk_spec(id: str) -> Any:
    from rota.values.jobspec import JobSpec

    return JobSpec(task="t", id=id, lane="a")


def test_a_reset_lane_is_as_if_it_had_never_been_configured(desk: Desk) -> None:
    template(desk, "free", ceiling=1)
    lane(desk, "a", ceiling=1, weight=2, rate=Rate(1), backlog=3, template="free")
    desk.add("j1", "j2")
    desk.claim()
    desk.run(desk.store.lane_reset("a"))
    kinds = ("glimit", "gweight", "grate", "gmax", "gtemplate")
    assert not any(desk.hash(kind) for kind in kinds)
    assert not desk.zset("gtat")
    assert not desk.zset("blocked")
    assert desk.claim() == [["j2"]]
    desk.clean()


# ── the queue's own ceiling, and its pause ──────────────────────────────────────────────────────


def test_the_queue_hands_out_no_more_than_its_ceiling(desk: Desk) -> None:
    desk.run(desk.store.queue_set(ceiling=3))
    for name in ("a", "b"):
        desk.add(*[f"{name}{i}" for i in range(5)], lane=name)
    desk.add("k1", "k2", lane="c", key="k")
    answer = desk.exchange(9, 2)
    assert sum(len(entry) for entry in answer.entries) == 4, "a sequence's entry is one permit"
    assert (len(answer.entries), answer.left) == (3, False)
    assert desk.exchange(9).entries == []
    desk.silence()
    (first, *_) = answer.entries[0]
    desk.settle((first.id, "complete", 0))
    assert desk.bell() == 1, "a permit is free and nobody was woken"
    assert len(desk.claim(9)) == 1
    desk.clean()


def test_the_queues_ceiling_goes_up_down_to_nought_and_away(desk: Desk) -> None:
    desk.add(*[f"j{i}" for i in range(9)])
    desk.run(desk.store.queue_set(ceiling=2))
    assert len(desk.claim(9)) == 2
    desk.silence()
    desk.run(desk.store.queue_set(ceiling=3))
    assert desk.bell() == 1
    assert len(desk.claim(9)) == 1
    desk.run(desk.store.queue_set(ceiling=0))
    assert desk.claim(9) == []
    desk.run(desk.store.queue_set(ceiling=1))
    assert desk.claim(9) == []
    desk.run(desk.store.queue_set(ceiling=None))
    assert len(desk.claim(9)) == 6
    desk.clean()


def test_a_full_queue_passes_no_wake_on(desk: Desk) -> None:
    desk.run(desk.store.queue_set(ceiling=1))
    desk.add("j1", "j2")
    desk.claim()
    desk.silence()
    assert desk.run(desk.store.pass_on(beat_ms=5000)) == 0
    desk.settle(("j1", "complete", 0))
    desk.silence()
    assert desk.run(desk.store.pass_on(beat_ms=5000)) == 1


def test_a_pause_of_the_queue_ends_by_itself(desk: Desk) -> None:
    desk.add("j1")
    until = desk.clock.now + 2000
    desk.silence()
    desk.run(desk.store.shut_gate(reason="deploy", by="ops", until=until / 1000))
    assert desk.bell() == 1, "sleepers keep the old time"
    answer = desk.exchange(1, park=True)
    assert (answer.entries, answer.due) == ([], 2.0)
    desk.clean()
    desk.clock.advance(2000)
    assert desk.claim() == [["j1"]]
    assert "paused" not in desk.hash("config")
    desk.clean()


def test_pausing_the_queue_again_replaces_end_and_reason(desk: Desk) -> None:
    desk.add("j1")
    desk.run(desk.store.shut_gate(reason=None, by=None, until=desk.clock.now / 1000 + 5))
    desk.run(desk.store.shut_gate(reason="longer", by=None, until=None))
    desk.clock.advance(10_000)
    assert desk.claim() == []
    assert desk.run(desk.store.open_gate()) is True
    assert desk.run(desk.store.open_gate()) is False
    assert desk.claim() == [["j1"]]
    assert not desk.zset("blocked")


def test_a_template_is_not_named_like_the_removal_of_one(desk: Desk) -> None:
    for call in (
        desk.store.set_template("-", ceiling=1),
        desk.store.drop_template("-"),
        desk.store.lane_set("a", template="-"),
    ):
        with pytest.raises(ConfigError, match="given '-'"):
            desk.run(call)
