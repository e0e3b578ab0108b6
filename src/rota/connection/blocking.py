"""The protocol over blocking sockets. A client may be shared by threads and survives fork."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast
from weakref import WeakSet

from rota.connection.faults import NotSent, accept, has_refusal, nobody
from rota.connection.protocol import BaseClient
from rota.connection.route import Route, route_to
from rota.connection.sharing import EmbeddedUse, Pool, Shared
from rota.connection.steps import HEDGE_S, ROOMS, Command, Drop, Embedded, Race, Send, Step, Terms
from rota.connection.target import Address, Target
from rota.connection.wire import Replies, greeting, keep_alive, packed, patience, tls_context
from rota.errors import Unavailable
from rota.script.keys import Keys
from rota.script.loader import Operation, Reply, Wait

T = TypeVar("T")


class Connection:
    """An open socket; see `sharing.Connection`."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._replies = Replies()
        self._unasked = select.poll()
        self._unasked.register(sock, select.POLLIN)

    def __del__(self) -> None:
        self._socket.close()  # in a child process that has inherited it, too

    @property
    def is_lost(self) -> bool:
        return bool(self._socket.fileno() < 0 or self._unasked.poll(0))

    def ask(self, commands: Sequence[Command], timeout: float) -> list[Reply]:
        """The replies, errors among them, with silences of at most `timeout` seconds.

        Raises OSError when the connection ends or the time is over; then it must be aborted.
        """
        self._socket.settimeout(max(0.001, timeout))
        try:
            self._socket.sendall(packed(commands))
            while True:
                size = self._socket.recv_into(self._replies.buffer)
                if not size:
                    raise ConnectionResetError("closed by the server")
                found = self._replies.feed(size, len(commands))
                if found is not None:
                    break
        except TimeoutError:
            raise TimeoutError(f"no reply within {timeout:g} s") from None
        if self._replies.has_more:
            self.close()
        return found

    def hang_up(self) -> None:
        if not isinstance(self._socket, ssl.SSLSocket):  # TLS cannot: its waits are short
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    abort = close


def _connect(target: Target, address: Address, timeout: float) -> socket.socket:
    if address.path:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(timeout)
    else:
        sock = socket.create_connection((address.host, address.port), timeout)
    try:
        if address.path:
            sock.connect(address.path)
            return sock
        keep_alive(sock)
        if target.tls:
            return tls_context(target.files).wrap_socket(sock, server_hostname=address.host)
        return sock
    except BaseException:
        sock.close()
        raise


class _Pool(Pool[Connection, threading.Semaphore]):
    """A caller waits for a connection where too many are in use."""

    def __init__(self, target: Target, size: int) -> None:
        super().__init__(target, threading.Semaphore, size)

    def send(self, step: Send) -> list[Reply]:
        address, terms = step.address, step.terms
        room = self._room(address, terms.room)
        if not room.acquire(timeout=max(0.0, terms.left)):
            raise NotSent("no connection became free")
        try:
            connection = self._take(address) or self._open(address, terms)
            try:
                replies = connection.ask(step.commands, min(terms.left, terms.reply))
                if step.confirm is not None and not has_refusal(replies):
                    replies += connection.ask([step.confirm()], terms.left)
            except BaseException as error:
                self._give_up(address, connection, error)
            self._put_back(address, connection)
            return replies
        finally:
            room.release()

    def _open(self, address: Address, terms: Terms) -> Connection:
        connection, within = None, patience(terms)
        try:
            connection = Connection(_connect(self._target, address, within))
            if commands := greeting(self._target, address):
                accept(connection.ask(commands, within))
        except BaseException as error:
            self._not_opened(address, connection, error)
        self._busy.add(connection)
        return connection

    def _later(self, seconds: float, do: Callable[[], None]) -> threading.Timer | None:
        call = weakref.WeakMethod(do)

        def act() -> None:
            if (found := call()) is not None:
                found()

        timer = threading.Timer(seconds, act)
        timer.daemon, timer.name = True, "rota-idle"
        try:
            timer.start()
        except RuntimeError:  # the process is ending
            return None
        return timer

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


def _starts(work: Callable[[], None]) -> bool:
    """Whether a thread does it; none can begin while the process ends."""
    try:
        threading.Thread(target=work, daemon=True).start()
    except RuntimeError:
        return False
    return True


class Connections:
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


_CONNECTIONS = Shared(Connections)


class Client(BaseClient):
    """Calls scripts and waits for the bell, over blocking sockets; threads may share it. A child
    process makes its own connections on its first call."""

    _pid = 0
    _connections: Connections | None = None

    def _enter(self) -> Connections:
        found = self._connections
        if found is None or self._pid != os.getpid():
            size, target = self._size, self.target
            found = _CONNECTIONS.to(target) if size is None else Connections(target, size)
            found.users.add(self)
            self._pid, self._connections = os.getpid(), found
        return found

    @property
    def _route(self) -> Route:
        return self._enter().route

    def run(self, operation: Operation[T]) -> T:
        """Carries an operation out and returns its result."""
        return self._drive(self._steps(operation, self._bounds))

    def park(self, keys: Keys, seconds: float) -> bool:
        """Waits for a wake at most `seconds`; says whether one came.

        The client's calls must be allowed longer than that. Raises NotSent or Lost.
        """
        return self._drive(self._parking(keys, seconds))

    def _drive(self, steps: Generator[Step, Any, T]) -> T:
        try:
            step = next(steps)
            while True:
                try:
                    result = self._carry_out(step)
                except BaseException as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as stop:
            return cast(T, stop.value)

    def _carry_out(self, step: Step) -> Any:
        connections = self._enter()
        match step:
            case Send():
                return connections.pool.send(step)
            case Race():
                return connections.pool.race(step)
            case Wait():
                time.sleep(step.seconds)
            case Drop():
                connections.pool.drop(step.address)
            case Embedded():
                return connections.server.address()
        return None

    def hang_up(self) -> None:
        """Ends a `park` of another thread: it returns a token already popped, or raises Lost."""
        self._hang_ups += 1
        if self._connections is not None:
            self._connections.pool.hang_up()

    def drop_idle(self) -> None:
        """Closes idle connections: one to the same server has turned out broken."""
        if self._connections is not None:
            self._connections.pool.drop()

    def close(self) -> None:
        """Lets go of its connections until its next call; the last user's are closed."""
        connections, self._connections = self._connections, None
        if connections is not None and self._pid == os.getpid():
            connections.leave(self)
