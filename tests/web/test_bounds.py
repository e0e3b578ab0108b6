"""What one visitor may take: connections, requests, live pages, guesses at passwords."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

import rota
from rota.web.bounds import FREE_GUESSES, MAX_GUESSING, Guesses, neighbourhood
from tests.support.times import IN_TIME, PATIENCE
from tests.support.waiting import eventually_async
from tests.web.serving import served
from tests.web.test_live import listening_to
from tests.web.visits import AFAR, Visit, at, visiting

OPS = ("ops", "s3cret")
WRONG = ("ops", "wrong")
FORM = {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.web.server.LOOK_S", 0.1)


@asynccontextmanager
async def connected(address: str, sent: bytes = b"") -> AsyncIterator[asyncio.StreamReader]:
    url = urlsplit(address)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(sent)
    try:
        yield reader
    finally:
        writer.close()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What it brought until the server ended the connection."""
    async with asyncio.timeout(PATIENCE):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


# ── connections ─────────────────────────────────────────────────────────────────────────────────


def head(path: str, *more: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *more, "", ""]).encode()


BODY = "Content-Length: 100"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: loc",
        head("/healthz", BODY) + b"x",
        head("/", BODY),
    ],
    ids=["nothing", "no-head", "half-a-head", "half-a-body", "no-body"],
)
async def test_a_half_open_connection_ends(
    queue: rota.Queue, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr("rota.web.server.HEAD_S", 0.2)
    async with served(queue) as (base, _), connected(base, sent) as reader:
        await ended(reader)


async def test_a_connection_that_trickles_ends(
    queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.web.server.HEAD_S", 0.3)

    async def trickle(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"x")
            await asyncio.sleep(0.02)

    async with served(queue) as (base, _):
        for begun in (b"GET / HTTP/1.1\r\nx: ", head("/healthz", "Content-Length: 9999999")):
            url = urlsplit(base)
            reader, writer = await asyncio.open_connection(url.hostname, url.port)
            writer.write(begun)
            trickling = asyncio.create_task(trickle(writer))
            await ended(reader)
            trickling.cancel()
            writer.close()


async def test_a_reader_that_reads_nothing_is_left(
    queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its live page ends, and with it what it holds."""
    monkeypatch.setattr("rota.web.server.SEND_S", 0.5)
    monkeypatch.setattr("rota.web.watch.EVERY_S", 0.01)
    large = "x" * 2_000_000
    monkeypatch.setattr("rota.web.stream._parts", lambda _, seen: {"a": f"{large}{seen.number}"})
    async with served(queue) as (base, site):
        path = urlsplit(base).path + "events"
        async with connected(base, head(path)) as reader:
            await reader.readuntil(b"\r\n\r\n")
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            assert len(site.streams) == 1
            await eventually_async(lambda: not site.streams, "the stream goes on")


async def test_one_peer_has_so_many_connections(
    queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.web.server.MAX_CONNECTIONS_EACH", 3)
    async with AsyncExitStack() as stack:
        base, _ = await stack.enter_async_context(served(queue))
        held = [await stack.enter_async_context(connected(base)) for _ in range(3)]
        async with connected(base) as further:
            assert await ended(further) == b""
        assert not any(one.at_eof() for one in held)
    async with served(queue, trusted_proxies=["127.0.0.1"]) as (base, _), AsyncExitStack() as stack:
        for _ in range(5):
            await stack.enter_async_context(connected(base))
        async with httpx2.AsyncClient() as http:
            assert (
                await http.get(urlsplit(base)._replace(path="/healthz").geturl())
            ).text == "ok\n"


async def test_half_open_connections_lock_out_nobody(
    queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.web.server.MAX_CONNECTIONS", 3)
    async with served(queue) as (base, _), AsyncExitStack() as stack:
        held = [await stack.enter_async_context(connected(base)) for _ in range(3)]
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            assert (await http.get(base)).status_code == 200
        assert await ended(held[0]) == b""


# ── requests ────────────────────────────────────────────────────────────────────────────────────


async def test_a_slow_form_is_refused(queue: rota.Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.web.acting.FORM_S", 0.2)

    async with served(queue) as (base, _):
        form = "\r\n".join(f"{name}: {value}" for name, value in FORM.items())
        begun = head(urlsplit(base).path + "do/lane.pause", form, BODY).replace(b"GET", b"POST")
        async with connected(base, begun + b"name=a") as reader:
            assert b" 408 " in await reader.readline()
    assert not (await queue.lane("a").info()).paused


async def test_a_form_of_another_kind_is_not_read(queue: rota.Queue) -> None:
    async with visiting(queue) as visit:

        async def never() -> AsyncIterator[bytes]:
            pytest.fail("it was read")
            yield b""  # type: ignore[unreachable]  # makes it a generator

        answer = await visit.http.post(visit.url("do/lane.pause"), content=never())
        assert answer.status_code == 415


class Gate:
    """An `authorize` that lets nobody through until it is opened."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def __call__(self, *_: object) -> bool:
        await self.open.wait()
        return True


async def test_one_visitor_has_so_many_requests(
    queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.web.bounds.MAX_OPEN", 3)
    gate = Gate()
    async with visiting(queue, authorize=gate) as visit:
        waiting = [asyncio.create_task(visit.get()) for _ in range(5)]
        done, held = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 2:
            done, held = await asyncio.wait(waiting, timeout=0.05)
        assert {task.result().status_code for task in done} == {429}
        assert done.pop().result().headers["retry-after"]
        app: Any = visit.http._transport.app  # type: ignore[attr-defined]
        async with at(app, client=AFAR) as other:
            further = asyncio.create_task(Visit(other, queue.name).get())
            gate.open.set()
            assert (await further).status_code == 200
        assert {(await task).status_code for task in held} == {200}
        assert (await visit.get()).status_code == 200


async def test_one_visitor_has_so_many_live_pages(
    queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.web.stream.MAX_STREAMS_EACH", 1)
    async with (
        served(queue, trusted_proxies=["127.0.0.1"]) as (base, _),
        listening_to(f"{base}events") as heard,
    ):
        await eventually_async(lambda: "status" in heard.newest, "nothing is pushed")
        async with httpx2.AsyncClient() as http:
            refused = await http.get(f"{base}events")
            assert refused.status_code == 503
            assert "of yours" in refused.text
            headers = {"x-forwarded-for": "203.0.113.9"}
            async with http.stream("GET", f"{base}events", headers=headers) as other:
                assert other.status_code == 200


async def test_an_answer_nobody_takes_ends(
    queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in servers of others, which may wait for ever."""
    monkeypatch.setattr("rota.web.bounds.SEND_S", 0.1)
    async with visiting(queue) as visit:
        app: Any = visit.http._transport.app  # type: ignore[attr-defined]
        scope = {
            "type": "http", "method": "GET", "path": visit.url("events"), "query_string": b"",
            "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1), "root_path": "",
        }  # fmt: skip

        async def receive() -> Any:
            await asyncio.sleep(PATIENCE)

        async def send(message: Any) -> None:
            await asyncio.sleep(PATIENCE if message["type"] == "http.response.body" else 0)

        async with asyncio.timeout(PATIENCE / 2):
            await app(scope, receive, send)
        assert not app.state.site.streams


@pytest.mark.parametrize(
    "lines",
    [
        ("Host: evil.test", "Host: localhost"),
        ("Host: localhost", "Host: evil.test"),
        ("Host: localhost\r\n evil.test",),
        ("Host : localhost",),
        (),
        ("Host: localhost", "Content-Length: 5", "Content-Length: 6"),
        ("Host: localhost", "Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Host: localhost", "Transfer-Encoding: gzip, chunked"),
        ("Host: localhost", "Content-Length: -1"),
    ],
)
async def test_requests_of_two_meanings_are_refused(
    busy: rota.Queue, lines: tuple[str, ...]
) -> None:
    """And with them what is behind them on the connection."""
    async with served(busy) as (base, _):
        path = urlsplit(base).path
        request = "\r\n".join((f"GET {path}lanes?order=all HTTP/1.1", *lines, "", ""))
        sent = f"{request}0\r\n\r\n".encode() + head(f"{path}lanes")
        async with connected(base, sent) as reader:
            status = (await reader.readline()).split()[1]
            assert status in (b"400", b"403"), status
            rest = await ended(reader) if status == b"400" else b""
            assert b"big" not in rest


async def test_no_address_leads_to_the_host_that_was_asked_for(queue: rota.Queue) -> None:
    async with visiting(queue, auth=OPS, http={"auth": OPS}, host="evil.test") as visit:
        for path in (f"/q/{queue.name}", "/static", "/q", "/healthz/", "//evil.test/"):
            answer = await visit.http.get(path)
            assert "evil" not in answer.headers.get("location", "")


# ── guesses ─────────────────────────────────────────────────────────────────────────────────────


def test_each_wrong_guess_costs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    guesses, delays = Guesses(), []
    for _ in range(20):
        delays.append(guesses.delay("a"))
        guesses.wrong("a")
    assert delays[:FREE_GUESSES] == [0.0] * FREE_GUESSES
    assert delays[FREE_GUESSES:] == [0.25, 0.5, 1, 2, 4] + [5] * 10
    assert guesses.delay("b") == 0
    monkeypatch.setattr("rota.web.bounds.FORGET_S", -1)
    assert guesses.delay("a") == 0


def test_what_is_remembered_of_guesses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.web.bounds.MAX_GUESSERS", 10)
    guesses = Guesses()
    for n in range(100):
        guesses.wrong(str(n))
    assert len(guesses._wrong) == 10


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("203.0.113.9", "203.0.113.10", False),
        ("::ffff:203.0.113.9", "203.0.113.9", True),
        ("::ffff:203.0.113.9", "::ffff:203.0.113.10", False),
        ("2001:db8::1", "2001:db8::2:3", True),
        ("2001:db8::1", "2001:db8:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("testclient", "-", False),
    ],
)
def test_what_counts_as_one_visitor(one: str, other: str, same: bool) -> None:
    assert (neighbourhood(one) == neighbourhood(other)) is same


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guesses wait far longer than any test, but for the free ones."""
    monkeypatch.setattr("rota.web.bounds.FIRST_DELAY_S", PATIENCE)
    monkeypatch.setattr("rota.web.bounds.LAST_DELAY_S", PATIENCE)


async def guess_all_free(visit: Visit) -> None:
    for _ in range(FREE_GUESSES):
        assert (await visit.http.get(visit.url(), auth=WRONG)).status_code == 401


@pytest.mark.usefixtures("slow")
async def test_guesses_are_slowed_and_few_at_once(queue: rota.Queue) -> None:
    async with visiting(queue, auth=OPS, client=AFAR) as visit:
        await guess_all_free(visit)
        for guess in (WRONG, OPS):  # the right one tells nothing earlier than a wrong one
            tasks = [
                asyncio.create_task(visit.http.get(visit.url(), auth=guess))
                for _ in range(MAX_GUESSING + 3)
            ]
            done, waiting = await asyncio.wait(tasks, timeout=0.3)
            while len(done) < 3:
                done, waiting = await asyncio.wait(tasks, timeout=0.1)
            assert {task.result().status_code for task in done} == {429}
            assert len(waiting) == MAX_GUESSING
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        # Who says nothing is told at once what to say; the probes go on.
        assert (await visit.get()).status_code == 401
        assert (await visit.http.get("/healthz")).status_code == 200


@pytest.mark.usefixtures("slow")
async def test_who_has_been_let_in_is_not_slowed_by_others_of_its_address(
    queue: rota.Queue,
) -> None:
    async with visiting(queue, auth=OPS, client=AFAR, host="queue.example") as visit:
        app: Any = visit.http._transport.app  # type: ignore[attr-defined]
        first = await visit.http.get(visit.url(), auth=OPS)
        assert first.status_code == 200
        cookie = first.headers["set-cookie"]
        assert cookie.startswith("rota_known=")
        assert "HttpOnly; SameSite=Strict" in cookie
        assert "s3cret" not in cookie
        async with at(app, client=AFAR, host="queue.example") as hostile:
            word = cookie.split("=")[1].split(";")[0]
            for forged in ("", "6f7073.", "ü", "66.\ud800", word[:-2] + "00"):
                said = {b"cookie": f"rota_known={forged}".encode("utf-8", "replace")}
                guess = await hostile.get(visit.url(), auth=WRONG, headers=said)
                assert guess.status_code == 401
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await hostile.get(visit.url(), auth=OPS)
            began = time.monotonic()
            answer = await visit.http.get(visit.url(), auth=OPS)
            assert answer.status_code == 200
            assert time.monotonic() - began < PATIENCE / 2
            assert "set-cookie" not in answer.headers
            # The cookie opens nothing, and guesses with it are slowed too.
            assert (await visit.get()).status_code == 401
            await guess_all_free(visit)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(IN_TIME / 10):
                    await visit.http.get(visit.url(), auth=OPS)
