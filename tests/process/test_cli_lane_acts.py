"""`rota lane show`, `set`, `pause`, `block`, `move`, `cancel`: one lane, whatever its name."""

from __future__ import annotations

import pytest

from rota.queue import Queue
from rota.values.jobspec import JobSpec
from rota.values.limits import Rate
from tests.process.conftest import Here
from tests.process.schemas import LaneRow, rows

NAMES = ["plain", "[red]", "ünï ☃", "two words", "a'b\"c", "-odd", "--json", "$(x)`y`;&|"]


@pytest.mark.parametrize("name", NAMES)
def test_every_verb_takes_every_name(here: Here, queue: Queue, name: str) -> None:
    """What begins with a dash goes behind `--`."""
    queue.sync.enqueue_many(JobSpec(task="t", lane=name) for _ in range(3))
    lane = queue.sync.lane(name)

    def act(verb: str, *more: str, options: tuple[str, ...] = ()) -> tuple[int, str, str]:
        return here("lane", verb, *options, "--", queue.name, name, *more)

    code, out, _ = act("show")
    assert (code, out.splitlines()[0].split(maxsplit=1)) == (0, ["lane", name])
    assert act("set", options=("--ceiling", "2", "--weight", "1.5"))[0] == 0
    assert (lane.info().ceiling, lane.info().weight) == (2, 1.5)
    assert act("pause", options=("--reason", name))[0] == 0
    (row,) = rows(act("show", options=("--json",))[1], LaneRow)
    assert (row.lane, row.state, row.pause_reason) == (name, "paused", name)
    assert "is resumed" in act("resume")[2]
    assert "was not paused" in act("resume")[2]
    assert act("block", "15m")[0] == 0
    assert lane.info().state == "blocked"
    assert "is unblocked" in act("unblock")[2]
    assert act("explain")[0] == 0
    assert act("move", f"{name}2", options=("--dry-run",)) == (0, "", "up to 3 would be moved\n")
    assert lane.info().waiting == 3
    assert act("move", f"{name}2", options=("--yes",)) == (0, "", "3 moved, 0 stayed\n")
    assert queue.sync.lane(f"{name}2").info().waiting == 3
    assert lane.info().waiting == 0


def test_limits_are_set_kept_and_removed(here: Here, queue: Queue) -> None:
    queue.sync.set_template("gold", ceiling=9)
    lane = queue.sync.lane("a")
    words = ("--ceiling", "0", "--rate", "5/10s:2", "--backlog", "7", "--template", "gold")
    assert here("lane", "set", queue.name, "a", *words) == (0, "", "lane a is set\n")
    info = lane.info()
    assert (info.ceiling, info.rate, info.backlog) == (0, Rate(5, per=10, burst=2), 7)
    for text, rate in [
        ("5", Rate(5)),
        ("90/m", Rate(90, per=60)),
        ("1.5/1h30m", Rate(1.5, per=5400)),
    ]:
        assert here("lane", "set", queue.name, "a", "--rate", text)[0] == 0
        assert lane.info().rate == rate
    assert here("lane", "set", queue.name, "a", "--ceiling", "none", "--rate", "none")[0] == 0
    info = lane.info()
    assert (info.ceiling, info.rate, info.backlog, info.template) == (9, None, 7, "gold")
    refused: list[tuple[tuple[str, ...], str]] = [
        ((), "expected --ceiling, --weight"),
        (("--ceiling", "many"), "--ceiling: expected a number or none"),
        (("--ceiling", "-1"), "ceiling: expected"),
        (("--weight", "nan"), "weight: expected"),
        (("--rate", "fast"), "--rate: expected N"),
        (("--rate", "1/never"), "--rate: expected a time"),
        (("--template", "tin"), "template: expected one that was set"),
    ]
    for line, said in refused:
        code, out, err = here("lane", "set", queue.name, "a", *line)
        assert (code, out, said in err) == (2, "", True), (line, err)
    assert lane.info() == info or lane.info().window != info.window


def test_moving_says_what_stays(here: Here, queue: Queue) -> None:
    queue.sync.enqueue_many(JobSpec(task="t", lane="a", ordering_key="k") for _ in range(3))
    with queue.sync.consumer() as consumer:
        consumer.claim()
        code, out, err = here("lane", "move", queue.name, "a", "b", "--yes")
        assert (code, out, err) == (1, "", "0 moved, 2 stayed\n")
    code, out, err = here("lane", "move", queue.name, "a", "!b", "--yes")
    assert (code, out, "ordered lane" in err) == (2, "", True)


def test_cancelling_a_lane(here: Here, queue: Queue) -> None:
    queue.sync.enqueue_many(JobSpec(task="t", lane="a") for _ in range(3))
    with queue.sync.consumer() as consumer:
        consumer.claim()
        code, out, err = here("lane", "cancel", queue.name, "a", "--dry-run")
        assert (code, out) == (0, "")
        assert err.startswith("2 would be deleted")
        code, out, err = here("lane", "cancel", queue.name, "a")
        assert (code, out, "--yes" in err) == (2, "", True)
        assert queue.sync.lane("a").info().waiting == 2
        code, out, err = here("lane", "cancel", queue.name, "a", "--yes", "--by", "me")
        assert (code, out, err) == (0, "", "2 deleted, 1 asked to stop\n")
    assert queue.sync.info().running == 0
