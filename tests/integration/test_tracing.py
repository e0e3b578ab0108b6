"""Traces as the application's SDK gets them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import rota
from rota.observe import tracing
from rota.values.jobspec import Header
from rota.values.model import parse_record
from rota.worker import Worker
from tests.support.queues import open_queue, spec
from tests.support.servers import Server
from tests.support.times import LEASE
from tests.support.waiting import eventually_async


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(server, queue_name) as queue:
        yield queue


class Spans:
    """What the application's exporter got."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def all(self, name: str) -> list[ReadableSpan]:
        """Those whose name begins so, in the order of their ends."""
        spans = self._exporter.get_finished_spans()
        return [span for span in spans if span.name.startswith(f"{name} ")]

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.all(name)
        return found


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """A tracer provider, as an application sets one up."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # The API lets it be set once in a process; this can be undone.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return Spans(exporter)


def links(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def identity(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


async def drain(queue: rota.Queue) -> None:
    await Worker(queue, lease=LEASE).run(burst=True)


async def test_a_run_is_linked_to_what_sent_its_job(
    server: Server, queue: rota.Queue, spans: Spans
) -> None:
    seen: list[int] = []

    @queue.task
    async def work(n: int) -> None:
        seen.append(trace.get_current_span().get_span_context().span_id)

    with trace.get_tracer("app").start_as_current_span("request 1"):
        done = await work.options(lane="t7", ordering_key="k", priority=3).enqueue(1)
    await drain(queue)
    sent, ran = spans.one("send"), spans.one("process")
    assert (sent.name, ran.name) == (f"send {queue.name}", f"process {queue.name}")
    assert (sent.kind, ran.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert sent.parent is not None
    assert sent.parent.span_id == identity(spans.one("request"))[1]
    assert ran.parent is None
    assert identity(ran)[0] != identity(sent)[0]
    assert links(ran) == [identity(sent)]
    assert seen == [identity(ran)[1]], "the handler's own spans are children of its run"
    common = {
        "messaging.system": "rota",
        "messaging.destination.name": queue.name,
        "messaging.destination.partition.id": "t7",
        "messaging.message.id": done.id,
        "messaging.message.conversation_id": "k",
        "messaging.rota.task": "work",
        "messaging.rota.priority": 3,
    }
    assert dict(sent.attributes or {}) == common | {
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
    }
    assert dict(ran.attributes or {}) == common | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.rota.attempt": 1,
        "messaging.rota.outcome": "complete",
    }
    assert ran.status.status_code is StatusCode.UNSET


async def test_a_run_may_be_the_child_of_its_sender(
    server: Server, queue: rota.Queue, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_TRACE_PARENT", "1")
    threads: list[tuple[int, bool]] = []

    @queue.task
    def work() -> None:
        current = trace.get_current_span().get_span_context().span_id
        threads.append((current, threading.current_thread() is threading.main_thread()))

    await work.enqueue()
    await drain(queue)
    sent, ran = spans.one("send"), spans.one("process")
    assert ran.parent is not None
    assert (ran.parent.trace_id, ran.parent.span_id) == identity(sent)
    assert links(ran) == []
    assert threads == [(identity(ran)[1], False)], "a thread has the context too"


async def test_every_attempt_is_a_run_and_failures_are_errors(
    server: Server, queue: rota.Queue, spans: Spans
) -> None:
    @queue.task(max_attempts=2, backoff=rota.Backoff(base=0.001))
    async def fails() -> None:
        raise KeyError("gone")

    await fails.enqueue()
    worker = Worker(queue, lease=LEASE)
    async with worker:
        await eventually_async(lambda: len(spans.all("process")) == 2, "there is no second run")
    first, second = spans.all("process")
    sent = spans.one("send")
    for span, attempt, outcome in ((first, 1, "retry"), (second, 2, "bury")):
        assert links(span) == [identity(sent)]
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == "KeyError: 'gone'"
        attributes = dict(span.attributes or {})
        assert attributes["error.type"] == "KeyError"
        assert attributes["messaging.rota.attempt"] == attempt
        assert attributes["messaging.rota.outcome"] == outcome
        (event,) = span.events
        assert "Traceback" in str((event.attributes or {})["exception.stacktrace"])


@pytest.mark.parametrize(
    ("signal", "outcome", "error"),
    [
        (rota.Retry(0), "retry", None),
        (rota.Release(0), "release", None),
        (rota.RateLimited(0.01), "block", None),
        (rota.Bury("broken"), "bury", "Bury"),
    ],
)
async def test_what_a_handler_asks_for_is_no_error_but_a_burial_is(
    server: Server, queue: rota.Queue, spans: Spans,
    signal: rota.Signal, outcome: str, error: str | None,
) -> None:  # fmt: skip
    asked: list[int] = []

    @queue.task
    async def asks() -> None:
        asked.append(1)
        if len(asked) == 1:
            raise signal

    await asks.enqueue()
    await drain(queue)
    attributes = dict(spans.all("process")[0].attributes or {})
    assert attributes["messaging.rota.outcome"] == outcome
    assert attributes.get("error.type") == error


async def test_a_batch_is_one_span_with_links_to_each_job(
    server: Server, queue: rota.Queue, spans: Spans
) -> None:
    @queue.task
    async def work(n: int) -> None: ...

    await queue.enqueue_many(work.spec(n) for n in range(3))
    await drain(queue)
    sent, created = spans.one("send"), spans.all("create")
    assert sent.kind is SpanKind.CLIENT
    assert [one.kind for one in created] == [SpanKind.PRODUCER] * 3
    assert links(sent) == [identity(one) for one in created]
    assert dict(sent.attributes or {})["messaging.batch.message_count"] == 3
    ran = spans.all("process")
    assert sorted(links(one)[0] for one in ran) == sorted(identity(one) for one in created)
    assert {dict(one.attributes or {})["messaging.message.id"] for one in ran} == {
        dict(one.attributes or {})["messaging.message.id"] for one in created
    }


async def test_a_batch_without_spans_of_its_jobs(
    server: Server, queue: rota.Queue, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_TRACE_CREATE", "0")

    @queue.task
    async def work(n: int) -> None: ...

    await asyncio.to_thread(queue.sync.enqueue_many, [work.spec(n) for n in range(3)])
    await drain(queue)
    assert spans.all("create") == []
    sent = spans.one("send")
    assert {links(one)[0] for one in spans.all("process")} == {identity(sent)}


async def test_streams_and_the_blocking_face_are_traced_too(
    server: Server, queue: rota.Queue, spans: Spans
) -> None:
    @queue.task
    async def work(n: int) -> None: ...

    assert len([one async for one in queue.enqueue_stream(work.spec(n) for n in range(2))]) == 2

    def blocking() -> None:
        work.sync.enqueue(1)
        queue.sync.enqueue(work.spec(1))
        assert len(list(queue.sync.enqueue_stream([work.spec(1)]))) == 1

    await asyncio.to_thread(blocking)
    await queue.enqueue(work.spec(1))
    kinds = [span.kind for span in spans.all("send")]
    assert kinds.count(SpanKind.CLIENT) == 2
    assert kinds.count(SpanKind.PRODUCER) == 3
    assert len(spans.all("create")) == 3
    await drain(queue)
    assert all(len(links(span)) == 1 for span in spans.all("process"))
    assert len(spans.all("process")) == 6


GIVEN = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


async def test_a_context_given_by_the_user_is_carried_as_it_is(
    server: Server, queue: rota.Queue, spans: Spans
) -> None:
    @queue.task
    async def work() -> None: ...

    await queue.enqueue(spec(task="work", trace=GIVEN))
    await drain(queue)
    assert links(spans.one("process")) == [(int("a" * 32, 16), int("b" * 16, 16))]


@pytest.mark.parametrize("trace", ["", "x", GIVEN + "\n", GIVEN.upper(), 5, b"00"])
def test_a_context_that_is_none_is_refused(trace: object) -> None:
    with pytest.raises(rota.ConfigError, match="trace: expected a W3C traceparent"):
        spec(trace=trace)


async def test_a_failing_send_is_an_error(server: Server, queue: rota.Queue, spans: Spans) -> None:
    await queue.lane("a").set(backlog=1)
    await queue.enqueue(spec())
    with pytest.raises(rota.LaneFull):
        await queue.enqueue(spec())
    with pytest.raises(rota.LaneFull):
        await queue.enqueue_many([spec(), spec()], on_full="raise")
    failed = [one for one in spans.all("send") if one.status.status_code is StatusCode.ERROR]
    assert [dict(one.attributes or {})["error.type"] for one in failed] == ["LaneFull"] * 2


async def test_without_a_provider_nothing_is_asked_of_the_api_and_nothing_travels(
    server: Server, queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API is imported here, but nobody has set up a provider: no span, no context, no call."""

    def called(*_: object, **__: object) -> None:
        raise AssertionError("OpenTelemetry was asked for something")

    for name in ("get_tracer", "get_current_span", "set_span_in_context", "use_span"):
        monkeypatch.setattr(trace, name, called)
    for name in ("_sending", "_sending_many", "processing", "end", "_tracer"):
        monkeypatch.setattr(tracing, name, called)
    ran: list[str | None] = []

    @queue.task
    async def work(n: int) -> None:
        ran.append(rota.current_job().trace)

    assert not tracing.is_on()
    await work.enqueue(0)
    await queue.enqueue_many(work.spec(n) for n in range(3))
    records = [parse_record(one) for one in _records(server, queue)]
    assert [record.header.trace for record in records] == [None] * 4
    assert not any(b"trace" in one for one in _records(server, queue))
    await drain(queue)
    assert ran == [None] * 4


def _records(server: Server, queue: rota.Queue) -> list[bytes]:
    raw = server.raw(decode=False)
    root = queue.link.keys.root
    return [raw.get(key) for key in server.keys() if key.startswith(f"{root}job:")]


def test_a_header_without_a_context_does_not_mention_it() -> None:
    assert Header("t", "l").trace is None
    assert b"trace" not in spec().body
    assert f'"trace":"{GIVEN}"'.encode() in spec(trace=GIVEN).body
