"""Who may see and do what."""

from __future__ import annotations

import base64
import binascii
import hmac
import inspect
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from starlette.requests import Request

from rota.errors import ConfigError
from rota.values.names import shown
from rota.web.bounds import Guesses, neighbourhood
from rota.web.origin import Trust

T = TypeVar("T")
KNOWN = "rota_known"
"""The cookie of who has been let in: strangers' guesses from the same address do not slow it."""
LET_IN = "rota.let_in"
"""Where a request's scope has that cookie's value, if it is to be set."""
JOB_KINDS = ("job", "dead", "sequence")
"""What actions are about that concern single jobs."""
MAX_SCOPE = 100
"""Most lanes of a scope: each is asked for by name."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What an action is about. `kind`: queue, lane, sequence, job, dead, worker or doctor.

    `name`: of the lane (a sequence's is its lane), the job or the consumer; None: any of them,
    asked where a list wants to know whether to offer the action at all.
    """

    queue: str
    kind: str
    name: str | None = None


Authorize = Callable[[Request, str, Subject], bool | Awaitable[bool]]
LaneScope = Callable[[Request], "Collection[str] | Awaitable[Collection[str] | None] | None"]
Credentials = tuple[str, str] | Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks. `address`: whose it is believed to be; `key`: what counts as one visitor. `scope`:
    the lanes it is kept to; None: all."""

    who: str
    address: str
    key: str
    may_change: bool
    scope: frozenset[str] | None


class HttpError(Exception):
    """The request ends here, with this status and sentence."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = dict(headers or {})


@dataclass(kw_only=True, slots=True, repr=False)
class Access:
    """The rules of one dashboard. `users`: passwords by name, as `users_of` reads them.

    Without `users` and `authorize` it answers to its own names only, and changes come from this
    machine only. `read_only` True: from nobody; False: from whoever gets here, which says that
    something in front keeps others out.
    """

    authorize: Authorize | None
    users: Mapping[str, str] | None
    read_only: bool | None
    lane_scope: LaneScope | None
    trust: Trust
    _guesses: Guesses = field(default_factory=Guesses, init=False)
    _secret: bytes = field(default_factory=partial(secrets.token_bytes, 32), init=False)

    @property
    def is_open(self) -> bool:
        """Whether nothing says who may come in."""
        return self.users is None and self.authorize is None

    @property
    def why_read_only(self) -> str:
        """The sentence's end for who may change nothing."""
        if self.read_only is None and self.is_open:
            return ": without a password, changes come from its own machine and through no proxy"
        return ""

    async def enter(self, request: Request) -> Visitor:
        """Raises HttpError for who may not come in at all."""
        self._check_host(request)
        user = await self._user(request)
        address = self.trust.client(request)
        scope = None if self.lane_scope is None else await answer(self.lane_scope(request))
        return Visitor(
            who=user or _host_user(request) or address,
            address=address,
            key=self.key(request),
            may_change=self._may_change(request),
            scope=None if scope is None else checked_scope(scope),
        )

    def _check_host(self, request: Request) -> None:
        """Where nobody is asked who he is, the address in the browser has to be ours: a page of
        another name that leads here would be of this site."""
        if (self.is_open or self.trust.names_hosts) and not self.trust.answers_to(request):
            raise HttpError(
                403,
                "This dashboard does not answer to this name. Name it in trusted_hosts= "
                "(rota web --trusted-host)"
                + (", or give the dashboard auth= or authorize=." if self.is_open else "."),
            )

    def key(self, request: Request) -> str:
        """What counts as one visitor: an address, or who has been let in from there."""
        address = neighbourhood(self.trust.client(request))
        known = self._known(request)
        return address if known is None else f"{known}@{address}"

    async def _user(self, request: Request) -> str | None:
        if self.users is None:
            return None
        name, password = _basic(request)
        known = self._known(request)
        guesser = self.key(request) if known is None else f"{known}@"
        if name and not await self._guesses.wait(guesser):
            raise HttpError(429, "Too many names and passwords are tried.", {"retry-after": "10"})
        # Compared whether the name is known or not, and by digests: the time tells nothing.
        expected = self.users.get(name, "")
        right = hmac.compare_digest(self._digest(password), self._digest(expected))
        if not (right and name in self.users):
            if name:
                self._guesses.wrong(guesser)
            raise HttpError(
                401,
                "A name and a password are needed.",
                {"www-authenticate": 'Basic realm="rota", charset="UTF-8"'},
            )
        if name != known:
            request.scope[LET_IN] = self._word(name)
        return name

    def _known(self, request: Request) -> str | None:
        """Who has been let in with this browser before; it needs its password all the same."""
        word = request.cookies.get(KNOWN, "") if self.users is not None else ""
        try:
            name = bytes.fromhex(word.partition(".")[0]).decode()
        except ValueError:
            return None
        right = hmac.compare_digest(word.encode(), self._word(name).encode())
        return name if name and right else None

    def _word(self, name: str) -> str:
        return f"{name.encode().hex()}.{self._digest(f'known {name}').hex()}"

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._secret, text.encode(), "sha256")

    def _may_change(self, request: Request) -> bool:
        if self.read_only is not None:
            return not self.read_only
        return not self.is_open or self.trust.is_local(request)

    async def may(
        self, request: Request, visitor: Visitor, action: str, queue: str, name: str | None = None
    ) -> bool:
        """Whether this visitor may do that to what has the name; `read` is what every page asks.

        Who is kept to some lanes acts on jobs: what operators set and paused is theirs, unless
        `authorize` says otherwise.
        """
        if action != "read" and not visitor.may_change:
            return False
        kind = "queue" if action == "read" else action.partition(".")[0]
        if self.authorize is None:
            return action == "read" or visitor.scope is None or kind in JOB_KINDS
        subject = Subject(queue, kind, name or None)
        return await answer(self.authorize(request, action, subject)) is True


async def answer(given: T | Awaitable[T]) -> T:
    if inspect.isawaitable(given):
        awaited: T = await given
        return awaited
    return given


def checked_scope(scope: Collection[str]) -> frozenset[str]:
    if isinstance(scope, str) or len(scope) > MAX_SCOPE:
        raise ConfigError(
            f"lane_scope: expected None or at most {MAX_SCOPE} names of lanes, given {shown(scope)}"
        )
    return frozenset(scope)


def users_of(auth: Credentials | None) -> dict[str, str] | None:
    if auth is None:
        return None
    users = dict([auth]) if isinstance(auth, tuple) else dict(auth)
    words = [word for pair in users.items() for word in pair]
    if not words or not all(words):
        raise ConfigError("auth: expected (user, password) or {user: password}, none of them empty")
    return users


def _basic(request: Request) -> tuple[str, str]:
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    name, _, password = text.partition(":")
    return name, password


def _host_user(request: Request) -> str | None:
    """Who the application around the dashboard says it is (Starlette's authentication)."""
    name = getattr(request.scope.get("user"), "display_name", None)
    return name if isinstance(name, str) and name else None
