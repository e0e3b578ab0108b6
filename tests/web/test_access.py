"""Who may see and do what: C71's second half."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.requests import Request

import rota
from rota.web import Target, dashboard
from tests.web.visits import AFAR, LOCAL, PAGES, Visit, visible, visiting

OPS = ("ops", "s3cret")
REFUSED = 403


async def paused(queue: rota.Queue) -> bool:
    return (await queue.lane("big").info()).paused


async def pause(visit: Visit, headers: dict[str, str] | None = None) -> int:
    return (await visit.do("lane.pause", headers, name="big")).status_code


@pytest.mark.parametrize(
    ("client", "host", "options", "allowed"),
    [
        (LOCAL, "localhost", {}, True),
        (LOCAL, "127.0.0.1:8080", {}, True),
        (("::1", 1), "[::1]:8080", {}, True),
        (AFAR, "localhost", {}, False),
        (AFAR, "queue.example", {}, False),
        (("testclient", 1), "localhost", {}, False),
        (LOCAL, "localhost", {"read_only": True}, False),
        (AFAR, "queue.example", {"read_only": False}, True),
        (AFAR, "queue.example", {"authorize": lambda *_: True}, True),
        (AFAR, "queue.example", {"authorize": lambda *_: True, "read_only": True}, False),
    ],
)
async def test_who_may_change_without_a_password(
    busy: rota.Queue,
    client: tuple[str, int],
    host: str,
    options: dict[str, Any],
    allowed: bool,
) -> None:
    async with visiting(busy, client=client, host=host, **options) as visit:
        text = await visit.read("lane", name="big")
        assert ("do/lane.pause" in text) is allowed
        assert await pause(visit) == (200 if allowed else REFUSED)
    assert await paused(busy) is allowed


async def test_behind_a_proxy_of_the_machine_it_is_read_only(busy: rota.Queue) -> None:
    headers = {"x-forwarded-for": "203.0.113.9"}
    async with visiting(busy, http={"headers": headers}) as visit:
        assert "do/lane.pause" not in await visit.read("lanes")
        assert await pause(visit) == REFUSED


async def test_another_sites_name_for_this_machine_reads_nothing(busy: rota.Queue) -> None:
    async with visiting(busy, host="evil.example") as visit:
        for page in PAGES:
            answer = await visit.get(page)
            assert answer.status_code == REFUSED
            assert "big" not in visible(answer.text)
        assert await pause(visit) == REFUSED


@pytest.mark.parametrize("given", [None, ("ops", "wrong"), ("nobody", "s3cret"), ("ops", "")])
async def test_a_password_is_asked_for_everywhere(
    busy: rota.Queue, given: tuple[str, str] | None
) -> None:
    http = {"auth": given} if given else {}
    async with visiting(busy, auth=OPS, http=http) as visit:
        for page in (*PAGES, "events", "do/lane.pause"):
            answer = await visit.get(page)
            assert answer.status_code in (401, 405), page
            assert busy.name not in visible(answer.text)
        assert await pause(visit) == 401
        assert (await visit.http.get("/metrics")).status_code == 401
        assert (await visit.http.get("/healthz")).status_code == 200
        answer = await visit.get()
        assert answer.headers["www-authenticate"].startswith("Basic")
    assert not await paused(busy)


async def test_with_the_password_changes_come_from_afar(busy: rota.Queue) -> None:
    async with visiting(
        busy, auth=OPS, client=AFAR, host="queue.example", http={"auth": OPS}
    ) as visit:
        assert await pause(visit) == 200
    info = await busy.lane("big").info()
    assert info.paused
    assert info.paused_by == "ops"


async def test_several_users_and_odd_credentials(busy: rota.Queue) -> None:
    users = {"anna": "ä:ö", "ben": "x"}
    async with visiting(busy, auth=users, http={"auth": ("anna", "ä:ö")}) as visit:
        assert await visit.read()
    async with visiting(busy, auth=users) as visit:
        for header in ("Basic", "Basic !!!", "Bearer x", "Basic YW5uYQ==", "Basic /w=="):
            answer = await visit.http.get(visit.url(), headers={"authorization": header})
            assert answer.status_code == 401


@pytest.mark.parametrize("auth", [("", "x"), ("ops", ""), {}])
def test_empty_credentials_are_refused(auth: Any) -> None:
    with pytest.raises(rota.ConfigError, match="auth"):
        dashboard(rota.Queue("q"), auth=auth)


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"origin": "http://localhost"}, True),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "http://localhost:81"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://["}, False),
        ({"sec-fetch-site": "cross-site", "origin": "http://localhost"}, False),
        ({}, False),
    ],
)
async def test_changes_come_from_this_sites_pages_only(
    busy: rota.Queue, headers: dict[str, str], allowed: bool
) -> None:
    async with visiting(busy) as visit:
        assert await pause(visit, headers) == (200 if allowed else REFUSED)
    assert await paused(busy) is allowed


async def test_what_a_form_does_not_say_changes_nothing(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        await busy.set(default_ceiling=7)
        assert (await visit.do("queue.set", xyz="1")).status_code == 400
        assert (await visit.do("lane.set", name="big", rate="1", per="0")).status_code == 400
        assert (await visit.get("lanes", order="all", cursor="0:0")).status_code == 400
    assert (await busy.info()).default_ceiling == 7
    assert (await busy.lane("big").info()).rate == rota.Rate(100, per=60, burst=20)


async def test_no_change_by_get_or_by_other_bodies(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        assert (await visit.get("do/lane.pause", name="big")).status_code == 405
        for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x"):
            answer = await visit.http.post(
                visit.url("do/lane.pause"),
                content=b"name=big",
                headers={"content-type": kind, "sec-fetch-site": "same-origin"},
            )
            assert answer.status_code == 415
        large = await visit.do("lane.pause", name="big", reason="x" * 1_100_000)
        assert large.status_code == 413
    assert not await paused(busy)


async def test_authorize_is_asked_for_reading_and_for_each_change(busy: rota.Queue) -> None:
    asked: list[tuple[str, Target]] = []

    async def authorize(request: Request, action: str, target: Target) -> bool:
        asked.append((action, target))
        return action in ("read", "lane.pause") and target.name != "secret"

    async with visiting(busy, authorize=authorize, client=AFAR, host="queue.example") as visit:
        text = await visit.read("lane", name="big")
        assert "do/lane.pause" in text
        assert "do/lane.cancel" not in text
        assert await pause(visit) == 200
        refused = await visit.do("lane.cancel", name="big", sure="yes")
        assert refused.status_code == REFUSED
        assert (await visit.do("lane.pause", name="secret")).status_code == REFUSED
    assert ("read", Target(busy.name, "queue")) in asked
    assert ("lane.pause", Target(busy.name, "lane", "big")) in asked
    assert (await busy.lane("big").info()).waiting


@pytest.mark.parametrize("answer", [False, None, 0, "yes"])
async def test_anything_but_true_is_a_no(busy: rota.Queue, answer: Any) -> None:
    async with visiting(busy, authorize=lambda *_: answer) as visit:
        for page in (*PAGES, "events"):
            assert (await visit.get(page)).status_code == REFUSED
        assert await pause(visit) == REFUSED


@contextmanager
def audit_lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[logging.LogRecord]]:
    with caplog.at_level(logging.INFO, "rota.audit"):
        found: list[logging.LogRecord] = []
        yield found
        found += [record for record in caplog.records if record.name == "rota.audit"]


async def test_every_change_is_a_line_of_the_audit_log(
    busy: rota.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    with audit_lines(caplog) as lines:
        async with visiting(busy, auth=OPS, http={"auth": OPS}) as visit:
            await visit.done("lane.pause", name="big", reason="a\nfake line")
            await visit.do("lane.resume", {"origin": "http://evil.example"}, name="big")
            await visit.do("lane.set", name="big", ceiling="many")
    told = [(r.who, r.action, r.target, r.outcome) for r in lines]  # type: ignore[attr-defined]
    assert told == [
        ("ops", "lane.pause", "big", "done"),
        ("ops", "lane.resume", "big", "refused"),
        ("ops", "lane.set", "big", "failed"),
    ]
    assert all("\n" not in record.getMessage() for record in lines)


async def test_every_answer_has_the_headers(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        addresses = [*map(visit.url, PAGES), "/healthz", "/nothing", "/static/rota.css"]
        for address in addresses:
            headers = (await visit.http.get(address)).headers
            policy = headers["content-security-policy"]
            assert "default-src 'self'" in policy, address
            assert "unsafe" not in policy, address
            assert "frame-ancestors 'none'" in policy
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "same-origin"
            assert headers["x-content-type-options"] == "nosniff"
        assert (await visit.get()).headers["cache-control"] == "no-store"


async def test_an_action_leads_back_to_its_own_pages_only(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        for back in ("//evil.example/", "http://evil.example", "/q/other/", "/q/\\evil", ""):
            answer = await visit.http.post(
                visit.url("do/lane.pause"),
                data={"name": "big", "back": back},
                headers={"sec-fetch-site": "same-origin"},
            )
            assert answer.status_code == 303
            assert answer.headers["location"] == visit.url()
