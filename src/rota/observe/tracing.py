"""Traces: spans of what is sent and what is run, by OpenTelemetry's API (extra `otel`).

Nothing is done, nor imported, unless the application has set up a tracer provider. The messaging
conventions name the spans and their attributes:

    send QUEUE      producer, around `enqueue`; its context travels in the job's header
    send QUEUE      client, around `enqueue_many` or a chunk of a stream, with a link to each of
    create QUEUE    producer, one for each of its jobs
    process QUEUE   consumer, around each run of the handler, retries included; a trace of its own
                    with a link to the span that sent the job

Environment: ROTA_TRACE_PARENT=1 makes a run the child of what sent its job, instead of a link;
ROTA_TRACE_CREATE=0 leaves out `create`: the jobs of a batch carry the context of its `send`.
A context given by the user (`JobSpec.trace`) is carried as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rota.values.endings import Ending, Failed, Stopped
from rota.values.failure import REPORT_MAX, brief, headline
from rota.values.jobspec import JobSpec
from rota.values.model import Job
from rota.values.signals import Bury, RateLimited, Release, Retry
from rota.values.telling import safely

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

SYSTEM = "rota"
MAX_LINKS = 128
"""The most links a batch's span gets: what SDKs keep."""
OUTCOMES = {
    Stopped: "cancel",
    Release: "release",
    RateLimited: "block",
    Bury: "bury",
    Retry: "retry",
}


def is_on() -> bool:
    """Whether the application has set up a tracer provider. It cannot have without an import."""
    api: Any = sys.modules.get("opentelemetry.trace")
    provider = getattr(api, "get_tracer_provider", None)  # None: it is just being imported
    if provider is not None:
        with safely:
            return not isinstance(provider(), (api.ProxyTracerProvider, api.NoOpTracerProvider))
    return False


@lru_cache(maxsize=1)
def _tracer_of(provider: TracerProvider) -> Tracer:
    return provider.get_tracer(SYSTEM)


def _tracer() -> Tracer:
    from opentelemetry import trace

    return _tracer_of(trace.get_tracer_provider())


def _switch(name: str, default: str) -> bool:
    return os.environ.get(name, default).lower() not in ("0", "false", "no", "off", "")


@contextmanager
def _span(name: str, **how: Any) -> Iterator[Span]:
    """A span that is the current one meanwhile. Where it cannot be made, one that tells nobody.

    It records an exception by itself; the conventions want its type besides."""
    from opentelemetry.trace import INVALID_SPAN

    stack = ExitStack()
    span: Span = INVALID_SPAN
    with safely:
        span = stack.enter_context(_tracer().start_as_current_span(name, **how))
    try:
        yield span
    except BaseException as error:
        with safely:
            if isinstance(error, Exception):
                span.set_attribute("error.type", type(error).__qualname__)
        with safely:
            stack.__exit__(type(error), error, error.__traceback__)
        raise
    with safely:
        stack.close()


# ── sending ─────────────────────────────────────────────────────────────────────────────────────


def sending(queue: str, spec: JobSpec) -> AbstractContextManager[JobSpec]:
    """Around the sending of one job; what it gives is the job to send."""
    return _sending(queue, spec) if is_on() else nullcontext(spec)


def sending_many(queue: str, specs: Iterable[JobSpec]) -> AbstractContextManager[Iterable[JobSpec]]:
    """Around the sending of a batch; what it gives are the jobs to send, to be read once."""
    return _sending_many(queue, specs) if is_on() else nullcontext(specs)


@contextmanager
def _sending(queue: str, spec: JobSpec) -> Iterator[JobSpec]:
    from opentelemetry.trace import SpanKind

    attributes = _of_message(queue, "send", spec)
    with _span(f"send {queue}", kind=SpanKind.PRODUCER, attributes=attributes) as span:
        yield _carrying(spec, span)


@contextmanager
def _sending_many(queue: str, specs: Iterable[JobSpec]) -> Iterator[Iterable[JobSpec]]:
    from opentelemetry.trace import SpanKind

    attributes = _of_queue(queue, "send")
    with (
        _span(f"send {queue}", kind=SpanKind.CLIENT, attributes=attributes) as span,
        closing(_created(queue, specs, span)) as created,
    ):
        yield created


def _created(queue: str, specs: Iterable[JobSpec], batch: Span) -> Generator[JobSpec, None, None]:
    """Each job with a span of its own, linked from the batch's."""
    from opentelemetry.trace import SpanKind

    count, each = 0, _switch("ROTA_TRACE_CREATE", "1")
    try:
        for spec in specs:
            count += 1
            if not each:
                yield _carrying(spec, batch)
                continue
            carrying = spec
            with safely:
                span = _tracer().start_span(
                    f"create {queue}",
                    kind=SpanKind.PRODUCER,
                    attributes=_of_message(queue, "create", spec),
                )
                carrying = _carrying(spec, span)
                span.end()
                if count <= MAX_LINKS:
                    batch.add_link(span.get_span_context())
            yield carrying
    finally:
        with safely:
            batch.set_attribute("messaging.batch.message_count", count)


def _carrying(spec: JobSpec, span: Span) -> JobSpec:
    """The job with the span's context in its header, unless the user gave one."""
    from opentelemetry.trace import INVALID_SPAN_CONTEXT

    context = INVALID_SPAN_CONTEXT
    with safely:
        context = span.get_span_context()
    if spec.trace is not None or not context.is_valid:
        return spec
    trace = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    return replace(spec, trace=trace)


# ── running ─────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def processing(queue: str, job: Job) -> Iterator[Span]:
    """Around one run of a job's handler, whose spans are its children. Tell it the `end`."""
    from opentelemetry import trace

    sender = _sender(job.trace)
    context = trace.get_current_span(sender).get_span_context()
    attributes = _of_message(queue, "process", job) | {"messaging.rota.attempt": job.attempt}
    joined = context.is_valid and _switch("ROTA_TRACE_PARENT", "0")
    with _span(
        f"process {queue}",
        context=sender if joined else _nowhere(),
        kind=trace.SpanKind.CONSUMER,
        attributes=attributes,
        links=[trace.Link(context)] if context.is_valid and not joined else [],
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield span


def end(span: Span, job: Job, ending: Ending) -> None:
    """Notes how the run ended. Only a failure is an error, not what a handler asks for."""
    with safely:
        _note_end(span, job, ending)


def _note_end(span: Span, job: Job, ending: Ending) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("messaging.rota.outcome", outcome(job, ending))
    match ending:
        case Failed():
            kind, error = ending.kind, ending.error or ""
        case Bury():
            kind, error = "Bury", ending.reason
        case _:
            return
    message = headline(error)
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR, message)
    span.add_event(
        "exception",
        {
            "exception.type": kind,
            "exception.message": message,
            "exception.stacktrace": brief(error, REPORT_MAX),
        },
    )


def outcome(job: Job, ending: Ending) -> str:
    """What becomes of the job."""
    for kind, word in OUTCOMES.items():
        if isinstance(ending, kind):
            return "bury" if kind is Retry and job.last_attempt else word
    return "complete"


def _nowhere() -> Context:
    """No parent: a worker in an application would else inherit the span it was started in."""
    from opentelemetry.context import Context

    return Context()


def _sender(trace: str | None) -> Context:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {} if trace is None else {"traceparent": trace}
    return TraceContextTextMapPropagator().extract(carrier, _nowhere())


# ── attributes ──────────────────────────────────────────────────────────────────────────────────

_Attributes = dict[str, str | int]


def _of_queue(queue: str, operation: str) -> _Attributes:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": queue,
    }


def _of_message(queue: str, operation: str, message: JobSpec | Job) -> _Attributes:
    attributes = _of_queue(queue, operation) | {
        "messaging.destination.partition.id": message.lane,
        "messaging.message.id": message.id,
        "messaging.rota.task": message.task,
    }
    if message.ordering_key is not None:
        attributes["messaging.message.conversation_id"] = message.ordering_key
    if message.priority:
        attributes["messaging.rota.priority"] = message.priority
    return attributes
