"""Runs the benchmarks: all, or the parts named."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
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
from benchmarks.report import Figure, Plan, print_table, write_json
from benchmarks.server import Server, private_server

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
    if given.chart is not None and given.parts and "fairness" not in given.parts:
        parser.error("--chart: only fairness has one")
    if given.only and given.parts and "peers" not in given.parts:
        parser.error("--only: that is which peers")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server must not outlive us
    runs = given.runs if given.runs is not None else (3 if given.quick else 5)
    plan = Plan(
        runs, given.quick, given.tcp, chart=given.chart, seeded=given.seeded, only=given.only
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
    return 0


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
        help="where the figures go (build/benchmarks.json)",
    )  # fmt: skip
    parser.add_argument(
        "--chart", type=Path, metavar="FILE.svg", help="the waits of fairness as a chart"
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
