"""What one visitor may take: requests at once, time to read an answer, guesses at passwords."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_network

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.web.origin import read_address

MAX_OPEN = 100
"""Requests of one visitor at once, live pages among them."""
SEND_S = 30.0
"""A visitor that takes no more of an answer for so long gets no more of it."""
FREE_GUESSES = 5
FIRST_DELAY_S = 0.25
LAST_DELAY_S = 5.0
MAX_GUESSING = 8
"""Guesses of one visitor that wait at once."""
FORGET_S = 900.0
MAX_GUESSERS = 10_000
IPV6_PREFIX = 56
"""What one household or one hoster's customer has: addresses within it are one visitor's."""


def neighbourhood(address: str) -> str:
    """What counts as one visitor of an address."""
    read = read_address(address)
    if read is None or read.version == 4:
        return address if read is None else str(read)
    return str(ip_network((read, IPV6_PREFIX), strict=False))


class Tally:
    """How many of something each visitor has at once."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(self._of.values())

    def of(self, visitor: str) -> int:
        return self._of.get(visitor, 0)

    @contextmanager
    def one_more(self, visitor: str) -> Iterator[None]:
        self._of[visitor] = self.of(visitor) + 1
        try:
            yield
        finally:
            self._of[visitor] -= 1
            if not self._of[visitor]:
                del self._of[visitor]


class Guesses:
    """Slows who has guessed wrong: each further guess waits longer before it is looked at, the
    right one too, so that breaking off early tells nothing."""

    def __init__(self) -> None:
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._waiting = Tally()

    async def wait(self, visitor: str) -> bool:
        """False where too many of this visitor's wait already: this one is not looked at."""
        delay = self.delay(visitor)
        if not delay:
            return True
        if self._waiting.of(visitor) >= MAX_GUESSING:
            return False
        with self._waiting.one_more(visitor):
            await asyncio.sleep(delay)
        return True

    def delay(self, visitor: str) -> float:
        count, at = self._wrong.get(visitor, (0, 0.0))
        if count < FREE_GUESSES or time.monotonic() - at > FORGET_S:
            return 0.0
        return min(LAST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(count - FREE_GUESSES, 30))

    def wrong(self, visitor: str) -> None:
        now = time.monotonic()
        count, at = self._wrong.pop(visitor, (0, now))
        self._wrong[visitor] = (1 if now - at > FORGET_S else count + 1), now
        while len(self._wrong) > MAX_GUESSERS:
            self._wrong.popitem(last=False)


class Stalled(Exception):
    """The visitor does not take what it asked for."""


class Bounds:
    """Keeps each visitor to so many requests, and each answer to a reader that reads."""

    def __init__(self, app: ASGIApp, visitor_of: Callable[[Request], str]) -> None:
        self._app = app
        self._visitor_of = visitor_of
        self._open = Tally()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(SEND_S):
                    await send(message)
            except TimeoutError:
                raise Stalled from None

        request = Request(scope)
        if "transfer-encoding" in request.headers and "content-length" in request.headers:
            # Where two servers in a row disagree on where a request ends, the next one is forged.
            text = "A request has one length: Content-Length or Transfer-Encoding.\n"
            refusal = PlainTextResponse(text, 400, {"connection": "close"})
            await refusal(scope, receive, send_in_time)
            return
        visitor = self._visitor_of(request)
        if self._open.of(visitor) >= MAX_OPEN:
            text = f"{MAX_OPEN} requests of yours are open already.\n"
            refusal = PlainTextResponse(text, 429, {"retry-after": "5", "connection": "close"})
            await refusal(scope, receive, send_in_time)
            return
        with self._open.one_more(visitor):
            try:
                await self._app(scope, receive, send_in_time)
            except Stalled:
                pass
