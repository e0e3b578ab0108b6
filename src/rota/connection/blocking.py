"""The protocol over blocking sockets. A client may be shared by threads and survives fork."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast
from weakref import WeakSet

import redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, InvalidResponse, RedisError, ResponseError
from redis.exceptions import ConnectionError as ClientConnectionError
from redis.exceptions import TimeoutError as ClientTimeout
from redis.retry import Retry

from rota import embedded
from rota.connection import sharing
from rota.connection.faults import NotSent, Stranger, has_refusal, lost, nobody, not_sent, refusal
from rota.connection.protocol import BOUNDS, Bounds, answer, park
from rota.connection.route import route_to
from rota.connection.sharing import Idle, Rooms, Shared
from rota.connection.steps import (
    HEDGE_S,
    ROOMS,
    Command,
    Drop,
    Embedded,
    Pause,
    Race,
    Send,
    Step,
    Steps,
    Terms,
)
from rota.connection.target import Address, Target
from rota.connection.wire import packed
from rota.errors import RotaError, Unavailable
from rota.script.keys import Keys
from rota.script.loader import LIBRARY, Library, Operation, Reply, Request

T = TypeVar("T")

CONNECT_TIMEOUT_S = 5.0


def connection_options(target: Target, address: Address, terms: Terms) -> dict[str, Any]:
    """Options of one connection: every time-out set, the client's own retries off."""
    patience = max(0.001, min(CONNECT_TIMEOUT_S, terms.reply, terms.until - time.monotonic()))
    is_sentinel = target.kind == "sentinel" and address in target.addresses
    options: dict[str, Any] = {
        # The URL's credentials and database are the server's; sentinels have their own, if any.
        "db": 0 if is_sentinel else target.db,
        "username": target.sentinel_username if is_sentinel else target.username,
        "password": target.sentinel_password if is_sentinel else target.password,
        "socket_timeout": patience,
        "socket_connect_timeout": patience,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "driver_info": None,
    }
    if address.path:
        options["path"] = address.path
    else:
        options.update(host=address.host, port=address.port, socket_keepalive=True)
    if target.tls:
        options.update(target.files._asdict(), ssl_password="")  # else OpenSSL asks on the terminal
    return options


class EmbeddedUse:
    """The use of the embedded server its target names."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._server: embedded.EmbeddedServer | None = None

    def address(self) -> Address:
        """Starts or joins the server, or starts it again where it has gone. Blocks."""
        with self._lock:
            if self._server is None:
                self._server = embedded.acquire(self._target.directory, fsync=self._target.fsync)
                return Address(path=str(self._server.socket))
            return Address(path=str(self._server.ensure()))

    def close(self) -> None:
        with self._lock:
            if self._server is not None:
                self._server.close()
                self._server = None


class _Pool:
    """Idle connections per address; a caller waits for one where too many are in use."""

    def __init__(self, target: Target, size: int) -> None:
        self._target = target
        self._rooms = Rooms(threading.Semaphore, size)
        self._idle: Idle[Any] = Idle()
        self._busy: set[Any] = set()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def send(self, step: Send) -> list[Reply]:
        room = self._rooms.of(step.address, step.terms.room)
        if not room.acquire(timeout=max(0.0, step.terms.until - time.monotonic())):
            raise NotSent("no connection became free")
        try:
            return self._send(step)
        finally:
            room.release()

    def _send(self, step: Send) -> list[Reply]:
        address, terms = step.address, step.terms
        connection = self._take(address, terms)
        self._busy.add(connection)
        try:
            replies = _ask(connection, step.commands, terms, terms.reply)
            if step.confirm is not None and not has_refusal(replies):
                replies += _ask(connection, [step.confirm()], terms)
        except AuthenticationError as error:
            connection.disconnect()
            raise Unavailable(f"{self._target.display} refused the call: {error}") from error
        except InvalidResponse as error:
            connection.disconnect()
            raise Stranger(f"{address}: not a reply: {error}") from error
        except (ClientConnectionError, ClientTimeout, OSError) as error:
            connection.disconnect()
            self.drop(address)  # what broke one has broken the others, most likely
            raise lost(error, address) from error
        except BaseException:
            connection.disconnect()
            raise
        finally:
            hung_up = connection not in self._busy
            self._busy.discard(connection)
        if hung_up:
            connection.disconnect()
        else:
            with self._lock:
                if self._idle.add(address, connection) and self._timer is None:
                    self._watch()
        return replies

    def _watch(self) -> None:
        """Has those closed that stay idle. The timer does not keep the pool."""
        pool = weakref.ref(self)

        def look() -> None:
            if (found := pool()) is not None:
                found._close_old()

        timer = threading.Timer(sharing.IDLE_S, look)
        timer.daemon, timer.name = True, "rota-idle"
        with contextlib.suppress(RuntimeError):  # the process is ending
            timer.start()
            self._timer = timer

    def _close_old(self) -> None:
        with self._lock:
            self._timer = None
            old, more = self._idle.drop_old()
            if more:
                self._watch()
        for connection in old:
            connection.disconnect()

    def race(self, step: Race) -> tuple[Address, Any]:
        """See `Race`. Who has lost is not waited for: its thread ends with its time."""
        left, troubles, under_way = list(step.addresses), list[Unavailable](), 0
        answers: SimpleQueue[tuple[Address, Any]] = SimpleQueue()

        def ask(address: Address) -> None:
            try:
                (reply,) = self.send(step.question(address))
                answers.put((address, step.read(reply, address)))
            except Exception as error:
                answers.put((address, error))

        while left or under_way:
            if left:
                address = left.pop(0)
                under_way += 1
                alone = not left and under_way == 1
                if alone or not _starts(partial(ask, address)):
                    ask(address)
            try:
                address, found = answers.get(timeout=HEDGE_S if left else None)
            except Empty:
                continue
            under_way -= 1
            if not isinstance(found, Exception):
                return address, found
            if not isinstance(found, Unavailable):
                raise found
            troubles.append(found)
        raise nobody(troubles)

    def _take(self, address: Address, terms: Terms) -> Any:
        with self._lock:
            idle = self._idle.take(address)
        if idle is not None:
            return idle
        options = connection_options(self._target, address, terms)
        connection: Any = self._kind(address)(**options)
        try:
            connection.connect()
        except (ResponseError, AuthenticationError) as error:
            connection.disconnect()
            kind = NotSent if refusal(error) == "passing" else Unavailable
            raise kind(f"{self._target.display} refused the connection: {error}") from error
        except (RedisError, OSError) as error:
            connection.disconnect()
            raise not_sent(error, address) from error
        return connection

    def _kind(self, address: Address) -> Any:
        if address.path:
            return redis.UnixDomainSocketConnection
        return redis.SSLConnection if self._target.tls else redis.Connection

    def hang_up(self) -> None:
        """Says on connections in use that nothing more will be sent: a wait ends at once, and a
        token already on its way is still read."""
        while self._busy:
            half_close(getattr(self._busy.pop(), "_sock", None))

    def drop(self, address: Address | None = None) -> None:
        with self._lock:
            connections = self._idle.drop(address)
            if address is None and self._timer is not None:
                self._timer.cancel()
                self._timer = None
        for connection in connections:
            connection.disconnect()


def _starts(work: Callable[[], None]) -> bool:
    """Whether a thread does it; none can begin while the process ends."""
    try:
        threading.Thread(target=work, daemon=True).start()
    except RuntimeError:
        return False
    return True


def half_close(sock: Any) -> None:
    """Ends our side of a plain socket; TLS cannot, its waits are short."""
    if sock is not None and not isinstance(sock, ssl.SSLSocket):
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR)


def _ask(
    connection: Any, commands: Sequence[Command], terms: Terms, most: float = math.inf
) -> list[Reply]:
    left = terms.until - time.monotonic()
    connection._sock.settimeout(max(0.001, min(left, most)))
    connection.send_packed_command([packed(commands)], check_health=False)
    return [_read(connection) for _ in commands]


def _read(connection: Any) -> Reply:
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


class Lines:
    """The connections to one server, and who uses them: a process's, or those of one client."""

    def __init__(self, target: Target, size: int = max(ROOMS.values())) -> None:
        self.route = route_to(target)
        self.pool = _Pool(target, size)
        self.server = EmbeddedUse(target)
        self.users: WeakSet[Client] = WeakSet()

    def leave(self, user: Client) -> None:
        """With the last one idle connections end, and the use of an embedded server."""
        self.users.discard(user)
        if not self.users:
            self.pool.drop()
            self.route.forget(0)  # whoever calls next holds the server first
            self.server.close()


_LINES = Shared(Lines)


def _drive(steps: Steps, lines: Lines) -> Any:
    try:
        step = next(steps)
        while True:
            try:
                result = _carry_out(step, lines)
            except RotaError as fault:
                step = steps.throw(fault)
            else:
                step = steps.send(result)
    except StopIteration as stop:
        return stop.value
    finally:
        steps.close()


def _carry_out(step: Step, lines: Lines) -> Any:
    match step:
        case Race():
            return lines.pool.race(step)
        case Send():
            return lines.pool.send(step)
        case Pause():
            time.sleep(step.seconds)
        case Drop():
            lines.pool.drop(step.address)
        case Embedded():
            return lines.server.address()
    return None


class Client:
    """Calls scripts and waits for the bell, over blocking sockets.

    The clients of a process share their connections to a server; with `size` a client has so many
    of its own. `bounds`: the time of a call. A child process makes its own on its first call.
    """

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
        self._hang_ups = 0
        self._pid = 0
        self._lines: Lines | None = None

    def _enter(self) -> Lines:
        lines = self._lines
        if lines is None or self._pid != os.getpid():
            size, target = self._size, self.target
            lines = _LINES.to(target) if size is None else Lines(target, size)
            lines.users.add(self)
            self._pid, self._lines = os.getpid(), lines
        return lines

    def run(self, operation: Operation[T]) -> T:
        """Carries an operation out and returns its result."""
        try:
            request = next(operation)
            while True:
                try:
                    reply = self._answer(request)
                except BaseException as error:
                    request = operation.throw(error)
                else:
                    request = operation.send(reply)
        except StopIteration as stop:
            return cast(T, stop.value)
        finally:
            operation.close()

    def _answer(self, request: Request) -> Reply:
        lines = self._enter()
        return _drive(answer(request, lines.route, self._library, self._bounds), lines)

    def park(self, keys: Keys, seconds: float) -> bool:
        """Waits for a wake at most `seconds`; says whether one came.

        The client's calls must be allowed longer than that. Raises NotSent or Lost.
        """
        hang_ups = self._hang_ups
        lines = self._enter()
        steps = park(keys, seconds, lines.route, self._bounds, lambda: self._hang_ups != hang_ups)
        return bool(_drive(steps, lines))

    def hang_up(self) -> None:
        """Ends a `park` of another thread: it returns a token already popped, or raises Lost."""
        self._hang_ups += 1
        if self._lines is not None:
            self._lines.pool.hang_up()

    def drop_idle(self) -> None:
        """Closes idle connections: one to the same server has turned out broken."""
        if self._lines is not None:
            self._lines.pool.drop()

    def close(self) -> None:
        """Lets go of its connections until its next call; the last user's are closed."""
        lines, self._lines = self._lines, None
        if lines is not None and self._pid == os.getpid():
            lines.leave(self)
