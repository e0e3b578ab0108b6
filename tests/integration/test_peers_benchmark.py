"""The peers benchmark in small: ratios and table, who is skipped and why, rota's own run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path

import pytest

from benchmarks import server as servers
from benchmarks.__main__ import main
from benchmarks.peers import entry as entries
from benchmarks.peers import environments
from benchmarks.peers.catalogue import NAMES, PROGRAMS, Contestant, peers, rota_itself
from benchmarks.peers.contest import Contest
from benchmarks.peers.entry import Entry, Measure, Result
from benchmarks.peers.environments import CannotRun, prepare, this_one
from benchmarks.peers.results import figures
from benchmarks.report import Figure, print_table, write_json

OURS = rota_itself()
BULLMQ = next(peer for peer in peers() if peer.node)
ONE = Contestant("one", "1.0", "one_peer", ("one==1.0",), ("one",), note="promises little")
TWO = replace(ONE, name="two", batches=True)


def result(contestant: Contestant, **rates: Sequence[float]) -> Result:
    measures: dict[Measure, Sequence[float]] = {"work": (), "batch": (), "at_once": ()}
    return Result(contestant, {m: rates[m] for m in measures if m in rates})


@pytest.fixture
def found() -> dict[str, Figure]:
    ours = result(OURS, work=[3000, 2000, 4000], batch=[900, 900, 900], at_once=[50, 50, 50])
    others = [
        result(BULLMQ, work=[1000, 1000, 1000], batch=[300, 100, 300], at_once=[100, 25, 25]),
        result(ONE, work=[100, 100, 100], batch=[100, 100, 100]),
        result(TWO, work=[500, 500, 100], batch=[2000, 2000, 2000]),
        Result(replace(ONE, name="three"), skipped="cannot be installed: no such package"),
    ]
    return {figure.name: figure for figure in figures(ours, others)}


def test_a_measure_lists_the_fastest_first(found: dict[str, Figure]) -> None:
    names = [name for name in found if name.startswith("work: ")]
    assert names == [
        f"work: {OURS.title}", f"work: {BULLMQ.title}", "work: two 1.0", "work: one 1.0",
    ]  # fmt: skip


def test_ratios_are_taken_within_rounds(found: dict[str, Figure]) -> None:
    assert found["work: two 1.0"].value == 500
    assert found["work: two 1.0"].note == "rota 6 ×; promises little"  # of 6, 4, 40
    assert found[f"enqueue, 50 at once: {BULLMQ.title}"].note == "rota 2 ×"
    assert found[f"work: {OURS.title}"].note == OURS.note


def test_what_has_no_call_for_many_is_not_said_to_have_one(found: dict[str, Figure]) -> None:
    assert found["enqueue one by one: one 1.0"].value == 100
    assert found["enqueue by 100: two 1.0"].value == 2000
    assert "enqueue, 50 at once: one 1.0" not in found


def test_targets(found: dict[str, Figure]) -> None:
    work = found["work, rota : BullMQ"]
    assert (work.value, work.target, work.verdict) == (3, "≥ 3 ×", "PASS")
    enqueue = found["enqueue by 100, rota : BullMQ"]
    assert (enqueue.value, enqueue.verdict) == (3, "short by 25 %")
    python = found["work, rota : the best Python peer"]
    assert (python.note, python.value, python.verdict) == ("two 1.0", 6, "short by 60 %")


def test_the_skipped_are_in_the_table_and_in_the_file(
    found: dict[str, Figure], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert isnan(found["three 1.0"].value)
    print_table("peers", list(found.values()))
    written = re.sub(r"[^\w:.]+", " ", capsys.readouterr().out)
    assert "three 1.0 skipped cannot be installed: no" in written

    write_json(tmp_path / "figures.json", {"peers": list(found.values())}, "a server")
    parts = json.loads((tmp_path / "figures.json").read_text(), parse_constant=pytest.fail)["parts"]
    row = next(row for row in parts["peers"] if row["name"] == "three 1.0")
    assert row["value"] is None
    assert row["skipped"] == "cannot be installed: no such package"


def test_without_rota_there_are_no_ratios() -> None:
    rows = figures(Result(OURS, skipped="broke"), [result(ONE, work=[1.0])])
    assert [row.name for row in rows] == ["work: one 1.0", OURS.title]
    assert rows[0].note == "promises little"


# ── who cannot be installed ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ROTA_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def install(contestant: Contestant) -> str:
    """Why it cannot be installed; it never gets as far as to ask for the server."""
    entry = Entry(contestant)
    entry.install(None)  # type: ignore[arg-type]  # as said above
    for _ in range(2):
        entry.run("work", 1)
    return entry.result.skipped


def test_no_node_skips_its_peer(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache))
    assert install(BULLMQ) == "node is not here"


def test_an_installer_that_fails_skips_its_peer(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = cache.parent / "tools"
    tools.mkdir()
    for name, script in {"node": "", "npm": "echo first; echo no such package >&2; exit 1"}.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    assert install(BULLMQ) == "cannot be installed: no such package"
    assert install(BULLMQ) == "cannot be installed: no such package"  # nor is it taken for whole


def test_a_cache_that_cannot_be_written_skips_a_peer(cache: Path) -> None:
    cache.write_text("a file")
    assert install(ONE).startswith("cannot be installed: [Errno ")


def test_an_installer_that_never_ends_skips_its_peer(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = cache.parent / "tools"
    tools.mkdir()
    for name in ("node", "npm"):
        (tools / name).write_text("#!/bin/sh\nexec sleep 30\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    monkeypatch.setattr(environments, "PATIENCE_S", 0.2)
    assert install(BULLMQ) == "cannot be installed: npm took over 0.2 s"


def test_an_environment_is_made_once_per_requirements(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Contestant] = []
    monkeypatch.setattr(environments, "_install", lambda contestant, _: made.append(contestant))
    newer = replace(ONE, requirements=("one==1.0", "helper"))
    for contestant in (ONE, ONE, newer, newer):
        prepare(contestant)
    assert made == [ONE, newer]


# ── runs ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def tcp() -> Iterator[servers.Server]:
    with servers.private_server(tcp=True) as server:
        yield server


def test_rota_runs(tcp: servers.Server) -> None:
    contest = Contest(OURS, this_one(), tcp)
    for mode in contest.modes:
        assert contest.enqueue(mode, 200) > 0
        assert tcp.raw.dbsize() > 250, "jobs are missing: each has a record"
    assert contest.work(200) > 0


def test_the_first_run_of_a_measure_only_tells_how_many_jobs_the_next_takes(
    tcp: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    rates = iter([5_000.0, 40_000.0, 2.0])

    def enqueue(self: Contest, mode: str, jobs: int) -> float:
        asked.append(jobs)
        return next(rates)

    monkeypatch.setattr(Contest, "enqueue", enqueue)
    monkeypatch.setattr(entries, "prepare", lambda _: this_one())
    entry = Entry(OURS)
    entry.install(tcp)
    for _ in range(3):
        entry.run("batch", 2)
    assert asked == [1_000, 10_000, 80_000]
    assert entry.result.rates == {"batch": [40_000, 2]}


def test_a_worker_that_ends_is_out(tcp: servers.Server) -> None:
    broken = replace(OURS, worker=("python", "-m", "rota", "worker", "no_such_module:queue"))
    with pytest.raises(CannotRun, match=r"its worker ended: .*no_such_module"):
        Contest(broken, this_one(), tcp).work(10)


def test_an_enqueuer_that_fails_is_out(tcp: servers.Server) -> None:
    broken = replace(OURS, program="no_such_program")
    with pytest.raises(CannotRun, match=r"its enqueuer failed: .*no_such_program"):
        Contest(broken, this_one(), tcp).enqueue("batch", 10)


def test_every_peer_has_its_program() -> None:
    for peer in peers():
        name = peer.program if peer.node else f"{peer.program}.py"
        assert (PROGRAMS / name).exists()
        assert any(peer.version in requirement for requirement in peer.requirements)


def test_only_takes_peers_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["peers", "--only", "arq,nobody"])
    said = capsys.readouterr().err
    assert f"expected some of {', '.join(NAMES)}; given nobody" in " ".join(said.split())
