"""What can go wrong between a call and its reply, and whether sending it again is safe."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from redis.exceptions import RedisError, ResponseError

from rota.errors import QueueClosed, RotaError, ServerFull, ServerTooOld, Unavailable
from rota.script.loader import PROTOCOL, Reply
from rota.values.names import visible


class NotSent(Unavailable):
    """The call never left: no connection could be had. Sending again is always safe."""


class NobodyThere(NotSent):
    """Nobody serves there, or nobody we trust: the address may be wrong."""


class Lost(Unavailable):
    """The call may have run: its reply did not come. Sending again is safe where resending is."""


class Stranger(Lost):
    """What answered speaks another protocol, or refuses us."""


def nobody(troubles: Sequence[Unavailable]) -> Unavailable:
    """The fault of a question that nobody has answered."""
    wrong = all(isinstance(one, NobodyThere | Stranger) for one in troubles)
    sure = [one for one in troubles if not isinstance(one, NotSent | Lost)]
    return sure[0] if sure else (NobodyThere if wrong else NotSent)(str(troubles[-1]))


_MAY_PASS = (
    TimeoutError,
    ConnectionResetError,
    ConnectionAbortedError,
    BrokenPipeError,
    BlockingIOError,
    ssl.SSLEOFError,
    ssl.SSLZeroReturnError,
)


def not_sent(error: BaseException, where: object) -> NotSent:
    """The fault of a connection that could not be opened."""
    causes = [one for one in _chain(error) if isinstance(one, OSError)]
    passes = not causes or any(isinstance(one, _MAY_PASS) for one in causes)
    return (NotSent if passes else NobodyThere)(f"{where}: {error}")


def lost(error: BaseException, where: object) -> Lost:
    """The fault of a connection that ended before a reply. Under TLS 1.3 a server says only then
    that it does not take our certificate."""
    tls = [one for one in _chain(error) if isinstance(one, ssl.SSLError)]
    passes = not tls or any(isinstance(one, _MAY_PASS) for one in tls)
    return (Lost if passes else Stranger)(f"{where}: {error}")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


Refusal = Literal["script", "moved", "ask", "passing", "full", "broken", "final"]

_PASSING = (
    "LOADING",
    "BUSY",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "MASTERDOWN",
    "READONLY",
    "NOREPLICAS",
    "MISCONF",
    "UNBLOCKED",
)
TOO_OLD = "needs Valkey 7.2 or later, or Redis 7.0 or later"


def code_of(error: RedisError) -> str:
    """The upper-case code an error reply begins with."""
    given = getattr(error, "status_code", None)
    return given or str(error).partition(" ")[0]


def refusal(error: RedisError) -> Refusal:
    """Sorts an error reply. All but `broken` and `final` mean that nothing of the call has run."""
    text = type(error).__name__
    code = code_of(error)
    if code == "NOSCRIPT" or text == "NoScriptError":
        return "script"
    if code == "MOVED" or text == "MovedError":
        return "moved"
    if code == "ASK" or text == "AskError":
        return "ask"
    if code == "OOM" or text == "OutOfMemoryError":
        return "full"
    if code == "WRONGTYPE":
        return "broken"
    if code in _PASSING or text in (
        "BusyLoadingError",
        "ReadOnlyError",
        "TryAgainError",
        "ClusterDownError",
        "MasterDownError",
    ):
        return "passing"
    return "final"


def has_refusal(replies: Iterable[Reply]) -> bool:
    return any(isinstance(reply, ResponseError) for reply in replies)


_CLOSED = {
    "ROTAFOREIGN": "it is part {} of a queue over several hash slots, which this program takes for "
    "another: it needs the `shards` of those which founded that",
    "ROTAHOMELESS": "it says no more that it is part {} of a queue: the server has lost its data",
    "ROTANEWER": f"it needs a rota of protocol {{}}, and this one knows {PROTOCOL}: upgrade",
    "ROTASEALED": "it is sealed, as it moves to {}; try again once it is there",
}
"""What the guard of scripts says, with the word behind it."""


def error_for(error: ResponseError, server: str) -> RotaError:
    """The typed error of an error reply that sending again will not mend."""
    if refusal(error) == "full":
        return ServerFull(f"{server} is out of memory: {error}")
    code, _, word = str(error).partition(" ")
    if code in _CLOSED:
        why = _CLOSED[code].format(visible(word))
        return QueueClosed(
            f"the queue on {server} is closed to this program, and nothing was written: {why}"
        )
    if "#!lua" in str(error) or "Script flags" in str(error):
        return ServerTooOld(f"{server} is too old: rota {TOO_OLD}")
    return Unavailable(f"{server} refused the call: {error}")
