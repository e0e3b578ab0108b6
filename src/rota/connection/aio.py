"""The protocol over asyncio. One set of connections per running loop, closed with the loop."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

import redis.asyncio as redis
from redis.exceptions import AuthenticationError, RedisError, ResponseError

from rota.connection import sharing
from rota.connection.blocking import EmbeddedUse, connection_options
from rota.connection.faults import NotSent, Stranger, has_refusal, lost, nobody, not_sent, refusal
from rota.connection.protocol import BOUNDS, Bounds, answer, park
from rota.connection.route import route_to
from rota.connection.sharing import Idle, Rooms, Shared
from rota.connection.steps import (
    HEDGE_S,
    ROOMS,
    Drop,
    Embedded,
    Pause,
    Race,
    Send,
    Steps,
    Terms,
)
from rota.connection.target import Address, Target
from rota.connection.wire import NotAReply, Wire
from rota.errors import RotaError, Unavailable
from rota.script.keys import Keys
from rota.script.loader import LIBRARY, Library, Operation, Reply, Request

T = TypeVar("T")


_HungUp = RuntimeError
"""What a transport raises for a write after `hang_up` ended it."""


class _Pool:
    """Idle connections per address of one loop, and how many are in use."""

    def __init__(self, target: Target, size: int) -> None:
        self._target = target
        self._rooms = Rooms(asyncio.Semaphore, size)
        self.users: WeakSet[AsyncClient] = WeakSet()
        self._idle: Idle[Wire] = Idle()
        self._timer: asyncio.TimerHandle | None = None
        self._busy: set[Wire] = set()
        self._closed = False
        self._keeper: AsyncGenerator[None, None] | None = None

    async def open(self) -> None:
        """Ties the pool's life to the loop's: `asyncio.run` ends generators before it closes."""
        self._keeper = self._keep()
        await anext(self._keeper)

    async def _keep(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._closed = True
            for wire in self.drop():
                await wire.wait_closed()

    async def close(self) -> None:
        if self._keeper is not None:
            await self._keeper.aclose()

    async def send(self, step: Send) -> list[Reply]:
        address, terms = step.address, step.terms
        room = self._rooms.of(address, terms.room)
        if room.locked():
            await _wait_for(room, terms)
        else:
            await room.acquire()
        try:
            wire = self._take(address) or await self._open(address, terms)
            self._busy.add(wire)
            try:
                left = terms.until - time.monotonic()
                replies = await wire.ask(step.commands, min(left, terms.reply))
                if step.confirm is not None and not has_refusal(replies):
                    left = terms.until - time.monotonic()
                    replies = replies + await wire.ask([step.confirm()], left)
            except NotAReply as error:
                wire.abort()
                raise Stranger(f"{address}: {error}") from error
            except (OSError, _HungUp) as error:  # a TimeoutError is an OSError
                wire.abort()
                self.drop(address)  # what broke one has broken the others, most likely
                raise lost(error, address) from error
            except BaseException:
                wire.abort()  # cancelled with a reply on its way: the next call must not read it
                raise
            finally:
                spent = self._closed or wire not in self._busy
                self._busy.discard(wire)
            if spent:
                wire.close()
            elif self._idle.add(address, wire) and self._timer is None:
                self._watch()
            return replies
        finally:
            room.release()

    def _watch(self) -> None:
        """Has those closed that stay idle."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(sharing.IDLE_S, self._close_old)

    def _close_old(self) -> None:
        self._timer = None
        old, more = self._idle.drop_old()
        for wire in old:
            wire.close()
        if more:
            self._watch()

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

    def _take(self, address: Address) -> Wire | None:
        """An idle connection. One that the server has closed meanwhile cannot have taken a call
        along: to send by it would leave an outcome unknown for nothing."""
        while (wire := self._idle.take(address)) is not None:
            if not wire.is_lost:
                return wire
            wire.close()
        return None

    async def _open(self, address: Address, terms: Terms) -> Wire:
        options = connection_options(self._target, address, terms)
        connection: Any = self._kind(address)(**options)
        try:
            await connection.connect()
        except (ResponseError, AuthenticationError) as error:
            await connection.disconnect(nowait=True)
            kind = NotSent if refusal(error) == "passing" else Unavailable
            raise kind(f"{self._target.display} refused the connection: {error}") from error
        except (RedisError, OSError) as error:
            await connection.disconnect(nowait=True)
            raise not_sent(error, address) from error
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return Wire(connection)

    def _kind(self, address: Address) -> Any:
        if address.path:
            return redis.UnixDomainSocketConnection
        return redis.SSLConnection if self._target.tls else redis.Connection

    def hang_up(self) -> None:
        """See `blocking.Client.hang_up`."""
        while self._busy:
            self._busy.pop().hang_up()

    def drop(self, address: Address | None = None) -> list[Wire]:
        """Closes idle connections, those to one address or all; the ones that are closing."""
        wires = self._idle.drop(address)
        if address is None and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for wire in wires:
            wire.close()
        return wires


async def _wait_for(room: asyncio.Semaphore, terms: Terms) -> None:
    try:
        async with asyncio.timeout(terms.until - time.monotonic()):
            await room.acquire()
    except TimeoutError:
        raise NotSent("no connection became free") from None


class Lines:
    """The connections to one server, a set for each loop: a process's, or those of one client."""

    def __init__(self, target: Target, size: int = max(ROOMS.values())) -> None:
        self.route = route_to(target)
        self.server = EmbeddedUse(target)
        self._target = target
        self._size = size
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool] = WeakKeyDictionary()

    async def enter(self, user: AsyncClient) -> _Pool:
        """The running loop's connections."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            forget_closed(self._pools)
            pool = self._pools[loop] = _Pool(self._target, self._size)
            await pool.open()
        pool.users.add(user)
        return pool

    async def leave(self, user: AsyncClient, pool: _Pool | None) -> None:
        """With the last one the loop's connections end; with them all the use of an embedded
        server."""
        if pool is not None:
            pool.users.discard(user)
            if not pool.users:
                self._pools.pop(asyncio.get_running_loop(), None)
                await pool.close()
        forget_closed(self._pools)
        if self._target.kind == "embedded" and not self._pools:
            self.route.forget(0)  # whoever calls next holds the server first
            await asyncio.to_thread(self.server.close)


def forget_closed(pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool]) -> None:
    """What belongs to a closed loop knows it: neither would go by itself."""
    for loop in [ref() for ref in pools.keyrefs()]:  # in one step: other threads' loops come and go
        if loop is not None and loop.is_closed():
            pools.pop(loop, None)


_LINES = Shared(Lines)


class AsyncClient:
    """Calls scripts and waits for the bell, in whichever loop runs; see `blocking.Client`."""

    def __init__(
        self,
        target: Target,
        *,
        library: Library = LIBRARY,
        size: int | None = None,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self.target = target
        self._bounds = bounds
        self._library = library
        self._size = size
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._hang_ups = 0
        size, target = self._size, self.target
        self._lines = _LINES.to(target) if size is None else Lines(target, size)
        self._route = self._lines.route
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool] = WeakKeyDictionary()

    @property
    def policies(self) -> set[str]:
        """The maxmemory-policies of the servers it has called."""
        return {facts.policy for facts in self._route.facts.values()}

    async def park(self, keys: Keys, seconds: float) -> bool:
        """Waits for a wake at most `seconds`; says whether one came. Raises NotSent or Lost."""
        hang_ups = self._hang_ups
        steps = park(keys, seconds, self._route, self._bounds, lambda: self._hang_ups != hang_ups)
        return bool(await self._drive(steps))

    async def run(self, operation: Operation[T], bounds: Bounds | None = None) -> T:
        """Carries an operation out and returns its result; `bounds`: other than the client's."""
        try:
            request = next(operation)
            while True:
                try:
                    reply = await self._answer(request, bounds or self._bounds)
                except BaseException as error:
                    request = operation.throw(error)
                else:
                    request = operation.send(reply)
        except StopIteration as stop:
            return cast(T, stop.value)
        finally:
            operation.close()

    def _answer(self, request: Request, bounds: Bounds) -> Coroutine[Any, Any, Reply]:
        return self._drive(answer(request, self._route, self._library, bounds))

    async def _drive(self, steps: Steps) -> Any:
        pool = await self._pool()
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, Send):
                        result = await pool.send(step)
                    else:
                        result = await self._carry_out(pool, step)
                except RotaError as fault:
                    step = steps.throw(fault)
                else:
                    step = steps.send(result)
        except StopIteration as stop:
            return stop.value
        finally:
            steps.close()

    async def _carry_out(self, pool: _Pool, step: Race | Pause | Drop | Embedded) -> Any:
        match step:
            case Race():
                return await pool.race(step)
            case Pause():
                await asyncio.sleep(step.seconds)
            case Drop():
                pool.drop(step.address)
            case Embedded():
                return await asyncio.to_thread(self._lines.server.address)
        return None

    async def _pool(self) -> _Pool:
        if self._pid != os.getpid():
            self._renew()
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            forget_closed(self._pools)
            pool = self._pools[loop] = await self._lines.enter(self)
        return pool

    def hang_up(self) -> None:
        """Ends a `park` under way: it returns a token already popped, or raises Lost."""
        self._hang_ups += 1
        pool = self._pools.get(asyncio.get_running_loop())
        if pool is not None:
            pool.hang_up()

    async def drop_idle(self) -> None:
        """Closes this loop's idle connections: one to the same server has turned out broken."""
        pool = self._pools.get(asyncio.get_running_loop())
        if pool is not None:
            pool.drop()

    async def close(self) -> None:
        """Lets go of this loop's connections until its next call; the last user's are closed."""
        await self._lines.leave(self, self._pools.pop(asyncio.get_running_loop(), None))
