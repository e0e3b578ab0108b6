"""What answers is no server of ours, or takes nothing: typed errors, and nothing is kept for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

import rota
from rota.connection import parse_url
from rota.connection.aio import _Pool as Pool
from rota.connection.faults import Lost
from rota.connection.steps import Send, Terms
from rota.connection.target import Address
from rota.errors import Unavailable
from tests.support.times import IN_TIME
from tests.support.waiting import eventually_async

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]


@asynccontextmanager
async def a_server(answer: Answer) -> AsyncIterator[int]:
    """Its port; every connection is given to `answer`."""
    held: list[asyncio.StreamWriter] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        await asyncio.sleep(0)
        answer(reader, writer)

    listening = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        port: int = listening.sockets[0].getsockname()[1]
        yield port
    finally:
        listening.close()
        for writer in held:
            writer.transport.abort()
        await listening.wait_closed()


def talk_http(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def test_another_protocol_is_unavailable_on_both_faces() -> None:
    async with a_server(talk_http) as port:
        queue = rota.Queue("stranger", url=f"redis://127.0.0.1:{port}")
        with pytest.raises(Unavailable, match="cannot be reached"):
            await queue.info()
        with pytest.raises(Unavailable, match="cannot be reached"):
            await asyncio.to_thread(lambda: queue.sync.info())
        await queue.close()


async def test_what_a_server_does_not_take_is_not_kept_for_it() -> None:
    """It reads nothing, so that most of a call's bytes stay here: they go with the call."""

    def take_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]

    async with a_server(take_nothing) as port:
        pool = Pool(parse_url(f"redis://127.0.0.1:{port}"), size=2)
        address = Address("127.0.0.1", port)
        wires = []
        for _ in range(3):
            terms = Terms(time.monotonic() + IN_TIME, reply=0.2)
            wire = await pool._open(address, terms)
            wires.append(wire)
            pool._put_back(address, wire)
            with pytest.raises(Lost):
                await pool.send(Send(address, [("SET", "k", "x" * 16_000_000)], terms))
        await eventually_async(
            lambda: all(wire._lost.done() for wire in wires), "the connections are gone"
        )
        assert [wire._transport.get_write_buffer_size() for wire in wires] == [0, 0, 0]
