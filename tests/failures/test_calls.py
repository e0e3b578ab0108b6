"""How long a call may take, and what is sent again meanwhile, from a client's first call on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

import rota
from rota.connection.faults import NobodyThere
from rota.connection.protocol import BOUNDS, deliver
from rota.connection.route import Route
from rota.connection.steps import Embedded, Send
from rota.connection.target import Address, parse_url
from rota.errors import ConfigError, Unavailable
from rota.script import stubs
from rota.script.keys import Keys
from rota.script.loader import LIBRARY, Wait
from tests.conftest import PrivateServer
from tests.support.faulty import CUT_AFTER, SILENT, Break
from tests.support.proxy import Proxy
from tests.support.queues import calls, dump, open_queue, spec, specs
from tests.support.seed import Seed
from tests.support.servers import Server
from tests.support.times import IN_TIME, LEASE, PATIENCE
from tests.support.waiting import eventually, eventually_async

FACES = ["loop", "threads"]


@pytest.fixture
def seeds() -> Iterator[Callable[..., Seed]]:
    with ExitStack() as stack:
        yield lambda *ports: stack.enter_context(Seed(*ports))


def port_of(server: Server) -> int:
    return int(server.url.rpartition(":")[2])


async def enqueue(queue: rota.Queue, face: str, **fields: Any) -> rota.Enqueued:
    if face == "loop":
        return await queue.enqueue(spec(**fields))
    return await asyncio.to_thread(queue.sync.enqueue, spec(**fields))


# ── a client's first call ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("lost", ["INFO", "enqueue"])
async def test_a_first_call_whose_reply_is_lost_is_sent_again(
    valkey: Server, queue_name: str, faulty: Break, face: str, lost: str
) -> None:
    proxy = faulty(valkey)
    proxy.plant(lost, CUT_AFTER, times=1)
    async with open_queue(proxy.url, queue_name) as queue:
        assert (await enqueue(queue, face)).outcome == "created"
        assert proxy.failed == {lost: 1}
        assert len(list(dump(valkey, queue).each("job:"))) == 1


@pytest.mark.parametrize("face", FACES)
async def test_a_first_call_waits_for_a_server_that_stands_still(
    private_server: PrivateServer, queue_name: str, face: str
) -> None:
    server = private_server()
    async with open_queue(server, queue_name) as queue:
        server.freeze()
        call = asyncio.create_task(enqueue(queue, face))
        await asyncio.wait([call], timeout=0.5)
        server.thaw()
        assert (await asyncio.wait_for(call, IN_TIME)).outcome == "created"


@pytest.mark.parametrize("face", FACES)
async def test_a_service_that_a_sentinel_does_not_know_is_told_at_once(
    seeds: Callable[..., Seed], face: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = seeds(1)
    monkeypatch.setattr(seed, "_answer", lambda command: b"*-1\r\n")
    queue = rota.Queue("q", url=f"redis+sentinel://127.0.0.1:{seed.port}/main")
    with pytest.raises(Unavailable, match="no such service"):
        await enqueue(queue, face)
    assert seed.asked == 1
    await queue.close()


# ── who stands in whose way ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["durable", "many"])
async def test_claims_and_endings_do_not_stand_behind_enqueues(
    valkey: Server, queue_name: str, faulty: Break, how: str
) -> None:
    """More of them without an answer than there are connections."""
    proxy = faulty(valkey)
    durable = rota.Durable(fsync=False, replicas=1, timeout=0.1) if how == "durable" else None
    async with rota.Queue(queue_name, url=proxy.url) as queue:
        await queue.enqueue(spec())
        proxy.plant("WAIT" if durable else "enqueue", SILENT)
        many = [
            asyncio.create_task(queue.enqueue_many(specs(1), durable=durable)) for _ in range(50)
        ]
        await eventually_async(lambda: sum(proxy.failed.values()) >= 8, "no call is held")
        async with asyncio.timeout(IN_TIME), queue.consumer(lease=LEASE) as consumer:
            (job,) = await consumer.claim()
            assert await consumer.complete(job) == ["ok"]
        for call in many:
            call.cancel()
        await asyncio.gather(*many, return_exceptions=True)
        proxy.heal()


@pytest.mark.parametrize("how", ["durable", "many"])
def test_threads_that_claim_do_not_stand_behind_those_that_enqueue(
    valkey: Server, queue_name: str, faulty: Break, how: str
) -> None:
    proxy = faulty(valkey)
    durable = rota.Durable(fsync=False, replicas=1, timeout=0.1) if how == "durable" else None
    with rota.Queue(queue_name, url=proxy.url).sync as queue:
        queue.enqueue(spec())
        proxy.plant("WAIT" if durable else "enqueue", SILENT)

        def flood() -> None:
            with suppress(rota.NotDurable):
                queue.enqueue_many(specs(1), durable=durable)

        threads = [threading.Thread(target=flood) for _ in range(50)]
        for thread in threads:
            thread.start()
        eventually(lambda: sum(proxy.failed.values()) >= 8, "no call is held")
        began = time.monotonic()
        with queue.consumer(lease=LEASE) as consumer:
            (job,) = consumer.claim()
            assert consumer.complete(job) == ["ok"]
        assert time.monotonic() - began < IN_TIME
        proxy.heal()
        for thread in threads:
            thread.join(PATIENCE)


# ── the time of a call ──────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def standing_still(
    private_server: PrivateServer, queue_name: str, timeout: float
) -> AsyncIterator[tuple[rota.Queue, Server]]:
    """A queue that has been used from a loop and from threads, and its server, frozen since."""
    server = private_server()
    async with rota.Queue(queue_name, url=server.url, timeout=timeout) as queue:
        for face in FACES:
            await enqueue(queue, face)
        server.freeze()
        yield queue, server
        server.thaw()


@pytest.mark.parametrize("face", FACES)
async def test_a_call_takes_no_longer_than_the_queue_says(
    private_server: PrivateServer, queue_name: str, face: str
) -> None:
    """Far less than the usual ten seconds, of a server that stands still, sent again or not."""
    async with standing_still(private_server, queue_name, timeout=1) as (queue, _):
        began = time.monotonic()
        with pytest.raises(Unavailable):
            await enqueue(queue, face)
        with pytest.raises(Unavailable):
            await asyncio.to_thread(queue.sync.info) if face == "threads" else await queue.info()
        assert time.monotonic() - began < IN_TIME


async def test_callers_behind_the_call_in_flight_wait_no_longer_than_it(
    private_server: PrivateServer, queue_name: str
) -> None:
    ended: list[float] = []

    async def call(queue: rota.Queue) -> None:
        with pytest.raises(Unavailable):
            await queue.enqueue(spec())
        ended.append(time.monotonic())

    async with standing_still(private_server, queue_name, timeout=4) as (queue, _):
        await asyncio.wait_for(asyncio.gather(*(call(queue) for _ in range(5))), PATIENCE)
        assert ended[-1] - ended[0] < 3.5, "they waited for a second call's time"


async def test_who_gave_up_waiting_leaves_the_later_ones_their_time(
    private_server: PrivateServer, queue_name: str
) -> None:
    """A call in flight while the first ones behind it give up still carries the rest."""
    async with standing_still(private_server, queue_name, timeout=5) as (queue, server):
        early = [asyncio.create_task(queue.enqueue(spec())) for _ in range(3)]
        await asyncio.wait(early, timeout=4)
        late = asyncio.create_task(queue.enqueue(spec()))
        done = await asyncio.wait_for(asyncio.gather(*early, return_exceptions=True), PATIENCE)
        assert all(isinstance(one, Unavailable) for one in done)
        server.thaw()
        assert (await asyncio.wait_for(late, IN_TIME)).outcome == "created"


async def test_a_claim_waits_no_longer_for_its_answer_than_its_lease(
    valkey: Server, queue_name: str, faulty: Break
) -> None:
    """What would come later is others' by then."""
    proxy = faulty(valkey)
    async with open_queue(proxy.url, queue_name) as queue, queue.consumer(lease=1) as consumer:
        proxy.plant("exchange", SILENT)
        claim = asyncio.create_task(consumer.claim())
        await eventually_async(
            lambda: proxy.failed.get("exchange", 0) >= 2, "it does not ask again"
        )
        proxy.heal()
        assert await asyncio.wait_for(claim, IN_TIME) == []


@pytest.mark.parametrize("face", FACES)
async def test_a_master_that_stands_still_is_asked_for_again(
    private_server: PrivateServer, queue_name: str, seeds: Callable[..., Seed], face: str
) -> None:
    """Its replacement is named while the call goes on: the call moves over within its time."""
    first, second = private_server(tcp=True), private_server(tcp=True)
    seed = seeds(port_of(first))
    url = f"redis+sentinel://127.0.0.1:{seed.port}/main"
    queue = rota.Queue(queue_name, url=url, timeout=6)
    await enqueue(queue, face)
    first.freeze()
    call = asyncio.create_task(enqueue(queue, face, id="moved"))
    await asyncio.wait([call], timeout=0.2)
    seed.ports = (port_of(second),)
    assert (await asyncio.wait_for(call, PATIENCE)).outcome == "created"
    assert second.raw().exists(queue.link.keys.key("job", "moved")) == 1
    first.thaw()
    await queue.close()


@pytest.mark.parametrize("timeout", [0, 0.05, 31, -1, True, "5", None, float("nan")])
def test_a_timeout_out_of_bounds_is_refused(timeout: Any) -> None:
    with pytest.raises(ConfigError, match="timeout: expected"):
        rota.Queue("q", timeout=timeout)


# ── who knows the way ───────────────────────────────────────────────────────────────────────────


def behind(kind: str, *seeds: Seed) -> str:
    hosts = ",".join(f"127.0.0.1:{seed.port}" for seed in seeds)
    return f"redis+{kind}://{hosts}" + ("/main" if kind == "sentinel" else "")


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("kind", ["sentinel", "cluster"])
async def test_seeds_that_do_not_know_the_way_hold_nobody_up(
    private_server: PrivateServer,
    queue_name: str,
    seeds: Callable[..., Seed],
    kind: str,
    face: str,
) -> None:
    """One is mute, one not there; another is cut off, and names a server that is gone."""
    mute, dead, gone = seeds(), seeds(), seeds()
    dead.refuse()
    gone.refuse()
    isolated, good = seeds(gone.port), seeds(port_of(private_server(tcp=True)))
    for others in ([mute, dead], [isolated]):
        async with open_queue(behind(kind, *others, good), queue_name) as queue:
            async with asyncio.timeout(IN_TIME):
                assert (await enqueue(queue, face)).outcome == "created"
    assert isolated.asked


async def test_many_that_ask_a_seed_at_once_do_not_stand_in_their_own_way(
    private_server: PrivateServer, queue_name: str, seeds: Callable[..., Seed]
) -> None:
    """All ask the one that keeps silent first: none may wait for it to ask the other."""
    server = private_server(tcp=True)
    mute, good = seeds(), seeds(port_of(server))
    url = behind("sentinel", mute, good)
    async with AsyncExitStack() as stack:
        queues = [
            await stack.enter_async_context(open_queue(url, f"{queue_name}-{n}")) for n in range(40)
        ]
        done = await asyncio.gather(*(queue.enqueue(spec()) for queue in queues))
    assert {one.outcome for one in done} == {"created"}


@pytest.mark.parametrize("face", FACES)
async def test_all_addresses_of_a_cluster_change_the_slots_owner_last(
    private_server: PrivateServer,
    queue_name: str,
    seeds: Callable[..., Seed],
    proxy: Callable[[Server], Proxy],
    face: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No call ever fails before: who is new is known all the same, and tells where the owner is."""
    monkeypatch.setattr("rota.connection.route.MAP_AGE_S", 0, raising=False)
    server = private_server(tcp=True)
    before, after = proxy(server), proxy(server)
    old, new = seeds(before.port), seeds(before.port)
    async with open_queue(behind("cluster", old), queue_name) as queue:
        await enqueue(queue, face)
        old.ports = (before.port, new.port)
        await enqueue(queue, face)
        old.refuse()
        new.ports = (after.port, new.port)
        before.refuse()
        assert (await enqueue(queue, face, id="last")).outcome == "created"
        assert server.raw().exists(queue.link.keys.key("job", "last")) == 1


@pytest.mark.legs("cluster")
async def test_the_map_of_a_cluster_is_read_anew_though_nothing_fails(
    server: Server, queue_name: str
) -> None:
    async with open_queue(server, queue_name) as queue:
        await queue.enqueue(spec())
        route = queue.link.async_client._route
        right = dict(route.slots)
        read = calls(server, "cluster|slots")
        for _ in range(3):
            await queue.info()
        assert calls(server, "cluster|slots") == read
        route.slots, route.fresh_until = dict.fromkeys(right, next(iter(right.values()))), 0
        await queue.info()
        await queue.info()
        assert route.slots == right
        assert calls(server, "cluster|slots") == read + 1


@pytest.mark.parametrize(
    ("url", "goes_on"), [("embedded:/nowhere", True), ("redis://127.0.0.1:1", False)]
)
def test_only_an_embedded_server_that_refuses_is_begun_anew(url: str, goes_on: bool) -> None:
    """It has just ended with its last user; any other address may be wrong."""
    call = stubs.queue_info(Keys("q"))
    steps = deliver([call], Route(parse_url(url)), LIBRARY, BOUNDS)
    step = next(steps)
    if isinstance(step, Embedded):
        step = steps.send(Address(path="/nowhere/socket"))
    assert isinstance(step, Send)
    if not goes_on:
        with pytest.raises(rota.Unavailable, match="cannot be reached"):
            steps.throw(NobodyThere("nobody is there"))
        return
    assert isinstance(steps.throw(NobodyThere("nobody is there")), Wait)
    assert isinstance(steps.send(None), Embedded)
