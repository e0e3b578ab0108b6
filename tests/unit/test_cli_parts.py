"""Parts of the command line that need no server: times, rates, tables, progress, logs."""

from __future__ import annotations

import io
import json
import logging
import logging.config
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rota.cli import printing, terminal, times
from rota.cli.logs import log_to_stderr
from rota.errors import ConfigError
from rota.values.limits import Rate
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), ("90s", 90), ("250ms", 0.25), ("15m", 900), ("1h30m", 5400),
     ("2d", 172_800)],
)  # fmt: skip
def test_spans(text: str, seconds: float) -> None:
    assert times.span(text, "--for") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "-5", "5 m", "m5", "5x", "1h-30m", "1e3", "5s "])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(ConfigError, match="--for: expected a time"):
        times.span(text, "--for")


def test_instants_and_ends() -> None:
    noon = datetime(2099, 1, 1, 12, tzinfo=UTC)
    assert times.instant("2099-01-01T12:00Z", "--until") == noon
    assert times.instant("2099-01-01T13:00+01:00", "--until") == noon
    assert times.instant("4070952000", "--until") == 4_070_952_000
    assert times.end_of(None, None) is None
    with pytest.raises(ConfigError, match="given both"):
        times.end_of("5", "2099-01-01T12:00Z")
    with pytest.raises(ConfigError, match="--until: expected"):
        times.instant("noon", "--until")
    assert times.when(None) is None
    assert times.moment(4_070_952_000).startswith("2099-01-01 12:00:00Z (in ")


@pytest.mark.parametrize(
    ("text", "rate"),
    [("5", Rate(5)), ("100/m", Rate(100, per=60)), ("5/10s:2", Rate(5, per=10, burst=2)),
     ("0.5/h", Rate(0.5, per=3600)), ("7:3", Rate(7, burst=3))],
)  # fmt: skip
def test_rates(text: str, rate: Rate) -> None:
    assert times.rate(text) == rate


@pytest.mark.parametrize("text", ["", "x", "5/", "5/x", "/m", "5:", "5/m:x", "-1", "0"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ConfigError, match="rate: expected"):
        times.rate(text)


def test_rows_stay_lines(capsys: pytest.CaptureFixture[str]) -> None:
    printing.print_plain([["a", "b"], ["x\ny", "[red]\x1b[2J"]])
    printing.print_facts({"name": "ü\t☃", "none": None}, {})
    assert capsys.readouterr().out.splitlines() == [
        "a     b",
        "x\\ny  [red]\\x1b[2J",
        "name  ü\\t☃",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals_and_for_what_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(patience: float, stream: io.StringIO, *counted: Any) -> str:
        monkeypatch.setattr(terminal, "PATIENCE_S", patience)
        monkeypatch.setattr(terminal, "LOOK_S", 0.01)
        monkeypatch.setattr(sys, "stderr", stream)
        with terminal.progress("moving [red]", *counted):
            if counted:
                eventually(lambda: "7/10" in stream.getvalue(), "no bar was shown")
        return stream.getvalue()

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    assert shown(0.0, io.StringIO()) == ""
    assert shown(60.0, Terminal()) == ""
    text = shown(0.0, Terminal(), 10, lambda: 3)
    assert "moving [red]" in text
    assert "7/10" in text


# ── logging that the application has set up ─────────────────────────────────────────────────

Setup = Callable[[], object]
DICT = {"version": 1, "handlers": {"c": {"class": "logging.StreamHandler"}}}


def by_dict(**more: object) -> Setup:
    return lambda: logging.config.dictConfig({**DICT, **more})  # its default disables what exists


SETUPS: dict[str, Setup] = {
    "none": lambda: None,
    "by chance": lambda: logging.warning("by chance"),
    "basic": lambda: logging.basicConfig(level=logging.ERROR, format="own %(message)s"),
    "dictionary": by_dict(root={"handlers": ["c"], "level": "ERROR"}),
    "dictionary, no root": by_dict(),
}


@pytest.fixture
def ours() -> Iterator[logging.Logger]:
    """`rota.job`, which stands for all loggers of ours; what is set up ends with the test."""
    found = logging.getLogger("rota.job")
    known = logging.getLogger().manager.loggerDict.values()
    loggers = [logging.getLogger(), *(one for one in known if isinstance(one, logging.Logger))]
    kept = [(one, one.handlers[:], one.level, one.propagate, one.disabled) for one in loggers]
    yield found
    for one, handlers, level, propagate, disabled in kept:
        one.handlers[:], one.propagate, one.disabled = handlers, propagate, disabled
        one.setLevel(level)


def begin(setup: Setup, capfd: pytest.CaptureFixture[str]) -> None:
    """As in a new process: pytest's handlers are there only while a test runs."""
    root = logging.getLogger()
    root.handlers[:] = []
    root.setLevel(logging.WARNING)
    setup()
    capfd.readouterr()


@pytest.mark.parametrize("setup", SETUPS)
def test_what_the_command_line_says_of_logging_holds(
    ours: logging.Logger, capfd: pytest.CaptureFixture[str], setup: str
) -> None:
    begin(SETUPS[setup], capfd)
    log_to_stderr("json", "info")
    ours.info("a job")
    out, err = capfd.readouterr()
    (line,) = err.splitlines()
    assert (json.loads(line)["message"], out) == ("a job", "")


@pytest.mark.parametrize("setup", SETUPS)
def test_where_it_says_nothing_the_applications_logging_stays_and_we_are_heard(
    ours: logging.Logger, capfd: pytest.CaptureFixture[str], setup: str
) -> None:
    begin(SETUPS[setup], capfd)
    log_to_stderr()
    ours.info("a job")
    ours.error("an error")
    lines = capfd.readouterr().err.splitlines()
    own = {"basic": ["own an error"], "dictionary": ["an error"]}
    if setup in own:
        assert lines == own[setup]
    else:
        assert [line.split(": ")[1] for line in lines] == ["a job", "an error"]


def test_other_handlers_stay_and_a_level_reaches_the_console(
    ours: logging.Logger, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = {"class": "logging.FileHandler", "filename": str(tmp_path / "log")}
    console = {"class": "logging.StreamHandler", "level": "ERROR", "stream": "ext://sys.stdout"}
    both = {
        "handlers": {"f": file, "c": console},
        "root": {"handlers": ["f", "c"], "level": "INFO"},
    }
    by_dict(**both)()
    log_to_stderr(level="debug")
    ours.debug("first")
    assert capfd.readouterr() == ("first\n", "")
    log_to_stderr("json")
    ours.info("second")
    out, err = capfd.readouterr()
    assert (out, json.loads(err)["message"]) == ("", "second")
    assert (tmp_path / "log").read_text() == "first\nsecond\n"
    logging.getLogger().handlers[0].close()


def test_what_the_application_says_of_our_loggers_stays_and_that_is_said(
    ours: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    of_job = {"handlers": ["c"], "propagate": False, "level": "WARNING"}
    begin(by_dict(loggers={"rota.job": of_job}), capfd)
    log_to_stderr("json", "info")
    ours.info("a job")
    ours.warning("a failure")
    assert capfd.readouterr().err.splitlines() == [
        "rota: the application says itself where rota.job writes: --log-format does not hold there",
        "rota: the application gives rota.job a level: --log-level does not hold there",
        "a failure",
    ]
    log_to_stderr("json", "info")
    assert capfd.readouterr().err == "", "it is said once"
