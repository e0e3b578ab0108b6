"""What goes over a connection: commands as bytes, and over asyncio the replies to them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import hiredis
from redis.exceptions import InvalidResponse, ResponseError

from rota.connection.steps import Command
from rota.script.loader import Reply

CLOSE_TIMEOUT_S = 5.0
_MORE = object()


def packed(commands: Sequence[Command]) -> bytes:
    """Commands as the server reads them, to be sent in one go."""
    return b"".join([_pack(command) for command in commands])


def _pack(command: Command) -> bytes:
    return cast(bytes, hiredis.pack_command(command))  # type: ignore[arg-type]  # stub: one item


class NotAReply(ConnectionAbortedError):
    """What came is no reply of a server of ours."""


class Wire(asyncio.Protocol):
    """An open connection, taken over from the client that opened it. One caller at a time.

    From a command to its reply the client's own way goes through streams, locks and seven
    coroutines; here a reply ends the future that its caller awaits, and nothing else.
    """

    def __init__(self, opened: Any) -> None:
        self._timeout = 0.0
        # The writer would close its transport when it is forgotten, the client its writer.
        self._writer: asyncio.StreamWriter = opened._writer
        opened._writer = opened._reader = None
        self._transport = cast(asyncio.Transport, self._writer.transport)
        self._transport.set_protocol(self)
        self._reader = hiredis.Reader(
            protocolError=InvalidResponse, replyError=ResponseError, notEnoughData=_MORE
        )
        self._loop = asyncio.get_running_loop()
        self._lost = self._loop.create_future()
        self._answer: asyncio.Future[list[Reply]] | None = None
        self._replies: list[Reply] = []
        self._wanted = 0
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_lost(self) -> bool:
        return self._lost.done() or self._transport.is_closing()

    async def ask(self, commands: Sequence[Command], timeout: float) -> list[Reply]:
        """The replies, errors among them; each has its own time, `timeout` seconds.

        Raises OSError when the connection ends or the time is over, RuntimeError after `hang_up`.
        Then, or when it is cancelled, the wire must be closed: a reply may be on its way.
        """
        if self.is_lost:
            raise ConnectionResetError("the connection is closed")
        self._replies, self._wanted = [], len(commands)
        self._heard = self._loop.time()
        self._timeout = timeout
        self._answer = self._loop.create_future()
        due = self._heard + timeout
        if self._timer is None or self._timer.when() > due:
            self._stop_timer()
            self._timer = self._loop.call_at(due, self._look_at_time)
        try:
            self._transport.write(packed(commands))
            return await self._answer
        finally:
            self._answer = None

    def _look_at_time(self) -> None:
        """One timer serves all calls: to set and cancel one for each costs more."""
        self._timer = None
        if self._answer is None:
            return
        left = self._heard + self._timeout - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look_at_time)
        else:
            self._fail(TimeoutError(f"no reply within {self._timeout:g} s"))

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self._transport.abort()  # nobody has asked
            return
        self._heard = self._loop.time()
        try:
            self._reader.feed(data)
            while len(self._replies) < self._wanted:
                reply = self._reader.gets()
                if reply is _MORE:
                    return
                self._replies.append(reply)
        except InvalidResponse as error:
            self._fail(NotAReply(f"not a reply: {error}"))
        else:
            self._answer.set_result(self._replies)
            if self._reader.has_data():
                self._transport.abort()  # nobody has asked for more: the next call would read it

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)
        self._fail(
            exc if isinstance(exc, OSError) else ConnectionResetError("closed by the server")
        )

    def _fail(self, error: OSError) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    def hang_up(self) -> None:
        """Says that nothing more will be sent: a wait ends, what is on its way is still read."""
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def close(self) -> None:
        """To be used by nobody any more, after its last reply."""
        self._stop_timer()
        self._transport.close()

    def abort(self) -> None:
        """As `close`, with a call under way: what is not sent yet never will be."""
        self._stop_timer()
        self._transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def wait_closed(self) -> None:
        await asyncio.wait([self._lost], timeout=CLOSE_TIMEOUT_S)
