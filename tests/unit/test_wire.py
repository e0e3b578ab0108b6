"""An open connection over asyncio: replies in order, each in its time, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis.asyncio
from redis.exceptions import ResponseError

from rota.connection.wire import Wire, packed

TIMEOUT = 5.0
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def wire_to(serve: Serve, folder: Path) -> AsyncIterator[Wire]:
    """A wire to a server that does as `serve` says with its one connection."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        writer.close()

    async with await asyncio.start_unix_server(accept, folder / "s"):
        opened = redis.asyncio.UnixDomainSocketConnection(
            path=str(folder / "s"), driver_info=None, protocol=2
        )
        await opened.connect()
        wire = Wire(opened)
        yield wire
        wire.close()
        await wire.wait_closed()


def test_commands_are_packed_for_the_server() -> None:
    assert packed([("GET", "é", 5), ("X", b"\x00\r\n")]) == (
        b"*3\r\n$3\r\nGET\r\n$2\r\n\xc3\xa9\r\n$1\r\n5\r\n*2\r\n$1\r\nX\r\n$3\r\n\x00\r\n\r\n"
    )


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
        assert isinstance(refused, ResponseError)
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


@pytest.mark.parametrize("reply", [b"?what\r\n", b"*-x\r\n"])
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
