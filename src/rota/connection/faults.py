"""What can go wrong between a call and its reply, and whether sending it again is safe."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Sequence
from typing import Literal

from rota.errors import QueueClosed, RotaError, ServerFull, ServerTooOld, Unavailable
from rota.script.loader import PROTOCOL, Reply
from rota.values.names import visible


class ErrorReply(Exception):
    """An error reply of the server, in its words."""

    @property
    def code(self) -> str:
        """The upper-case code that it begins with."""
        return str(self).partition(" ")[0]


class NotAReply(ConnectionAbortedError):
    """What came is no reply of a server of ours."""


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


_ENDED_TLS = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
_MAY_PASS = (
    TimeoutError,
    ConnectionResetError,
    ConnectionAbortedError,
    BrokenPipeError,
    BlockingIOError,
    *_ENDED_TLS,
)


def not_sent(error: OSError, where: object) -> NotSent:
    """The fault of a connection that could not be opened."""
    passes = isinstance(error, _MAY_PASS) and not isinstance(error, NotAReply)
    return (NotSent if passes else NobodyThere)(f"{where}: {str(error) or 'no connection in time'}")


def lost(error: OSError, where: object) -> Lost:
    """The fault of a connection that ended before a reply. Under TLS 1.3 a server says only then
    that it does not take our certificate."""
    strange = isinstance(error, NotAReply | ssl.SSLError) and not isinstance(error, _ENDED_TLS)
    return (Stranger if strange else Lost)(f"{where}: {error}")


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
_NO_ROOM = "ERR max number of clients reached"
_REFUSALS: dict[str, Refusal] = {
    "NOSCRIPT": "script",
    "MOVED": "moved",
    "ASK": "ask",
    "OOM": "full",
    "WRONGTYPE": "broken",
}
TOO_OLD = "needs Valkey 7.2 or later, or Redis 7.0 or later"


def refusal(error: ErrorReply) -> Refusal:
    """Sorts an error reply. All but `broken` and `final` mean that nothing of the call has run."""
    code = error.code
    if code in _PASSING or str(error) == _NO_ROOM:
        return "passing"
    return _REFUSALS.get(code, "final")


def has_refusal(replies: Iterable[Reply]) -> bool:
    return any(isinstance(reply, ErrorReply) for reply in replies)


_CLOSED = {
    "ROTAFOREIGN": "it is part {} of a queue over several hash slots, which this program takes for "
    "another: it needs the `shards` of those which founded that",
    "ROTAHOMELESS": "it says no more that it is part {} of a queue: the server has lost its data",
    "ROTANEWER": f"it needs a rota of protocol {{}}, and this one knows {PROTOCOL}: upgrade",
    "ROTASEALED": "it is sealed, as it moves to {}; try again once it is there",
}
"""What the guard of scripts says, with the word behind it."""


def accept(replies: Iterable[Reply]) -> None:
    """Raises the first refusal."""
    for reply in replies:
        if isinstance(reply, ErrorReply):
            raise reply


def error_for(error: ErrorReply, server: str) -> RotaError:
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
