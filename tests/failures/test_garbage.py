"""Whatever a stored text holds, every reader shows it, escaped: bytes that are no UTF-8, what a
terminal would obey, what turns the direction of writing."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from typing import Any

import pytest
import redis

import rota
from rota.script.keys import CATALOGUE, Keys
from tests.failures.damage import Busy, make_busy
from tests.failures.tools import Hand, jobs
from tests.process.programs import COMMAND
from tests.support.servers import Server
from tests.web.visits import PAGES, visiting

JOBS = ("a1", "a2", "s2", "d1", "h1", "r2")
LANES = ("a", "b", "p", "h")
EVIL = "\x1b]0;x\x07\x1b[2J\x9b1m\r\x7f\u202e\u2066\u200f\u200b\u2028\U000e0001"
"""Controls of both kinds, and what is not seen but turns or hides what is."""
GARBAGE = {
    "no UTF-8": b"\xff\xfe\xc3",
    "an overlong form": b"\xc0\xaf\xed\xa0\x80",
    "evil": EVIL.encode(),
    "evil in JSON": json.dumps(
        dict.fromkeys(("error", "reason", "by", "worker", "ceiling", "rate"), EVIL),
        ensure_ascii=False,
    ).encode(),
    "no UTF-8 in JSON": b'{"error":"\xff","reason":"\xff","by":"\xff","ceiling":"\xff"}',
    "half a character in JSON": b'{"error":"\\ud83d","reason":"\\ud83d"}',
    "no text in JSON": b'{"error":[1],"reason":{"a":1},"by":7,"at":"x","ceiling":[]}',
}

TEXTS = (
    "errors", "why", "cancels", "templates", "gtemplate", "orders", "grate", "attempts", "deaths",
)  # fmt: skip


@pytest.fixture
async def busy(queue: rota.Queue) -> tuple[rota.Queue, Busy]:
    """With a job in flight that someone asked to cancel, and a whole queue that is paused."""
    made = await make_busy(queue)
    await queue.job("a1").cancel(by="ops")
    await queue.pause(reason="maintenance", by="ops")
    return queue, made


def spoil_texts(raw: Any, keys: Keys, busy: Busy, garbage: bytes) -> None:
    """What is kept beside the jobs: notes, settings, names of processes."""
    for kind in TEXTS:
        for field in raw.hkeys(keys.key(kind)):
            raw.hset(keys.key(kind), field, garbage)
    for id in JOBS:
        raw.hset(keys.key("errors"), id, garbage)
    raw.hset(keys.key("config"), "paused", garbage)
    raw.hset(keys.key("gtemplate"), "a", garbage)
    raw.hset(keys.key("orders"), busy.hand.id, garbage)
    for hand in (busy.hand, busy.other):
        raw.hset(keys.key("consumer", hand.id), "!name", garbage)


def spoil_names(raw: redis.Redis, keys: Keys, busy: Busy, garbage: bytes) -> None:
    """Names, wherever one may stand."""
    for kind in CATALOGUE:
        if kind.parameter is not None or kind.name in ("wake", "config", "stats"):
            continue
        key = keys.key(kind.name)
        if kind.type == "hash":
            raw.hset(key, garbage, "3")
        elif kind.type == "zset":
            raw.zadd(key, {garbage: 3})
        elif kind.type == "set":
            raw.sadd(key, garbage)
    raw.zadd(keys.key("blocked"), {kind + garbage: 4e12 for kind in (b"l:", b"s:1:b:", b"h:1:b:")})
    raw.hset(keys.key("why"), b"h:1:b:" + garbage, garbage)
    raw.hset(keys.key("held"), b"1:b:" + garbage, garbage + b"\n" + garbage)
    raw.hset(keys.key("gtemplate"), garbage, garbage)
    for lane in ("a", "b"):
        for kind_ in ("pending", "out", "delayed"):
            raw.zadd(keys.key(kind_, lane), {garbage: 1, b"!" + garbage: 2})
    raw.zadd(keys.key("sequence", "1:b:m"), {garbage: 1})
    raw.hset(keys.key("consumer", busy.hand.id), garbage, "1,1,x,1:a")
    raw.hset(f"{keys.root}c:".encode() + garbage, garbage, "1,1,x,1:a")


def spoil_records(raw: redis.Redis, keys: Keys, busy: Busy, garbage: bytes) -> None:
    for id in JOBS:
        raw.set(keys.key("job", id), garbage)


def spoil_headers(raw: Any, keys: Keys, busy: Busy, garbage: bytes) -> None:
    """What another program may have written: a record whose task is no name."""
    for id in JOBS:
        prefix, header, rest = raw.get(keys.key("job", id)).split(b"\n", 2)
        header = header.replace(b'"work"', b'"' + garbage.replace(b'"', b"").strip() + b'"')
        raw.set(keys.key("job", id), b"\n".join([prefix, header, rest]))


SPOILED = [
    *((spoil_texts, garbage) for garbage in GARBAGE),
    *((spoil_names, garbage) for garbage in ("no UTF-8", "evil")),
    *((spoil_records, garbage) for garbage in ("no UTF-8", "evil")),
    *((spoil_headers, garbage) for garbage in ("no UTF-8", "evil", "half a character in JSON")),
]


def verbs(busy: Busy) -> list[list[str]]:
    """Every command that reads, without the queue's name and --json."""
    return [
        ["queue", "show"], ["lane", "ls"], ["worker", "ls"], ["sequence", "ls"], ["dead", "ls"],
        ["top", "--once"], ["doctor"], ["check"],
        *(["job", "ls", "--state", state] for state in ("running", "delayed", "dead")),
        *(["job", "ls", "--lane", lane] for lane in ("a", "b")),
        *(["sequence", "show", lane, "k"] for lane in ("b", "h", "t")),
        *(["lane", verb, "--", lane] for verb in ("explain", "show") for lane in LANES),
        *(["job", verb, id] for verb in ("explain", "show") for id in JOBS),
    ]  # fmt: skip


def assert_plain(text: str, where: object) -> None:
    """What is seen as it is; what a form sends back stays exact."""
    text = re.sub(r'value="[^"]*"', "", text)
    wrong = {c for c in text if not c.isprintable() and c not in "\n\t"}
    assert not {c for c in wrong if unicodedata.category(c) != "Zs"}, (where, wrong, text)


def call(line: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of a command that is called in this process."""
    out, err = (TextIOWrapper(BytesIO(), encoding="utf-8") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        COMMAND(line, prog_name="rota")
    texts = []
    for stream in (out, err):
        stream.seek(0)
        texts.append(stream.read())
    return int(ended.value.code or 0), texts[0], texts[1]


def read_on_command_line(name: str, url: str, busy: Busy) -> None:
    for words in verbs(busy):
        noun = words[:1] if words[0] in ("top", "doctor", "check") else words[:2]
        for form in ([], ["--json"]):
            line = [*noun, *form, "--url", url, name, *words[len(noun) :]]
            code, out, err = call(line)
            assert code in (0, 1), (line, err)
            assert_plain(out + err, line)
            if form and words[0] != "check":
                for text in out.splitlines():
                    json.loads(text)


async def read_on_pages(queue: rota.Queue) -> None:
    async with visiting(queue) as visit:
        for page in PAGES:
            assert_plain(await visit.read(page), page)
        for lane in LANES:
            assert_plain(await visit.read("lane", name=lane), lane)
            assert_plain(await visit.read("jobs", state="waiting", lane=lane), lane)
        for state in ("running", "delayed", "dead"):
            assert_plain(await visit.read("jobs", state=state), state)
        for id in JOBS:
            assert_plain(await visit.read("job", id=id), id)


async def read_in_code(queue: rota.Queue) -> None:
    await queue.info()
    await queue.templates()
    await queue.consumers()
    await queue.lanes(by="oldest_wait")
    assert {lane.state for lane in await queue.lanes()}
    assert (await queue.sequences()).sequences
    assert await queue.dead.list()
    for id in JOBS:
        job = queue.job(id)
        assert await job.info() is not None
        assert await job.explain() is not None


@pytest.mark.parametrize(
    ("spoil", "garbage"), SPOILED, ids=[f"{spoil.__name__}: {what}" for spoil, what in SPOILED]
)
async def test_whatever_is_stored_can_be_read(
    server: Server,
    busy: tuple[rota.Queue, Busy],
    spoil: Callable[[redis.Redis, Keys, Busy, bytes], None],
    garbage: str,
) -> None:
    queue, made = busy
    spoil(server.raw(decode=False), queue.link.keys, made, GARBAGE[garbage])
    await read_in_code(queue)
    read_on_command_line(queue.name, server.url, made)
    await read_on_pages(queue)


async def test_a_list_goes_on_behind_a_name_that_is_no_text(
    server: Server, queue: rota.Queue
) -> None:
    """Its place is kept byte by byte: as text it would lead back to where the list was."""
    raw, keys = server.raw(decode=False), queue.link.keys
    await queue.enqueue_many(jobs(["a1", "a2"]))
    names: dict[Any, float] = {b"\xff%d" % n: n for n in range(250)}
    raw.zadd(keys.key("pending", "a"), names)
    raw.zadd(keys.key("dead"), names)
    for name in names:
        raw.set(f"{keys.root}job:".encode() + name, b"\xff")
    listed, cursor = [], None
    for _ in range(200):
        page = await queue.jobs("waiting", lane="a", cursor=cursor, limit=3)
        listed += page.jobs
        cursor = page.cursor
        if cursor is None:
            break
    assert len(listed) == 252
    dead = [job.id async for job in queue.dead.iterate()]
    assert dead == [rf"\xff{n}" for n in range(250)]


@pytest.mark.parametrize("record", [b"", b"\xff", b"no record", b"+1,2,3\n{}\n"])
async def test_a_job_whose_record_is_broken_is_said_to_wait(
    server: Server, queue: rota.Queue, record: bytes
) -> None:
    await queue.enqueue_many(jobs(["held", "waits"]))
    hand = await Hand(queue, lease=3600).join()
    assert await hand.claim() == ["held"]
    for id in ("held", "waits"):
        server.raw().set(queue.link.keys.key("job", id), record)
    for id, state in (("held", "running"), ("waits", "waiting")):
        info, found = await queue.job(id).info(), await queue.job(id).explain()
        assert info is not None
        assert found is not None
        assert (info.state, found.state) == (state, state)
    found = await queue.job("waits").explain()
    assert found is not None
    assert [reason.kind for reason in found.reasons] == ["damaged"]
    assert "record is broken" in found.reasons[0].text
