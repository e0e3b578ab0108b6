"""What every answer carries."""

from __future__ import annotations

from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.web.access import KNOWN, LET_IN

POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Headers:
    """Puts the headers on; answers that may hold figures are kept by nobody."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
                if LET_IN in scope:
                    headers.append("set-cookie", _known(scope))
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


def base_of(scope: Scope) -> str:
    """Where the dashboard is mounted, '' at the root."""
    return quote(str(scope.get("root_path", ""))).rstrip("/")


def _known(scope: Scope) -> str:
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    return f"{KNOWN}={scope[LET_IN]}; Path={base_of(scope)}/; HttpOnly; SameSite=Strict{secure}"
