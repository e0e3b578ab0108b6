"""The protocol over asyncio. One set of connections per running loop, closed with the loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

from rota.connection.faults import NotAReply, NotSent, accept, has_refusal, nobody
from rota.connection.protocol import BaseClient, Bounds
from rota.connection.route import Route, route_to
from rota.connection.sharing import EmbeddedUse, Pool, Shared
from rota.connection.steps import HEDGE_S, ROOMS, Command, Drop, Embedded, Race, Send, Step, Terms
from rota.connection.target import Address, Target
from rota.connection.wire import Replies, greeting, keep_alive, packed, patience, tls_context
from rota.errors import Unavailable
from rota.script.keys import Keys
from rota.script.loader import Operation, Reply, Wait

T = TypeVar("T")

CLOSE_TIMEOUT_S = 5.0


class Connection(asyncio.BufferedProtocol):
    """An open connection; see `sharing.Connection`.

    From a command to its reply nothing stands between: a reply ends the future that its caller
    awaits.
    """

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lost = self._loop.create_future()
        self._replies = Replies()
        self._wanted = 0
        self._answer: asyncio.Future[list[Reply]] | None = None
        self._hung_up = False
        self._timeout = 0.0
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def keep_alive(self) -> None:
        keep_alive(self._transport.get_extra_info("socket"))

    @property
    def is_lost(self) -> bool:
        return self._hung_up or self._lost.done() or self._transport.is_closing()

    async def ask(self, commands: Sequence[Command], timeout: float) -> list[Reply]:
        """The replies, errors among them, with silences of at most `timeout` seconds.

        Raises OSError when the connection ends or the time is over. Then, or when it is cancelled,
        it must be aborted: a reply may be on its way.
        """
        if self.is_lost:
            raise ConnectionResetError("the connection is closed")
        self._wanted = len(commands)
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

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._replies.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._answer is None or self._answer.done():
            self._transport.abort()  # nobody has asked
            return
        self._heard = self._loop.time()
        try:
            found = self._replies.feed(nbytes, self._wanted)
        except NotAReply as error:
            self._fail(error)
            return
        if found is not None:
            self._answer.set_result(found)
            if self._replies.has_more:
                self._transport.abort()

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
        self._hung_up = True
        if self._transport.can_write_eof():  # TLS cannot: its waits are short
            self._transport.write_eof()

    def close(self) -> None:
        self._stop_timer()
        self._transport.close()

    def abort(self) -> None:
        self._stop_timer()
        self._transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def wait_closed(self) -> None:
        await asyncio.wait([self._lost], timeout=CLOSE_TIMEOUT_S)


async def _connect(target: Target, address: Address) -> Connection:
    loop = asyncio.get_running_loop()
    if address.path:
        return (await loop.create_unix_connection(Connection, address.path))[1]
    tls: dict[str, Any] = {}
    if target.tls:
        tls = {"ssl": tls_context(target.files), "ssl_shutdown_timeout": CLOSE_TIMEOUT_S}
    return (await loop.create_connection(Connection, address.host, address.port, **tls))[1]


class _Pool(Pool[Connection, asyncio.Semaphore]):
    """The connections of one loop."""

    def __init__(self, target: Target, size: int) -> None:
        super().__init__(target, asyncio.Semaphore, size)
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self.users: WeakSet[AsyncClient] = WeakSet()
        self._keeper = self._keep()

    def serves(self) -> bool:
        """Whether it is open, and of the running loop of this process."""
        here = self._loop is asyncio.get_running_loop() and self._pid == os.getpid()
        return here and not self._closed

    async def open(self) -> None:
        """Ties the pool's life to the loop's: `asyncio.run` ends generators before it closes."""
        await anext(self._keeper)

    async def _keep(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._closed = True
            for connection in self.drop():
                await connection.wait_closed()

    async def close(self) -> None:
        await self._keeper.aclose()

    async def send(self, step: Send) -> list[Reply]:
        address, terms = step.address, step.terms
        room = self._room(address, terms.room)
        if room.locked():
            await _wait_for(room, terms)
        else:
            await room.acquire()
        try:
            connection = self._take(address) or await self._open(address, terms)
            try:
                replies = await connection.ask(step.commands, min(terms.left, terms.reply))
                if step.confirm is not None and not has_refusal(replies):
                    replies += await connection.ask([step.confirm()], terms.left)
            except BaseException as error:
                self._give_up(address, connection, error)
            self._put_back(address, connection)
            return replies
        finally:
            room.release()

    async def _open(self, address: Address, terms: Terms) -> Connection:
        connection, within = None, patience(terms)
        try:
            async with asyncio.timeout(within):
                connection = await _connect(self._target, address)
            if not address.path:
                connection.keep_alive()
            if commands := greeting(self._target, address):
                accept(await connection.ask(commands, within))
        except BaseException as error:
            self._not_opened(address, connection, error)
        self._busy.add(connection)
        return connection

    def _later(self, seconds: float, do: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, do)

    async def race(self, step: Race) -> tuple[Address, Any]:
        """See `Race`. Who has lost is not waited for."""
        left, troubles = list(step.addresses), list[Unavailable]()
        asked: dict[asyncio.Task[list[Reply]], Address] = {}
        try:
            while left or asked:
                if left:
                    address = left.pop(0)
                    question = self.send(step.question(address))
                    asked[asyncio.get_running_loop().create_task(question)] = address
                patience = HEDGE_S if left else None
                done, _ = await asyncio.wait(
                    asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    address = asked.pop(task)
                    try:
                        return address, step.read(task.result()[0], address)
                    except Unavailable as fault:
                        troubles.append(fault)
            raise nobody(troubles)
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)


async def _wait_for(room: asyncio.Semaphore, terms: Terms) -> None:
    try:
        async with asyncio.timeout(terms.left):
            await room.acquire()
    except TimeoutError:
        raise NotSent("no connection became free") from None


class Connections:
    """The connections to one server, a set for each loop: a process's, or those of one client."""

    def __init__(self, target: Target, size: int = max(ROOMS.values())) -> None:
        self.route = route_to(target)
        self.server = EmbeddedUse(target)
        self._target = target
        self._size = size
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool] = WeakKeyDictionary()

    async def enter(self, user: AsyncClient) -> _Pool:
        """The running loop's."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            forget_closed(self._pools)
            pool = self._pools[loop] = _Pool(self._target, self._size)
            await pool.open()
        pool.users.add(user)
        return pool

    def here(self) -> _Pool | None:
        return self._pools.get(asyncio.get_running_loop())

    async def leave(self, user: AsyncClient) -> None:
        """With the last one the loop's connections end; with them all the use of an embedded
        server."""
        pool = self.here()
        try:
            if pool is not None:
                pool.users.discard(user)
                if not pool.users:
                    self._pools.pop(asyncio.get_running_loop(), None)
                    await pool.close()
        finally:  # also where this is cancelled meanwhile: nobody else would let go of the server
            forget_closed(self._pools)
            if self._target.kind == "embedded" and not self._pools:
                self.route.forget(0)  # whoever calls next holds the server first
                await asyncio.to_thread(self.server.close)


def forget_closed(pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool]) -> None:
    """What belongs to a closed loop knows it: neither would go by itself."""
    for loop in [ref() for ref in pools.keyrefs()]:  # in one step: other threads' loops come and go
        if loop is not None and loop.is_closed():
            pools.pop(loop, None)


_CONNECTIONS = Shared(Connections)


class AsyncClient(BaseClient):
    """Calls scripts and waits for the bell, in whichever loop runs. A child process makes its own
    connections on its first call."""

    _pid = 0
    _connections: Connections
    _pool: _Pool | None = None
    """The one used last: to look it up costs every call some 3,000 instructions."""

    def _current(self) -> Connections:
        if self._pid != os.getpid():
            size, target = self._size, self.target
            self._connections = (
                _CONNECTIONS.to(target) if size is None else Connections(target, size)
            )
            self._pid = os.getpid()
        return self._connections

    @property
    def _route(self) -> Route:
        return self._current().route

    @property
    def policies(self) -> set[str]:
        """The maxmemory-policies of the servers it has called."""
        return {server.policy for server in self._route.servers.values()}

    async def park(self, keys: Keys, seconds: float) -> bool:
        """Waits for a wake at most `seconds`; says whether one came. Raises NotSent or Lost."""
        return await self._drive(self._parking(keys, seconds))

    async def run(self, operation: Operation[T], bounds: Bounds | None = None) -> T:
        """Carries an operation out and returns its result; `bounds`: other than the client's."""
        return await self._drive(self._steps(operation, bounds or self._bounds))

    async def _drive(self, steps: Generator[Step, Any, T]) -> T:
        try:
            step = next(steps)
            while True:
                try:
                    pool = self._pool
                    if pool is None or not pool.serves():
                        pool = self._pool = await self._current().enter(self)
                    if isinstance(step, Send):
                        result: Any = await pool.send(step)
                    else:
                        result = await self._carry_out(pool, step)
                except BaseException as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as stop:
            return cast(T, stop.value)

    async def _carry_out(self, pool: _Pool, step: Race | Wait | Drop | Embedded) -> Any:
        match step:
            case Race():
                return await pool.race(step)
            case Wait():
                await asyncio.sleep(step.seconds)
            case Drop():
                pool.drop(step.address)
            case Embedded():
                return await asyncio.to_thread(self._current().server.address)
        return None

    def hang_up(self) -> None:
        """Ends a `park` under way: it returns a token already popped, or raises Lost."""
        self._hang_ups += 1
        if (pool := self._current().here()) is not None:
            pool.hang_up()

    async def drop_idle(self) -> None:
        """Closes this loop's idle connections: one to the same server has turned out broken."""
        if (pool := self._current().here()) is not None:
            pool.drop()

    async def close(self) -> None:
        """Lets go of this loop's connections until its next call; the last user's are closed."""
        self._pool = None
        await self._current().leave(self)
