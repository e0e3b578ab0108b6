"""An open connection: replies in order, each in its time, and how it ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from redis.crc import key_slot

from rota.connection import blocking, parse_url
from rota.connection.aio import Connection
from rota.connection.faults import ErrorReply
from rota.connection.protocol import slot_of
from rota.connection.steps import Command
from rota.connection.target import Address
from rota.connection.wire import greeting, packed
from rota.script.keys import Keys

TIMEOUT = 5.0
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def wire_to(serve: Serve, folder: Path) -> AsyncIterator[Connection]:
    """A wire to a server that does as `serve` says with its one connection."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        writer.close()

    async with await asyncio.start_unix_server(accept, folder / "s"):
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_unix_connection(Connection, str(folder / "s"))
        yield wire
        wire.close()
        await wire.wait_closed()


def test_commands_are_packed_for_the_server() -> None:
    assert packed([("GET", "é", 5), ("X", b"\x00\r\n")]) == (
        b"*3\r\n$3\r\nGET\r\n$2\r\n\xc3\xa9\r\n$1\r\n5\r\n*2\r\n$1\r\nX\r\n$3\r\n\x00\r\n\r\n"
    )


@pytest.mark.parametrize("name", ["q", "a}b", "}", "{", "{}", "é:x", "a{b}c"])
def test_a_queue_is_in_the_slot_that_the_server_says(name: str) -> None:
    keys = Keys(name)
    assert slot_of(keys) == key_slot(keys.config.encode())


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://h", []),
        ("redis://:p%20%C3%A9%2F@h/3", [("AUTH", "p é/"), ("SELECT", 3)]),
        ("redis://u%3A:p%40@h", [("AUTH", "u:", "p@")]),
        ("redis://u@h", [("AUTH", "u", "")]),
        ("unix:///s?db=2&password=x", [("AUTH", "x"), ("SELECT", 2)]),
        ("redis+cluster://u:p@h,h", [("AUTH", "u", "p")]),
        ("redis+sentinel://u:p@h/main/4", []),
        ("redis+sentinel://u:p@h/main?sentinel_password=s", [("AUTH", "s")]),
    ],
)
def test_a_connection_begins_with_the_login_and_the_database(url: str, said: list[Command]) -> None:
    target = parse_url(url)
    assert greeting(target, target.addresses[0]) == said


def test_a_master_is_told_the_urls_login_and_not_the_sentinels() -> None:
    target = parse_url("redis+sentinel://u:p@h/main/4?sentinel_password=s")
    assert greeting(target, Address("master", 1)) == [("AUTH", "u", "p"), ("SELECT", 4)]


def test_a_blocking_connection_gives_replies_in_order_and_ends_with_its_server() -> None:
    ours, theirs = socket.socketpair()
    connection = blocking.Connection(ours)
    with closing(connection), closing(theirs):
        theirs.sendall(b":1\r\n-NOSCRIPT none\r\n*2\r\n$1\r\nx\r\n$-1\r\n")
        one, refused, pair = connection.ask([("A",)] * 3, TIMEOUT)
        assert (one, pair, str(refused)) == (1, [b"x", None], "NOSCRIPT none")
        with pytest.raises(TimeoutError, match=r"no reply within 0\.1 s"):
            connection.ask([("A",)], 0.1)
        before = connection.is_lost
        theirs.shutdown(socket.SHUT_WR)
        assert (before, connection.is_lost) == (False, True)
        with pytest.raises(ConnectionResetError, match="closed by the server"):
            connection.ask([("A",)], TIMEOUT)


@pytest.mark.parametrize("reply", [b"?what\r\n", b"*-x\r\n", b"*2\r\n*4294967295\r\n"])
def test_what_is_no_reply_fails_a_blocking_call(reply: bytes) -> None:
    ours, theirs = socket.socketpair()
    connection = blocking.Connection(ours)
    with closing(connection), closing(theirs):
        theirs.sendall(reply)
        with pytest.raises(ConnectionAbortedError, match="not a reply"):
            connection.ask([("A",)], TIMEOUT)


def test_what_a_blocking_connection_is_sent_unasked_no_call_reads() -> None:
    ours, theirs = socket.socketpair()
    connection = blocking.Connection(ours)
    with closing(connection), closing(theirs):
        theirs.sendall(b":1\r\n:2\r\n")
        assert connection.ask([("A",)], TIMEOUT) == [1]
        assert connection.is_lost
    ours, theirs = socket.socketpair()
    connection = blocking.Connection(ours)
    with closing(connection), closing(theirs):
        before = connection.is_lost
        theirs.sendall(b":1\r\n")
        assert (before, connection.is_lost) == (False, True)


async def test_replies_come_in_order_errors_among_them(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"B\r\n")
        for part in (b":1\r\n-NO", b"SCRIPT none\r\n*2\r\n$1\r\nx\r", b"\n$-1\r\n"):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        await reader.readuntil(b"C\r\n")
        writer.write(b"+OK\r\n")
        await reader.read()

    async with wire_to(serve, tmp_path) as wire:
        one, refused, pair = await wire.ask([("A",), ("A",), ("B",)], TIMEOUT)
        assert (one, pair) == (1, [b"x", None])
        assert isinstance(refused, ErrorReply)
        assert str(refused) == "NOSCRIPT none"
        assert await wire.ask([("C",)], TIMEOUT) == [b"OK"]


async def test_each_reply_has_its_own_time(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"A\r\n")
        for _ in range(5):
            await asyncio.sleep(0.1)
            writer.write(b":1\r\n")
        await reader.read()

    async with wire_to(serve, tmp_path) as wire:
        assert await wire.ask([("A",)] * 5, 0.25) == [1] * 5
        with pytest.raises(TimeoutError, match="no reply within 0.25 s"):
            await wire.ask([("A",)], 0.25)


async def test_a_connection_that_ends_fails_what_was_asked_and_all_after_it(
    tmp_path: Path,
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"A\r\n")
        writer.write(b":1\r\n")

    async with wire_to(serve, tmp_path) as wire:
        with pytest.raises(ConnectionResetError):
            await wire.ask([("A",), ("A",)], TIMEOUT)
        assert wire.is_lost
        with pytest.raises(ConnectionResetError):
            await wire.ask([("A",)], TIMEOUT)


@pytest.mark.parametrize("reply", [b"?what\r\n", b"*-x\r\n", b"*2\r\n*4294967295\r\n"])
async def test_what_is_no_reply_fails_the_call(reply: bytes, tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"A\r\n")
        writer.write(reply)
        await reader.read()

    async with wire_to(serve, tmp_path) as wire:
        with pytest.raises(ConnectionAbortedError, match="not a reply"):
            await wire.ask([("A",)], TIMEOUT)


async def test_a_reply_that_nobody_asked_for_ends_the_connection(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"+OK\r\n")
        await reader.read()

    async with wire_to(serve, tmp_path) as wire:
        await wire.wait_closed()
        assert wire.is_lost


async def test_a_reply_too_many_is_not_that_of_the_next_call(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"A\r\n")
        writer.write(b":1\r\n:2\r\n")
        await reader.read()

    async with wire_to(serve, tmp_path) as wire:
        assert await wire.ask([("A",)], TIMEOUT) == [1]
        with pytest.raises(ConnectionResetError):
            await wire.ask([("A",)], TIMEOUT)


async def test_hanging_up_lets_the_reply_on_its_way_be_read(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until its end
        writer.write(b":1\r\n")

    async with wire_to(serve, tmp_path) as wire:
        asked = asyncio.create_task(wire.ask([("A",)], TIMEOUT))
        await asyncio.sleep(0)
        wire.hang_up()
        assert await asked == [1]
        with pytest.raises((RuntimeError, OSError)):
            await wire.ask([("A",)], TIMEOUT)
