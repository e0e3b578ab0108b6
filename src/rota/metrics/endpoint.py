"""A port for metrics and probes: `/metrics`, `/healthz`, `/readyz`.

It has threads of its own, so that it answers while the event loop hangs, and says so.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.registry import Collector

from rota.errors import ConfigError
from rota.health import Health

PATIENCE_S = 10.0
"""How long a client may take to say what it wants."""

POLL_S = 0.1
"""How long closing may take."""

Answer = tuple[int, str, bytes]
"""Status, content type, body."""


class Endpoint:
    """Serves a collector's metrics, and health, while it is open (`with`).

    `/healthz`: 200 while the process is alive, else 503; `/readyz`: 200 while all is well. Both
    say as JSON what was looked at. `port` 0 takes a free one; see `url`. `open` raises
    ConfigError where it cannot listen.
    """

    def __init__(
        self,
        collector: Collector,
        health: Callable[[], Health],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._collector = collector
        self._health = health
        self._address = (host, port)
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2] if self._server else self._address
        name = host.decode() if isinstance(host, bytes | bytearray) else host
        return f"http://{f'[{name}]' if ':' in name else name}:{port}"

    def open(self) -> None:
        host, port = self._address
        try:
            self._server = _Server(self._address, self._answer)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"cannot serve metrics on {host}:{port}: {error}") from None
        threading.Thread(
            target=self._server.serve_forever, args=(POLL_S,), name="rota-metrics", daemon=True
        ).start()

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def __enter__(self) -> Endpoint:
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _answer(self, path: str, accept: str) -> Answer:
        match path:
            case "/metrics":
                encode, content_type = choose_encoder(accept)
                return 200, content_type, encode(self._collector)
            case "/healthz" | "/readyz":
                found = self._health()
                well = found.alive if path == "/healthz" else found.healthy
                return 200 if well else 503, "application/json", _json(well, found)
        known = b"rota: /metrics /healthz /readyz\n"
        return 200 if path == "/" else 404, "text/plain; charset=utf-8", known


def _json(well: bool, found: Health) -> bytes:
    checks = [{"name": one.name, "ok": one.ok, "text": one.text} for one in found.checks]
    return json.dumps({"ok": well, "checks": checks}, ensure_ascii=False).encode() + b"\n"


def exposition(collector: Collector) -> str:
    """A collector's metrics as text."""
    return generate_latest(collector).decode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], answer: Callable[[str, str], Answer]) -> None:
        self.answer = answer
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE_S
    server_version = "rota"
    sys_version = ""

    def do_GET(self) -> None:
        assert isinstance(self.server, _Server)
        path = urlsplit(self.path).path
        try:
            status, content_type, body = self.server.answer(path, self.headers.get("Accept", ""))
        except Exception as error:
            status, content_type = 500, "text/plain; charset=utf-8"
            body = f"{type(error).__name__}: {error}\n".encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a probe every few seconds is no news."""
