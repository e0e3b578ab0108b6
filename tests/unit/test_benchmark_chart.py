"""The chart of the benchmarks' targets: what is drawn, of a run and of its file, and without."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf, log10
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import benchmarks
from benchmarks import __main__ as program
from benchmarks.bars import FURTHEST, Bar, bars, left_out, limits, within
from benchmarks.report import Figure, figure, read_json, skipped, write_json

RESULTS = {
    "queue": [
        figure("cost", [2.0, 4.0, 3.0], "µs", at_most=6.0),
        figure("rate", [1.0], "×", at_least=4.0),
        figure("size", [7.0], "bytes"),
    ],
    "peers": [skipped("other 1.0", "not installed"), figure("apart", [0.0], "", at_most=1.0)],
}
COST, RATE, APART = bars(RESULTS)


# ── bars ────────────────────────────────────────────────────────────────────────────────────────


def test_figures_with_a_target_are_drawn_and_the_skipped_are_named() -> None:
    assert [(bar.part, bar.name) for bar in bars(RESULTS)] == [
        ("queue", "cost"),
        ("queue", "rate"),
        ("peers", "apart"),
    ]
    assert left_out(RESULTS) == ["peers: other 1.0"]


def test_a_figure_that_was_to_have_a_target_and_was_skipped_has_no_bar() -> None:
    assert bars({"a": [replace(skipped("cost", "no time"), at_most=2.0)]}) == []


def test_greater_is_better_than_the_target_on_either_kind_of_target() -> None:
    assert (COST.times, COST.rounds, COST.met) == (2.0, (3.0, 1.5, 2.0), True)
    assert (RATE.times, RATE.rounds, RATE.met) == (0.25, (0.25,), False)


@pytest.mark.parametrize(
    ("value", "target", "times", "met"),
    [
        (3.0, {"at_most": 3.0}, 1.0, True),
        (0.0, {"at_most": 0.0}, 1.0, True),
        (0.0, {"at_most": 3.0}, inf, True),
        (-1.0, {"at_most": 3.0}, inf, True),
        (0.0, {"at_least": 3.0}, 0.0, False),
        (-1.0, {"at_least": 3.0}, 0.0, False),
    ],
)
def test_times_at_the_edges(value: float, target: dict[str, Any], times: float, met: bool) -> None:
    (bar,) = bars({"a": [figure("x", [value], "s", **target)]})
    assert (bar.times, bar.met) == (times, met)
    assert 1 / FURTHEST <= within(bar.times) <= FURTHEST


def test_labels_say_value_and_target() -> None:
    assert [bar.label for bar in bars(RESULTS)] == ["3 µs (≤ 6 µs)", "1 × (≥ 4 ×)", "0 (≤ 1)"]


def test_a_label_stands_beyond_its_bar_and_its_rounds() -> None:
    assert COST.end == 3.0
    assert RATE.end == 0.25
    assert APART.end == FURTHEST


@pytest.mark.parametrize("widths", [(0.1, 0.1, 0.1), (0.3, 0.35, 0.2), (0.4, 0.4, 0.4)])
def test_the_axis_has_room_for_every_label(widths: tuple[float, ...]) -> None:
    least, most = (log10(at) for at in limits((COST, RATE, APART), widths))
    for bar, width in zip((COST, RATE, APART), widths, strict=True):
        end, room = log10(bar.end), 0.999 * width * (most - least)
        assert end + room <= most if bar.times >= 1 else end - room >= least


def test_the_axis_shows_both_sides_of_the_target_and_ends_where_labels_are_too_wide() -> None:
    assert limits([], []) == pytest.approx((0.5, 2.0))
    near = Bar("a", "b", 1.0, (), True, "")
    assert all(map(log10, limits([near, RATE], [5.0, 5.0])))


# ── of a run and of its file ────────────────────────────────────────────────────────────────────


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of a run whose parts gave RESULTS, without a server."""

    @contextmanager
    def no_server(**_: bool) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(binary="a server")

    parts = {name: lambda *_, figures=figures: figures for name, figures in RESULTS.items()}
    monkeypatch.setattr(program, "private_server", no_server)
    monkeypatch.setattr(program, "PARTS", parts)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(program, "_summary", lambda _: "")
    return tmp_path / "out" / "kept.json"


@pytest.fixture
def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "benchmarks.targets_chart", raising=False)
    monkeypatch.delattr(benchmarks, "targets_chart", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def run(*arguments: str | Path) -> int:
    return program.main([str(one) for one in arguments])


def test_a_file_gives_its_figures_back(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    write_json(path, RESULTS, "a server")
    kept = read_json(path)
    assert repr(kept) == repr(RESULTS)  # nan, of the skipped, is not equal to itself
    assert all(isinstance(one, Figure) for figures in kept.values() for one in figures)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"figures": 1}',
        '{"parts": {"a": [{"value": 1.0, "unit": "s"}]}}',
        '{"parts": {"a": [{"name": "x", "value": null, "unit": "s", "skipped": ""}]}}',
    ],
)
def test_another_file_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kept.json"
    path.write_text(text)
    assert run("--redraw", path) == 1
    assert f"expected figures that a run has written, {path} is not: " in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [path]


def test_no_file_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--redraw", tmp_path / "kept.json") == 1
    assert "No such file" in capsys.readouterr().out


def test_a_run_leaves_a_chart_beside_its_file(
    ran: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    assert run("--json", ran) == 0
    chart = ran.with_suffix(".svg")
    assert f"their chart is {chart}" in capsys.readouterr().out
    text = chart.read_text()
    for said in (*(bar.name for bar in bars(RESULTS)), COST.label, RATE.label, APART.label):
        assert f">{said}<" in text
    assert "Skipped, and not drawn: peers: other 1.0." in text
    assert "size" not in re.findall(r">([^<]+)</text>", text)
    assert not re.search(r"20\d\d-\d\d|/home|/tmp|dc:date", text)


def test_met_and_missed_have_their_colours(ran: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks import targets_chart

    met, missed = RESULTS["queue"][:2]
    for figures, colour, other in (
        ([met], targets_chart.MET, targets_chart.MISSED),
        ([missed], targets_chart.MISSED, targets_chart.MET),
    ):
        assert targets_chart.write(ran, {"a": figures})
        text = ran.read_text()
        assert text.count(colour) > text.count(other) == 1, "the other one's is in the key alone"


def test_a_chart_is_drawn_again_of_the_file_alone(
    ran: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    run("--json", ran)
    chart = ran.with_suffix(".svg")
    first = chart.read_bytes()
    chart.unlink()
    assert run("--redraw", ran) == 0
    assert chart.read_bytes() == first
    assert f"the chart is {chart}" in capsys.readouterr().out


def test_figures_without_targets_leave_no_chart_of_an_earlier_run(
    ran: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    run("--json", ran)
    monkeypatch.setattr(program, "PARTS", {"a": lambda *_: [figure("size", [7.0], "bytes")]})
    assert run("--json", ran) == 0
    assert "no chart: none of these figures has a target" in capsys.readouterr().out
    assert [path.name for path in ran.parent.iterdir()] == ["kept.json"]


@pytest.mark.usefixtures("no_matplotlib")
def test_without_matplotlib_a_run_says_how_to_get_it(
    ran: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--json", ran) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith("no chart: it needs matplotlib: pip install '.[bench]'")
    assert [path.name for path in ran.parent.iterdir()] == ["kept.json"]


@pytest.mark.usefixtures("no_matplotlib")
def test_without_matplotlib_nothing_is_drawn_again_and_the_chart_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kept.json"
    write_json(path, RESULTS, "a server")
    path.with_suffix(".svg").write_text("drawn elsewhere")
    assert run("--redraw", path) == 1
    assert "pip install '.[bench]'" in capsys.readouterr().out
    assert path.with_suffix(".svg").read_text() == "drawn elsewhere"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["calls", "--waits", "w.svg"], "--waits: they are those of fairness"),
        (["calls", "--redraw", "a.json"], "--redraw: of figures that are there; no part is run"),
        (["--json", "a.svg"], "a.svg: that is where the chart of the targets goes"),
        (["--redraw", "a.svg"], "a.svg: that is where the chart of the targets goes"),
        (
            ["--json", "a.json", "--waits", "a.svg"],
            "a.svg: that is where the chart of the targets goes",
        ),
    ],
)
def test_flags_that_do_not_go_together(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(*arguments)
    assert said in capsys.readouterr().err
