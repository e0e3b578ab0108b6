"""Texts of others are shown as text: C46, C49, C50, C71."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any, get_args

import pytest

import rota
from rota.values.model import JobState
from rota.values.names import visible as visible_text
from rota.web.payload import shown_error
from tests.support.queues import open_queue, spec
from tests.support.servers import Server
from tests.support.waiting import eventually_async
from tests.web.conftest import REFUSED
from tests.web.visits import PAGES, Visit, visible, visiting

EVIL = "\"><img src=x onerror=alert(1)>'<script>alert(2)</script>{{71*73}}${71*73}</pre>"
NAMES = [
    "a:b", "{x}", "}{", "/", "..", ".", "#", "?", "+", "%2F", "%", "*", "[a-z]", "a b", " ",
    "&amp;", "a&b=c", "\N{PILE OF POO}", "caf\u00e9", "cafe\u0301", "\u202eabc", "0", "-1",
    "paused", "ring", "javascript:alert(1)", EVIL[:190],
]  # fmt: skip


class Tags(HTMLParser):
    """Collects the elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def assert_harmless(text: str) -> None:
    """Scripts are the dashboard's own files; nothing runs from an attribute or leads elsewhere."""
    for tag, attributes in Tags(text).found:
        assert tag not in ("img", "iframe", "object", "embed", "style", "base"), tag
        if tag == "script":
            assert (attributes.get("src") or "").startswith("/static/"), attributes
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name != "style", tag
            if name in ("href", "action", "src", "sse-connect"):
                assert re.match(r"/(?!/)|#", value or ""), (tag, name, value)
    assert "5183" not in visible(text)


@pytest.fixture
async def evil(queue: rota.Queue) -> AsyncIterator[tuple[rota.Queue, list[str]]]:
    """Hostile text in every field that takes text; the ids of a job in each state."""
    fields = {"lane": EVIL, "task": EVIL, "payload": json.dumps({EVIL: EVIL}).encode()}
    dying = rota.JobSpec(id=EVIL, on_dead="hold", ordering_key=EVIL, **fields)  # type: ignore[arg-type]
    behind = rota.JobSpec(ordering_key=EVIL, **fields)  # type: ignore[arg-type]
    delayed = rota.JobSpec(delay_ms=600_000, **fields)  # type: ignore[arg-type]
    running = rota.JobSpec(id="r" + EVIL, lane="l" + EVIL, task=EVIL)
    await queue.enqueue_many([dying, behind, delayed])
    async with queue.consumer() as consumer:
        await consumer.bury(await consumer.claim(1), f"{EVIL}\n{EVIL}")
        await queue.enqueue(running)
        await consumer.claim(1)
        await queue.set_template(EVIL, ceiling=3)
        await queue.lane(EVIL).set(template=EVIL)
        await queue.lane(EVIL).pause(reason=EVIL, by=EVIL)
        await queue.pause(reason=EVIL, by=EVIL)
        yield queue, [one.id for one in (dying, behind, delayed, running)]


async def test_hostile_text_is_text_on_every_page(evil: tuple[rota.Queue, list[str]]) -> None:
    queue, ids = evil
    async with visiting(queue) as visit:

        async def looked() -> bool:
            return "All " in visible(await visit.read("lanes"))

        await eventually_async(looked, "the lanes were not looked at")
        texts = [await visit.read(page) for page in PAGES]
        texts += [await visit.read("lane", name=EVIL)]
        texts += [await visit.read("job", id=id) for id in ids]
        for state in ("waiting", "delayed", "running", "dead"):
            texts.append(await visit.read("jobs", state=state, lane=EVIL, task=EVIL))
        texts.append((await visit.get("job", id="no" + EVIL[:150])).text)
        texts.append((await visit.get("jobs", state=EVIL)).text)
        texts.append((await visit.http.get(f"/q/{EVIL}/")).text)
        texts.append((await visit.do("lane.set", name=EVIL, ceiling=EVIL)).text)
        texts.append((await visit.do("lane.resume", name=EVIL)).text)
    for text in texts:
        assert_harmless(text)
    assert sum(EVIL[:40] in html.unescape(text) for text in texts) >= len(texts) - 4


@pytest.mark.parametrize("name", NAMES)
async def test_odd_names_work_in_links_and_actions(queue: rota.Queue, name: str) -> None:
    await queue.enqueue_many([spec(name, name, id=f"i{name}", ordering_key=name)])
    async with visiting(queue) as visit:
        text = await visit.read("lanes", order="all")
        assert_harmless(text)
        (link,) = set(re.findall(r'class="name" href="([^"]*lane\?name=[^"]*)"', text))
        page = await visit.http.get(html.unescape(link))
        assert page.status_code == 200
        assert (
            f'Lane <span class="name">{html.escape(visible_text(name), quote=False)}'
            in page.text.replace("&#34;", '"').replace("&#39;", "'")
        )
        await visit.done("lane.pause", name=name)
        assert (await queue.lane(name).info()).paused
        jobs = await visit.read("jobs", state="waiting", lane=name, task=name)
        (link,) = re.findall(r'href="([^"]*job\?id=[^"]*)"', jobs)
        assert (await visit.http.get(html.unescape(link))).status_code == 200
    infos = [info.name for info in await queue.lanes()]
    assert infos == [name]


@pytest.mark.parametrize("name", ["a b/c", "..", EVIL[:100].replace("{", "").replace("}", "")])
async def test_odd_names_of_queues(valkey: Server, name: str) -> None:
    async with open_queue(valkey, name) as queue, open_queue(valkey, "plain") as other:
        await queue.enqueue(spec("a"))
        async with visiting(queue, other) as visit:
            home = await visit.http.get("/")
            assert_harmless(home.text)
            (link,) = re.findall(r'href="(/q/~1/)"', home.text)
            page = await visit.http.get(link)
            assert page.status_code == 200
            assert name in html.unescape(page.text)
            assert_harmless(page.text)


async def read_job(visit: Visit, queue: rota.Queue, payload: bytes) -> str:
    one = spec("a", payload=payload)
    await queue.enqueue(one)
    text = await visit.read("job", id=one.id)
    shown = re.search(r'id="arguments">(.*?)</pre>', text, re.DOTALL)
    assert shown
    return html.unescape(shown[1])


async def test_numbers_are_exact(queue: rota.Queue) -> None:
    numbers = b"[130775545883395173,1000000000000000000000000000001,-0.0,1e2,0.1,9007199254740993]"
    async with visiting(queue) as visit:
        shown = await read_job(visit, queue, numbers)
        assert re.sub(r"\s", "", shown) == numbers.decode()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\xfe\x00",
        b"not json",
        b"[" * 5000,
        "\u2028\u202e\ud83d".encode("utf-8", "ignore"),
    ],
)
async def test_arguments_that_are_no_json(queue: rota.Queue, payload: bytes) -> None:
    async with visiting(queue) as visit:
        await read_job(visit, queue, payload)


async def test_a_large_payload_is_cut_and_says_so(queue: rota.Queue) -> None:
    payload = json.dumps({"text": "<b>" * 340_000}).encode()
    async with visiting(queue) as visit:
        one = spec("a", payload=payload)
        await queue.enqueue(one)
        text = await visit.read("job", id=one.id)
    assert len(text) < 300_000
    assert f"{len(payload):,} bytes; cut: the first 20,000 characters" in visible(text)


async def test_secrets_are_masked_by_the_hook(queue: rota.Queue) -> None:
    def redact(task: str, arguments: object) -> object:
        if task == "crash":
            raise KeyError("card")
        assert isinstance(arguments, dict)
        return {**arguments, "card": "****"}

    payload = b'{"card":"4711-0815","n":1000000000000000000001}'
    ids = [f"{task}-1" for task in ("pay", "crash")]
    await queue.enqueue_many([spec("a", id[:-2], id=id, payload=payload) for id in ids])
    async with visiting(queue, redact=redact) as visit:
        shown, crashed = [await visit.read("job", id=id) for id in ids]
    assert "****" in shown
    assert "1000000000000000000001" in shown
    assert "4711" not in shown + crashed
    assert "the redaction hook failed" in crashed


NUMBER = "4711-0815-4712-0816"
HIDDEN = "not shown: the redaction hook"


def masking(task: str, arguments: Any) -> Any:
    return {**arguments, "card": "****"}


@pytest.fixture
async def failing(queue: rota.Queue) -> AsyncIterator[rota.Queue]:
    """Jobs whose errors hold an argument, wherever an error is shown."""
    error = REFUSED.replace("card 4711 refused", f"card {NUMBER} of ann is refused, asks for 12")
    payload = json.dumps({"card": NUMBER, "name": "ann"}).encode()
    fields: dict[str, Any] = {"task": "pay", "payload": payload}
    states = ("dead", "delayed", "running", "waiting")
    await queue.enqueue_many([spec("a", id=state, **fields) for state in states])
    hold = rota.JobSpec(lane="a", id="hold", ordering_key="k", on_dead="hold", **fields)
    wait = rota.JobSpec(lane="a", id="wait", ordering_key="w", **fields)
    behind = [spec("a", id=f"behind-{key}", ordering_key=key, **fields) for key in "kw"]
    await queue.enqueue_many([hold, wait, *behind])
    async with queue.consumer() as consumer:
        for job in await consumer.claim(6):
            if job.id in ("dead", "hold"):
                await consumer.bury(job, error)
            else:
                await consumer.retry(job, error=error, delay=600)
        for id in states[2:]:
            await queue.job(id).retry()
        assert [job.id for job in await consumer.claim(1)] == ["running"]
        yield queue


async def every_text_with_an_error(visit: Visit) -> dict[str, str]:
    pages: list[tuple[str, dict[str, str]]] = [(page, {}) for page in PAGES]
    pages += [("lane", {"name": "a"}), ("lanes", {"order": "all"})]
    pages += [("jobs", {"state": state, "lane": "a"}) for state in get_args(JobState)]
    ids = ("dead", "delayed", "waiting", "running", "hold", "wait", "behind-k", "behind-w")
    pages += [("job", {"id": id}) for id in ids]
    return {f"{page} {given}": await visit.read(page, **given) for page, given in pages}


async def test_what_is_masked_is_masked_in_errors(failing: rota.Queue) -> None:
    async with visiting(failing) as visit:
        bare = await every_text_with_an_error(visit)
    with_error = [page for page, text in bare.items() if "is refused" in text]
    assert len(with_error) >= 11, with_error
    async with visiting(failing, redact=masking) as visit:
        masked = await every_text_with_an_error(visit)
    for page, text in masked.items():
        assert "4711" not in text, page
    for page in with_error:
        assert "card **** of ann is refused" in visible(masked[page]), page


def drops(task: str, arguments: Any) -> Any:
    return {"name": arguments["name"]}


def changes_in_place(task: str, arguments: Any) -> Any:
    arguments["card"] = "****"
    return arguments


def reads_the_text(task: str, arguments: Any) -> Any:
    text = arguments.get("__error__", "").replace("for 12", "for a code")
    return {**arguments, "card": "****", "__error__": text}


def fails(task: str, arguments: Any) -> Any:
    raise KeyError(task)


@pytest.mark.parametrize(
    ("hook", "shown"),
    [
        (masking, "card **** of ann is refused, asks for 12"),
        (changes_in_place, "card **** of ann is refused, asks for 12"),
        (reads_the_text, "card **** of ann is refused, asks for a code"),
        (drops, HIDDEN),
        (fails, HIDDEN),
        (lambda *_: None, HIDDEN),
        (lambda *_: "hidden", HIDDEN),
        (lambda task, arguments: {**arguments, "card": "", "__error__": 5}, HIDDEN),
    ],
)
async def test_what_hooks_may_do_with_errors(failing: rota.Queue, hook: Any, shown: str) -> None:
    async with visiting(failing, redact=hook) as visit:
        for page, given in (("job", {"id": "dead"}), ("dead", {}), ("sequences", {})):
            text = await visit.read(page, **given)
            assert shown in visible(text), page
            assert "4711" not in text
            assert "__error__" not in text


@pytest.mark.parametrize(
    ("arguments", "error", "shown"),
    [
        ({"card": "A\tb'c"}, 'ValueError: "A\\tb\'c"', 'ValueError: "****"'),
        ({"card": "Zoë"}, 'no {"card": "Zo\\u00eb"}', 'no {"card": "****"}'),
        ({"card": 1234567}, "of 1,234,567 or 1234567", "of **** or ****"),
        ({"card": "geheim"}, "GEHEIM!", "****!"),
        ({"card": 7}, "7 of 77 and a7", "**** of 77 and a7"),
        ({"card": {"n": ["4711", {"pin": 815}]}}, "4711 and 815", "**** and ****"),
        ({"card": "x" * 3000}, "cut " + "x" * 30, "cut ****"),
        ({"card": "x" * 60_000}, "cut xx", "not shown"),
        ({"card": "ann", "name": "ann"}, "ann", "ann"),
        (["4711"], "IndexError: 4711", HIDDEN),
        ("4711", "4711", HIDDEN),
    ],
)
async def test_how_a_value_is_found_in_an_error(arguments: Any, error: str, shown: str) -> None:
    told = shown_error("pay", json.dumps(arguments).encode(), error, masking)
    assert told is not None
    assert told.startswith(shown)


async def test_why_each_sequence_is_out_is_masked_by_what_its_own_head_was_given(
    queue: rota.Queue,
) -> None:
    cards = {"k": "4711-0815", "w": "1234-5678", "none": "9999-0000"}
    await queue.enqueue_many(
        [
            rota.JobSpec(
                lane="a",
                id=f"{key}-{n}",
                ordering_key=key,
                task="pay",
                on_dead="hold",
                payload=json.dumps({"card": card, "name": "ann"}).encode(),
            )
            for key, card in cards.items()
            for n in range(2)
        ]
    )
    async with queue.consumer() as consumer:
        dead, delayed, held = await consumer.claim(3)
        await consumer.bury(dead, f"{cards['k']} of ann, not {cards['w']}")
        await consumer.retry(delayed, error=f"{cards['w']} of ann", delay=600)
        async with visiting(queue, redact=masking) as visit:
            text = visible(await visit.read("sequences"))
    assert "**** of ann, not 1234-5678" in text
    assert text.count("**** of ann") == 2
    assert cards["k"] not in text
    assert held.id in text


async def test_a_job_that_could_not_be_read_tells_nothing_of_its_arguments(
    queue: rota.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    @queue.task
    async def pay(card: int) -> None: ...

    payloads = (b'{"card":"secret4711"}', b'["secret4711"]', b'"secret4711', b"secret4711")
    ids = [f"{n}-1" for n in range(len(payloads))]
    jobs = [spec("a", "pay", id=id, payload=p) for id, p in zip(ids, payloads, strict=True)]
    await queue.enqueue_many(jobs)
    with caplog.at_level("INFO"):
        async with rota.Worker(queue):

            async def all_dead() -> bool:
                return (await queue.info()).dead == len(ids)

            await eventually_async(all_dead, "they are not buried")
    assert "does not fit" in caplog.text
    assert "4711" not in caplog.text
    async with visiting(queue, redact=lambda task, arguments: "hidden") as visit:
        for page, given in (
            ("dead", {}),
            ("jobs", {"state": "dead"}),
            *(("job", {"id": id}) for id in ids),
        ):
            assert "4711" not in await visit.read(page, **given), page
    async with visiting(queue) as visit:
        assert "4711" not in await visit.read("dead")


async def test_a_damaged_record_is_shown_as_it_is(queue: rota.Queue, valkey: Server) -> None:
    one = spec("a")
    await queue.enqueue(one)
    valkey.raw().set(queue.link.keys.key("job", one.id), EVIL)
    async with visiting(queue) as visit:
        text = await visit.read("job", id=one.id)
        assert_harmless(text)
        assert EVIL[:30] in html.unescape(text)
        assert_harmless(await visit.read("jobs", state="waiting", lane="a"))
