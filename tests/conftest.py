"""Fixtures for every test: servers, proxies, names, and the leak checks.

- `server`: a server, empty at first: Valkey, and with `@pytest.mark.legs("valkey", "cluster",
  "redis7")` the test runs once on each of those. `--leg cluster` on the command line narrows.
- `valkey`: Valkey, in files whose tests are not about the server.
- `private_server(kind="valkey", tcp=False, **config)`: one to kill or to configure.
- `proxy(server)`: a network to break in front of a standalone server.
- `queue_name`: of this test alone.
- `quick_renewals`: of this process's leases, for what waits until one is found lost.

After a test of a shared server: no key the catalogue does not know, no open connection, the server
alive. After an async test: no task left running.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import re
import zlib
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Protocol

import pytest

from tests.support import catalogue
from tests.support.binaries import Missing
from tests.support.proxy import Proxy, in_front_of
from tests.support.servers import KINDS, Fleet, Kind, Server
from tests.support.times import LEASE
from tests.support.waiting import eventually, eventually_async

_body_passed = pytest.StashKey[bool]()


class PrivateServer(Protocol):
    """`private_server(kind="valkey", tcp=False, **config)`; `maxmemory_policy` is given as such."""

    def __call__(self, kind: Kind = "valkey", *, tcp: bool = False, **config: str) -> Server: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--leg",
        action="append",
        choices=KINDS,
        help="run the tests of this server only (may be repeated; default: those a test names)",
    )


def pytest_configure(config: pytest.Config) -> None:
    os.environ.pop("ROTA_URL", None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "leg" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("legs")
    legs: tuple[str, ...] = marker.args if marker else ("valkey",)
    if unknown := set(legs) - set(KINDS):
        raise pytest.UsageError(f"unknown legs {sorted(unknown)}; there are {KINDS}")
    chosen: list[str] = metafunc.config.getoption("leg") or list(KINDS)
    metafunc.parametrize("leg", [leg for leg in legs if leg in chosen])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_body_passed] = report.passed
    return report


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    """The servers of this test process; all of them end with it."""
    fleet = Fleet()
    yield fleet
    fleet.close()


@pytest.fixture
def leg() -> Kind:
    """The server kind of this run of the test; parametrised by `pytest_generate_tests`."""
    raise AssertionError("the parameter comes from pytest_generate_tests")


@pytest.fixture
def server(leg: Kind, fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Server]:
    """The leg's shared server, empty. Do not stop or reconfigure it: see `private_server`."""
    yield from _lend(leg, fleet, request)


@pytest.fixture
def valkey(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Server]:
    """The shared standalone Valkey, empty, for what need not run on every leg."""
    yield from _lend("valkey", fleet, request)


@pytest.fixture
def private_server(fleet: Fleet) -> Iterator[PrivateServer]:
    """Starts servers of the test's own: to kill, to restart, to configure."""
    started: list[Server] = []

    def start(kind: Kind = "valkey", *, tcp: bool = False, **config: str) -> Server:
        settings = {name.replace("_", "-"): value for name, value in config.items()}
        try:
            server = fleet.private(kind, settings, tcp)
        except Missing as missing:
            pytest.skip(str(missing))
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def proxy() -> Iterator[Callable[[Server], Proxy]]:
    """Puts proxies in front of standalone servers, and takes them down after the test."""
    made: list[Proxy] = []

    def put(server: Server) -> Proxy:
        made.append(in_front_of(server))
        return made[-1]

    yield put
    for one in made:
        one.close()


@pytest.fixture
def quick_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A LEASE is renewed twice a second: its loss is noticed soon, and a stall is none."""
    monkeypatch.setattr("rota.consume.lease.RENEWALS_PER_LEASE", 2 * LEASE)


@pytest.fixture
def queue_name(request: pytest.FixtureRequest) -> str:
    """Readable, the same in every run, and no other test's."""
    test = request.node.nodeid
    words = re.sub(r"[^a-z0-9]+", "-", request.node.originalname.removeprefix("test_").lower())
    return f"{words[:40]}-{zlib.crc32(test.encode()):08x}"


@pytest.fixture(autouse=True)
def no_task_left(request: pytest.FixtureRequest) -> None:
    """Async tests end all they started; checked after their other fixtures are closed."""
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("check_tasks")


@pytest.fixture
async def check_tasks() -> AsyncIterator[None]:
    yield

    def left() -> list[str]:
        return [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    def none_left() -> bool:
        assert not left()
        return True

    await eventually_async(none_left, "the test left tasks running", timeout=0.5)


def _lend(kind: Kind, fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Server]:
    try:
        server = fleet.shared(kind)
    except Missing as missing:
        pytest.skip(str(missing))
    yield server
    assert server.alive, f"the test ended the shared {kind} server:\n{server.log_tail()}"
    if request.node.stash.get(_body_passed, False):  # a failed test has said enough
        _check_connections(server, request)
        _check_keys(server, request)


def _check_keys(server: Server, request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("foreign_keys"):
        return
    unknown = [key for key in server.keys() if not catalogue.is_known(key)]
    assert not unknown, f"the test left keys the catalogue does not know: {unknown}"


def _check_connections(server: Server, request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("keeps_connections"):
        return

    def none_left() -> bool:
        strangers = server.strangers()
        assert not strangers
        return True

    if server.strangers():
        gc.collect()
        eventually(none_left, "the test left connections to the server open", timeout=1.0)
