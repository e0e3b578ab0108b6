"""Who may see and do what: C71's second half."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.requests import Request

import rota
from rota.web import Subject, dashboard
from tests.web.visits import AFAR, LOCAL, PAGES, SAME, Visit, visible, visiting

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
        (AFAR, "192.0.2.7:8080", {}, False),
        (AFAR, "queue.example", {"trusted_hosts": ["queue.example"]}, False),
        (("testclient", 1), "localhost", {}, False),
        (LOCAL, "localhost", {"read_only": True}, False),
        (AFAR, "queue.example", {"read_only": False, "trusted_hosts": ["*.example"]}, True),
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


FORWARDED = (
    "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded", "x-real-ip", "via",
    "x-client-ip", "cf-connecting-ip",
)  # fmt: skip


@pytest.mark.parametrize("header", FORWARDED)
@pytest.mark.parametrize("proxies", [(), ("127.0.0.1", "10.0.0.0/8")])
async def test_behind_a_proxy_of_the_machine_it_is_read_only(
    busy: rota.Queue, header: str, proxies: tuple[str, ...]
) -> None:
    headers = {header: "localhost" if header == "x-forwarded-host" else "127.0.0.1"}
    async with visiting(busy, http={"headers": headers}, trusted_proxies=proxies) as visit:
        text = await visit.read("lanes")
        assert "do/lane.pause" not in text
        assert "Read-only for you: without a password" in text
        assert await pause(visit) == REFUSED


async def test_a_declared_proxy_is_not_this_machine_whatever_it_says(busy: rota.Queue) -> None:
    for proxies, client in ((["127.0.0.1"], LOCAL), (["unix"], None)):
        async with visiting(busy, client=client, trusted_proxies=proxies) as visit:
            assert await pause(visit) == REFUSED


async def test_a_page_of_another_name_behind_a_proxy_that_hides_it_changes_nothing(
    busy: rota.Queue,
) -> None:
    async with visiting(busy) as visit:
        headers = {"sec-fetch-site": "same-origin", "origin": "https://queue.example"}
        assert await pause(visit, headers) == REFUSED


FOREIGN = [
    "evil.test", "EVIL.test:8080", "localhost.evil.test", "evil.test.", "127.0.0.1.evil.test",
    "127.0.0.1@evil.test", "evil.test@localhost", "localhost evil.test", "localhost,evil.test",
    "", ":8080", "[::1", "[::1]evil.test", "[evil.test]", "localhost:8080:1", "localhost:x",
    "127.1", "0x7f000001", "2130706433", "203.0.113.9", "0.0.0.0", "localhost/", "localhost#x",
    "locаlhost", "xlocalhost", ".localhost", "localhost..",
]  # fmt: skip


@pytest.mark.parametrize("host", FOREIGN)
async def test_another_sites_name_for_this_machine_reads_nothing(
    busy: rota.Queue, host: str
) -> None:
    sayings: list[dict[str, str]] = [{}, *({name: "127.0.0.1"} for name in FORWARDED)]
    sayings.append({"x-forwarded-host": "localhost", "forwarded": "for=127.0.0.1;host=localhost"})
    async with visiting(busy) as visit:
        for said in sayings:
            headers: dict[str, Any] = {**said, "host": host.encode()}
            for page in ("", "dead", "events", "do/lane.pause"):
                answer = await visit.http.get(visit.url(page), headers=headers)
                assert answer.status_code in (REFUSED, 405), (page, said)
                assert "4711" not in answer.text
                assert "big" not in visible(answer.text)
            assert await pause(visit, {**SAME, **headers}) == REFUSED
            assert (await visit.http.get("/metrics", headers=headers)).status_code == REFUSED
        refused = await visit.http.get(visit.url(), headers={b"host": host.encode()})
        assert "trusted_hosts" in refused.text
    assert not await paused(busy)


@pytest.mark.parametrize(
    "options", [{"read_only": True}, {"read_only": False}, {"trusted_hosts": ["queue.example"]}]
)
async def test_nothing_but_asking_who_comes_opens_it_to_other_names(
    busy: rota.Queue, options: dict[str, Any]
) -> None:
    for client in (LOCAL, AFAR):
        async with visiting(busy, client=client, host="evil.test", **options) as visit:
            for page in PAGES:
                assert (await visit.get(page)).status_code == REFUSED
            assert await pause(visit) == REFUSED


@pytest.mark.parametrize(
    ("trusted", "host", "status"),
    [
        ("queue.example", "QUEUE.example.:443", 200),
        ("Queue.Example.", "queue.example", 200),
        ("queue.example", "a.queue.example", REFUSED),
        ("*.example", "a.b.example", 200),
        ("*.example", "example", REFUSED),
        ("*.example", "badexample", REFUSED),
        ("*", "any.thing", 200),
        ("*", "[x]", REFUSED),
        ("[2001:DB8:0::1]", "[2001:db8::1]:81", 200),
        ("queue.example", "localhost", 200),
    ],
)
@pytest.mark.parametrize("auth", [None, OPS])
async def test_names_that_are_trusted(
    queue: rota.Queue, trusted: str, host: str, status: int, auth: tuple[str, str] | None
) -> None:
    http = {"auth": auth} if auth else {}
    async with visiting(queue, trusted_hosts=[trusted], auth=auth, http=http) as visit:
        answer = await visit.http.get(visit.url(), headers={"host": host})
        assert answer.status_code == status


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("trusted_hosts", given)
        for given in ("queue.example", ["http://a"], ["a:80"], [""], ["a b"], ["*.*"], [1], ["*x"])
    ]
    + [
        ("trusted_proxies", given)
        for given in (
            "10.0.0.1",
            ["*"],
            ["10.0.0.1/8"],
            ["proxy.example"],
            [""],
            [None],
            ["::1%x/"],
        )
    ],
)
def test_what_is_declared_has_to_be_well_formed(option: str, given: Any) -> None:
    with pytest.raises(rota.ConfigError, match=f"{option}: expected .*, given "):
        dashboard(rota.Queue("q"), **{option: given})


PROXIES = ["10.0.0.0/8", "2001:db8::/32", "unix", "127.0.0.1"]


@pytest.mark.parametrize(
    ("peer", "said", "believed"),
    [
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),
        ("10.1.2.3", [], "10.1.2.3"),
        ("10.1.2.3", ["198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.1.2.3", ["198.51.100.1"], "198.51.100.1"),
        ("10.1.2.3", ["127.0.0.1, 198.51.100.1"], "198.51.100.1"),
        ("10.1.2.3", ["127.0.0.1", "198.51.100.1", "10.9.9.9"], "198.51.100.1"),
        ("10.1.2.3", ["198.51.100.1:4711, 10.9.9.9:1"], "198.51.100.1"),
        ("2001:db8::1", ['"[2001:db9::5]:80"'], "2001:db9::5"),
        ("10.1.2.3", ["198.51.100.1, unknown"], "10.1.2.3"),
        ("10.1.2.3", ["198.51.100.1, <script>, 10.9.9.9"], "10.9.9.9"),
        ("10.1.2.3", ["10.9.9.9"], "10.9.9.9"),
        (None, ["198.51.100.1"], "198.51.100.1"),
        (None, [], "-"),
    ],
)
async def test_whose_address_is_believed(
    queue: rota.Queue, peer: str | None, said: list[str], believed: str
) -> None:
    client = None if peer is None else (peer, 50_000)
    headers = [("x-forwarded-for", one) for one in said]
    async with visiting(
        queue, client=client, trusted_proxies=PROXIES, http={"headers": headers}
    ) as visit:
        assert f"You are {believed}." in visible(await visit.read())


async def test_a_proxy_that_hides_the_name_tells_it_where_it_is_declared(
    busy: rota.Queue,
) -> None:
    http = {"headers": {"x-forwarded-host": "queue.example"}}
    with_password: dict[str, Any] = {"auth": OPS, "http": {**http, "auth": OPS}}
    origin = {"origin": "https://queue.example"}
    async with visiting(busy, trusted_proxies=["127.0.0.1"], **with_password) as visit:
        assert await pause(visit, origin) == 200
    async with visiting(busy, **with_password) as visit:
        assert await pause(visit, origin) == REFUSED
    for hosts, status in ((("queue.example",), REFUSED), (("queue.example", "inner"), 200)):
        names = {"x-forwarded-host": "queue.example, inner"}
        async with visiting(
            busy, trusted_proxies=["127.0.0.1"], trusted_hosts=hosts, http={"headers": names}
        ) as visit:
            assert (await visit.get()).status_code == status


@pytest.mark.parametrize("given", [None, ("ops", "wrong"), ("nobody", "s3cret"), ("ops", "")])
async def test_a_password_is_asked_for_everywhere(
    busy: rota.Queue, given: tuple[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.web.bounds.LAST_DELAY_S", 0.0)
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
        ({"origin": "http://evil.example@localhost"}, False),
        ([("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], False),
        ([("origin", "http://localhost"), ("origin", "http://evil.example")], False),
        ({}, False),
    ],
)
async def test_changes_come_from_this_sites_pages_only(
    busy: rota.Queue, headers: Any, allowed: bool
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
    asked: list[tuple[str, Subject]] = []

    async def authorize(request: Request, action: str, target: Subject) -> bool:
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
    assert ("read", Subject(busy.name, "queue")) in asked
    assert ("lane.pause", Subject(busy.name, "lane", "big")) in asked
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
