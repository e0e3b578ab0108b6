"""What is logged: a line for each job that ends, with its fields; an outage does not flood."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator

import pytest

import rota
from rota.cli.logs import ConsoleFormatter, JsonFormatter
from rota.worker import Worker
from tests.conftest import PrivateServer
from tests.support.queues import open_queue, spec
from tests.support.servers import Server
from tests.support.times import LEASE, PATIENCE
from tests.support.waiting import eventually_async


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(server, queue_name) as queue:
        yield queue


async def test_each_job_that_ends_is_one_line_with_its_fields(
    server: Server, queue: rota.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rota.job")

    @queue.task(max_attempts=2, backoff=rota.Backoff(base=0.001))
    async def work(what: str) -> None:
        if what == "fails":
            raise ValueError("first line\nlast line")
        if what == "buries":
            raise rota.Bury("hopeless")
        if what == "asks" and rota.current_job().attempt == 1:
            raise rota.Retry(0)
        if what == "limited" and not caplog.records:
            raise rota.RateLimited(0.01)

    worker = Worker(queue, lease=LEASE)
    for what in ("fine", "fails", "buries", "asks"):
        caplog.clear()
        done = await work.options(lane="t7", ordering_key="k").enqueue(what)
        expected = 2 if what in ("fails", "asks") else 1
        async with worker:
            await eventually_async(lambda: len(_of_jobs(caplog)) == expected, "the line is missing")
        lines = _of_jobs(caplog)
        assert [line.getMessage().split(" (")[0] for line in lines] == [
            f"job {done.id} of task work in lane t7 {end}" for end in SAID[what]
        ]
        for line in lines:
            assert line.levelname == ("WARNING" if what in ("fails", "buries") else "INFO")
        first = vars(lines[0])
        fields = ("queue", "job", "task", "lane", "ordering_key", "attempt", "outcome")
        assert [first[name] for name in fields[:-1]] == [
            queue.name, done.id, "work", "t7", "k", 1,
        ]  # fmt: skip
        assert [vars(line)["outcome"] for line in lines] == OUTCOMES[what]
        assert 0 <= first["seconds"] < 5


EVIL = "\x1b]0;x\x07\x9b1m\r\u202e\u2066\u200f\u2028"


async def test_no_text_of_a_job_steers_a_terminal(
    queue: rota.Queue, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in our own lines, whoever writes them, nor in what the command's formatters write."""
    caplog.set_level(logging.INFO)
    raw: list[logging.LogRecord] = []  # pytest cannot report a text that no encoding takes
    app = logging.getLogger("app")
    monkeypatch.setattr(app, "filters", [lambda record: raw.append(record)])

    @queue.task(max_attempts=1)
    async def work() -> None:
        app.exception("seen: %s", EVIL, exc_info=ValueError(EVIL))
        raise ValueError(f"{EVIL}, first line\n{EVIL}")

    done = await work.enqueue()
    await queue.enqueue(spec(task=(odd := "odd\u202e")))
    async with Worker(queue, lease=LEASE):
        await eventually_async(lambda: len(_of_jobs(caplog)) == 2, "a line is missing")
    lines = {vars(line)["job"]: line.getMessage() for line in _of_jobs(caplog)}
    assert all(line.isprintable() for line in lines.values()), lines
    assert r"ValueError: \x1b]0;x\x07\x9b1m" in lines.pop(done.id)
    assert ascii(odd)[1:-1] in lines.popitem()[1]
    assert raw
    half = logging.makeLogRecord({"msg": "\ud83d"})
    for record in [*raw, *_of_jobs(caplog), half]:
        for form in (JsonFormatter(), ConsoleFormatter("%(message)s")):
            text = form.format(record)
            assert text.replace("\n", "").isprintable(), text
            if isinstance(form, JsonFormatter):
                assert json.loads(text)["message"] == record.getMessage()


SAID = {
    "fine": ["is done"],
    "fails": [f"failed, attempt {n} of 2: ValueError: first line" for n in (1, 2)],
    "buries": ["is buried: hopeless"],
    "asks": ["failed, attempt 1 of 2: it asks for another", "is done"],
}
OUTCOMES = {
    "fine": ["completed"],
    "fails": ["retried", "buried"],
    "buries": ["buried"],
    "asks": ["retried", "completed"],
}


def _of_jobs(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "rota.job"]


async def test_a_job_that_is_done_costs_no_line_unless_someone_listens(
    server: Server, queue: rota.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "rota.job")

    @queue.task
    async def work() -> None: ...

    await work.enqueue()
    assert (await Worker(queue, lease=LEASE).run(burst=True)).done == 1
    assert _of_jobs(caplog) == []


async def test_json_has_the_fields_and_a_handlers_own_lines_have_them_too(
    server: Server, queue: rota.Queue
) -> None:
    lines: list[str] = []

    class Sink(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    sink = Sink()
    sink.setFormatter(JsonFormatter())
    own = logging.getLogger("app.handler")
    loggers = [logging.getLogger("rota.job"), own]
    for logger in loggers:
        logger.addHandler(sink)
        logger.setLevel(logging.INFO)

    @queue.task
    async def on_loop(n: int) -> None:
        own.info("on the loop: %d", n)

    @queue.task
    def in_thread(n: int) -> None:
        own.info('in a thread\nof lane "x"')
        try:
            raise ValueError("oh")
        except ValueError:
            own.exception("caught")

    try:
        first = await on_loop.options(lane="ünï").enqueue(1)
        second = await in_thread.enqueue(2)
        await Worker(queue, lease=LEASE).run(burst=True)
        own.info("outside", extra={"job": None, "secret": "s"})
    finally:
        for logger in loggers:
            logger.removeHandler(sink)
            logger.setLevel(logging.NOTSET)
    assert not any("\n" in line for line in lines)
    rows = [json.loads(line) for line in lines]
    of_first = [row for row in rows if row.get("job") == first.id]
    assert [row["logger"] for row in of_first] == ["app.handler", "rota.job"]
    for row in of_first:
        assert {"task": "on_loop", "lane": "ünï", "attempt": 1}.items() <= row.items()
        assert row["time"].endswith("+00:00")
    assert of_first[1]["outcome"] == "completed"
    assert of_first[1]["queue"] == queue.name
    of_second = [row for row in rows if row.get("job") == second.id]
    assert of_second[0]["message"] == 'in a thread\nof lane "x"'
    assert "ValueError: oh" in of_second[1]["error"]
    assert rows[-1].keys() == {"time", "level", "logger", "message", "pid"}


async def test_an_outage_is_said_sparingly(
    private_server: PrivateServer, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = private_server()
    caplog.set_level(logging.INFO, "rota")
    async with open_queue(server, queue_name, beat=0.1) as queue:

        @queue.task
        async def work() -> None: ...

        async with Worker(queue, lease=LEASE, concurrency=2) as worker:
            server.kill()
            await eventually_async(
                lambda: worker.health().problems and queue.consuming.keeper.errors > 5,
                "the outage is not noticed",
                timeout=PATIENCE,
            )
            server.restart()
            await eventually_async(lambda: worker.health().healthy, "no recovery", timeout=PATIENCE)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) < 12, said
