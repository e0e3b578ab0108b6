"""Runs the benchmarks: all, or the parts named."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import (
    calls,
    delays,
    depth,
    fairness,
    floor,
    idle,
    lanes,
    pages,
    peers,
    processes,
    shapes,
    throughput,
    wake,
)
from benchmarks.peers.catalogue import NAMES
from benchmarks.report import Figure, Plan, print_table, read_json, write_json
from benchmarks.server import Server, private_server
from benchmarks.style import NEEDS

Part = Callable[[Server, Plan], list[Figure]]
PARTS: dict[str, Part] = {
    "throughput": throughput.run,
    "lanes": lanes.run,
    "depth": depth.run,
    "floor": floor.run,
    "calls": calls.run,
    "processes": processes.run,
    "shapes": shapes.run,
    "wake": wake.run,
    "delays": delays.run,
    "idle": idle.run,
    "fairness": fairness.run,
    "pages": pages.run,
    "peers": peers.run,
}
TCP_ONLY = frozenset({"peers"})
"""Not every peer's client knows Unix sockets."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(argv)
    _check(parser, given)
    if given.redraw is not None:
        return _redraw(given.redraw)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server must not outlive us
    runs = given.runs if given.runs is not None else (3 if given.quick else 5)
    plan = Plan(
        runs, given.quick, given.tcp, waits=given.waits, seeded=given.seeded, only=given.only
    )
    results: dict[str, list[Figure]] = {}
    binary = ""
    for name in given.parts or PARTS:
        began = time.monotonic()
        with private_server(tcp=plan.tcp or name in TCP_ONLY) as server:
            binary = server.binary
            results[name] = PARTS[name](server, plan)
        print_table(f"{name} ({time.monotonic() - began:.0f} s)", results[name])
    write_json(given.json, results, binary)
    print(f"{binary}; the figures are in {given.json}")
    print(_chart_beside(given.json, results))
    return 0


def _check(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    if given.waits is not None and given.parts and "fairness" not in given.parts:
        parser.error("--waits: they are those of fairness")
    if given.only and given.parts and "peers" not in given.parts:
        parser.error("--only: that is which peers")
    if given.redraw is not None and given.parts:
        parser.error("--redraw: of figures that are there; no part is run")
    results = given.redraw or given.json
    if _beside(results) in (results, given.waits):
        parser.error(f"{_beside(results)}: that is where the chart of the targets goes")


def _beside(results: Path) -> Path:
    return results.with_suffix(".svg")


def _draw(path: Path, results: Mapping[str, Sequence[Figure]]) -> str:
    """Why there is no chart; empty where there is one."""
    try:
        from benchmarks import targets_chart
    except ImportError as error:
        return f"it {NEEDS} ({error})"
    return "" if targets_chart.write(path, results) else "none of these figures has a target"


def _chart_beside(kept: Path, results: Mapping[str, Sequence[Figure]]) -> str:
    """What to say of it. An earlier run's does not stay beside figures that it does not show."""
    path = _beside(kept)
    if why := _draw(path, results):
        path.unlink(missing_ok=True)
        return f"no chart: {why}"
    return f"their chart is {path}"


def _redraw(kept: Path) -> int:
    try:
        why = _draw(_beside(kept), read_json(kept))
    except (OSError, ValueError) as error:
        why = str(error)
    print(f"no chart: {why}" if why else f"the chart is {_beside(kept)}")
    return 1 if why else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="What rota costs, on a private server. Parts: "
        + "; ".join(f"{name}: {_summary(part)}" for name, part in PARTS.items()),
    )
    parser.add_argument("parts", nargs="*", metavar="PART", type=_part, help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="fewer jobs, lanes and rounds")
    parser.add_argument("--runs", type=_rounds, metavar="N", help="rounds per figure (5)")
    parser.add_argument("--tcp", action="store_true", help="over the loopback, not a Unix socket")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", default=Path("build/benchmarks.json"),
        help="where the figures go (build/benchmarks.json); their chart is FILE.svg beside it",
    )  # fmt: skip
    parser.add_argument(
        "--redraw", type=Path, metavar="FILE",
        help="run nothing: draw the chart of the targets again, of such a file, beside it",
    )  # fmt: skip
    parser.add_argument(
        "--waits", type=Path, metavar="FILE.svg", help="fairness: a chart of its waits"
    )
    parser.add_argument(
        "--seeded", action="store_true",
        help="fairness: arrivals from the generator, even where recorded events are here",
    )  # fmt: skip
    parser.add_argument(
        "--only", type=_peers, default=(), metavar="PEER,PEER",
        help=f"peers: these alone, of {', '.join(NAMES)}",
    )  # fmt: skip
    return parser


def _part(name: str) -> str:
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(PARTS)}; given {name!r}")
    return name


def _peers(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := sorted(set(names) - set(NAMES)):
        raise argparse.ArgumentTypeError(
            f"expected some of {', '.join(NAMES)}; given {', '.join(unknown)}"
        )
    return names


def _rounds(text: str) -> int:
    try:
        rounds = int(text)
    except ValueError:
        rounds = 0
    if rounds < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, given {text!r}")
    return rounds


def _summary(part: Part) -> str:
    doc = sys.modules[part.__module__].__doc__ or ""
    return doc.partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
