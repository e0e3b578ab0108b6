"""Metrics as Prometheus reads them: from a worker's port, and from the exporter of queues."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

import rota
from rota.health import Check, Health
from rota.metrics import (
    CATALOGUE,
    Endpoint,
    collector,
    exposition,
    worker_collector,
)
from rota.metrics import queues as queue_metrics
from rota.metrics.catalogue import OF_QUEUES, OF_WORKERS
from rota.worker import Worker
from tests.conftest import PrivateServer
from tests.support.queues import open_queue, specs
from tests.support.servers import Server
from tests.support.times import IN_TIME, LEASE, SHORT_BEAT
from tests.support.waiting import eventually, eventually_async

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(server, queue_name, beat=SHORT_BEAT) as queue:
        yield queue


@contextmanager
def exporting(
    *queues: rota.Queue, top: int = 0, patience: float = 20
) -> Iterator[queue_metrics.QueueCollector]:
    source = collector(*queues, top=top, patience=patience)
    try:
        yield source
    finally:
        source.close()


def read(text: str) -> Series:
    """Samples by name and labels, the label `queue` left out; checks that they are declared."""
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "queue"}
            key = (sample.name, tuple(sorted(labels.items())))
            assert key not in found, f"{key} comes twice"
            found[key] = sample.value
    return found


def value(series: Series, name: str, **labels: str) -> float:
    key = name, tuple(sorted(labels.items()))
    assert key in series
    return series[key]


def scrape(url: str, accept: str = "") -> tuple[int, str, str]:
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    try:
        with urllib.request.urlopen(request, timeout=IN_TIME) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


@asynccontextmanager
async def working(queue: rota.Queue, **settings: int) -> AsyncIterator[tuple[Worker, str]]:
    """A worker and the URL of its port."""
    worker = Worker(queue, lease=LEASE, grace=1, **settings)
    with Endpoint(worker_collector(worker), worker.health) as endpoint:
        async with worker:
            yield worker, endpoint.url


def well() -> Health:
    return Health((Check("all", True),))


# ── a worker ────────────────────────────────────────────────────────────────────────────────────


async def test_a_worker_counts_its_jobs_by_task_and_outcome(
    server: Server, queue: rota.Queue
) -> None:
    @queue.task
    async def fine(n: int) -> None: ...

    @queue.task(max_attempts=2, backoff=rota.Backoff(base=0.01))
    def broken(n: int) -> None:
        raise ValueError(n)

    @queue.task
    async def picky(n: int) -> None:
        if rota.current_job().attempt == 1 and n == 0:
            raise rota.RateLimited(0.01)
        raise rota.Bury("no")

    await queue.enqueue_many(fine.spec(n) for n in range(20))
    await queue.enqueue_many(broken.spec(n) for n in range(3))
    await queue.enqueue(picky.spec(1))
    async with working(queue, concurrency=7) as (_, url):

        async def drained() -> Series:
            status, content_type, text = await asyncio.to_thread(scrape, f"{url}/metrics")
            assert status == 200
            assert content_type.startswith("text/plain")
            series = read(text)
            assert value(series, "rota_jobs_settled_total", task="broken", outcome="buried") == 3
            assert value(series, "rota_jobs_settled_total", task="fine", outcome="completed") == 20
            return series

        series = await eventually_async(drained, "the jobs are not counted")
        settled = {labels: n for (name, labels), n in series.items() if "settled" in name}
        assert settled == {
            (("outcome", "completed"), ("task", "fine")): 20,
            (("outcome", "retried"), ("task", "broken")): 3,
            (("outcome", "buried"), ("task", "broken")): 3,
            (("outcome", "buried"), ("task", "picky")): 1,
        }
        assert value(series, "rota_job_run_seconds_count", task="broken") == 6
        assert value(series, "rota_job_attempts_sum", task="broken") == 6
        assert value(series, "rota_job_attempts_count", task="broken") == 3
        assert value(series, "rota_job_wait_seconds_count") == 24
        assert value(series, "rota_worker_slots") == 7
        assert value(series, "rota_worker_busy") == 0
        assert value(series, "rota_worker_ready") == 1
        assert value(series, "rota_redis_seconds_count", script="exchange") > 0
        assert value(series, "rota_redis_seconds_count", script="settle") > 0
        buckets = [
            (float(dict(labels)["le"]), n)
            for (name, labels), n in series.items()
            if name == "rota_job_run_seconds_bucket" and dict(labels)["task"] == "fine"
        ]
        assert [n for _, n in sorted(buckets)] == sorted(n for _, n in buckets)
        assert dict(buckets)[float("inf")] == 20


@pytest.mark.usefixtures("quick_renewals")
async def test_a_worker_tells_why_it_woke_and_keeps_its_lease(
    server: Server, queue: rota.Queue
) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @queue.task
    async def wait() -> None:
        started.set()
        await go.wait()

    async with working(queue) as (_, url):

        async def parked() -> bool:
            return value(await series(), "rota_doorbell_wakeups_total", cause="beat") >= 1

        async def series() -> Series:
            return read((await asyncio.to_thread(scrape, f"{url}/metrics"))[2])

        await eventually_async(parked, "the beat never came")
        await wait.enqueue()
        await started.wait()
        assert value(await series(), "rota_worker_busy") == 1
        go.set()

        async def renewed() -> bool:
            found = await series()
            assert value(found, "rota_doorbell_wakeups_total", cause="token") >= 1
            assert value(found, "rota_redis_seconds_count", script="heartbeat") >= 1
            assert value(found, "rota_redis_seconds_count", script="beat") >= 1
            assert value(found, "rota_leases_lost_total") == 0
            assert value(found, "rota_redis_errors_total", part="doorbell") == 0
            return value(found, "rota_lease_renewals_total") >= 1

        await eventually_async(renewed, "the lease was not renewed")


@pytest.mark.usefixtures("quick_renewals")
async def test_a_lost_lease_and_a_broken_server_are_counted(
    private_server: PrivateServer, queue_name: str
) -> None:
    server = private_server()
    async with open_queue(server, queue_name) as queue, working(queue) as (_, url):

        def errors() -> Series:
            return read(scrape(f"{url}/metrics")[2])

        [consumer] = await queue.consumers()
        await queue.evict(consumer.id)

        async def lost() -> bool:
            return value(await asyncio.to_thread(errors), "rota_leases_lost_total") == 1

        await eventually_async(lost, "the lost lease is not counted")
        server.kill()

        async def failing() -> bool:
            series = await asyncio.to_thread(errors)
            parts = ("doorbell", "lease")
            return all(value(series, "rota_redis_errors_total", part=part) > 0 for part in parts)

        await eventually_async(failing, "the outage is not counted")
        server.restart()


async def test_counting_begins_when_it_is_asked_for(server: Server, queue: rota.Queue) -> None:
    @queue.task
    async def work(n: int = 0) -> None: ...

    async with Worker(queue, lease=LEASE) as worker:
        await work.enqueue()

        async def done() -> bool:
            return (await queue.info()).totals.get("completed", 0) >= 1

        await eventually_async(done, "the job does not run")
        source = worker_collector(worker)
        await work.enqueue()

        def counted() -> bool:
            series = read(exposition(source))
            key = (("outcome", "completed"), ("task", "work"))
            return series.get(("rota_jobs_settled_total", key)) == 1

        await eventually_async(counted, "the second job is not counted, or the first is")


# ── the exporter ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_the_exporter_tells_what_the_queue_says(server: Server, queue: rota.Queue) -> None:
    await queue.enqueue_many(specs(5, "a") + specs(2, "b") + specs(1, "c", delay_ms=60_000))
    await queue.lane("b").pause()
    await queue.set(ceiling=9)
    with exporting(queue) as source:
        series = read(await asyncio.to_thread(exposition, source))
        assert value(series, "rota_queue_up") == 1
        jobs = {state: value(series, "rota_queue_jobs", state=state) for state in STATES}
        assert jobs == {"waiting": 7, "running": 0, "delayed": 1, "dead": 0}
        assert value(series, "rota_queue_events_total", event="enqueued") == 8
        assert value(series, "rota_queue_ceiling") == 9
        assert value(series, "rota_queue_consumers") == 0
        assert value(series, "rota_queue_unattended") == 1
        lanes = [value(series, f"rota_queue_lanes_{what}") for what in WHAT]
        assert lanes == [2, 1, 1]
        assert value(series, "rota_lanes", state="ready") == 1
        assert value(series, "rota_lanes", state="paused") == 1
        async with queue.consumer():
            series = read(await asyncio.to_thread(exposition, source))
            assert value(series, "rota_queue_consumers") == 1
            assert value(series, "rota_queue_unattended") == 0
        await queue.pause()
        series = read(await asyncio.to_thread(exposition, source))
        assert value(series, "rota_queue_paused") == 1
        assert value(series, "rota_queue_unattended") == 0, "it is paused: nobody is missed"


STATES = ("waiting", "running", "delayed", "dead")
WHAT = ("waiting", "ready", "paused")


async def test_the_number_of_series_does_not_depend_on_lanes(
    server: Server, queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_metrics, "CENSUS_EVERY_S", 0.0)
    monkeypatch.setattr(queue_metrics, "CENSUS_PART", 0)
    numbers = {}
    with exporting(queue, top=10) as source:
        for lanes in (11, 1000):
            await queue.enqueue_many(s for n in range(lanes) for s in specs(1, f"t{n:04}"))
            series = read(await asyncio.to_thread(exposition, source))
            numbers[lanes] = len(series)
            waiting = {dict(k)["rank"]: n for (name, k), n in series.items() if name == TOP}
            assert len(waiting) == 11
            assert sum(waiting.values()) == value(series, "rota_queue_jobs", state="waiting")
        assert value(series, "rota_lanes", state="ready") == 1000
    assert numbers[11] == numbers[1000] < 80


TOP = "rota_top_lane_waiting"


async def test_the_lanes_that_wait_longest_are_named_on_request(
    server: Server, queue: rota.Queue
) -> None:
    hostile = 'a"b\\c other'
    for name in (hostile, "second", "third", "fourth"):
        await queue.enqueue_many(specs(2, name))
        await asyncio.sleep(0.01)  # what is told apart is milliseconds of the server
    with exporting(queue, top=2) as source:
        series = read(await asyncio.to_thread(exposition, source))
    names = {dict(k)["rank"]: dict(k)["lane"] for name, k in series if name == TOP}
    assert names == {"1": hostile, "2": "second", "other": ""}
    assert value(series, TOP, rank="other", lane="") == 4
    oldest = value(series, "rota_queue_oldest_wait_seconds")
    assert oldest == value(series, "rota_lane_wait_max_seconds")
    assert oldest >= value(series, "rota_top_lane_oldest_wait_seconds", rank="other", lane="") > 0
    with exporting(queue) as source:
        series = read(await asyncio.to_thread(exposition, source))
    assert not [name for name, labels in series if "lane" in dict(labels)]


async def test_a_census_that_takes_long_is_not_waited_for(
    server: Server, queue: rota.Queue
) -> None:
    await queue.enqueue_many(specs(3))
    with exporting(queue, patience=0) as source:
        first = read(await asyncio.to_thread(exposition, source))
        assert value(first, "rota_queue_jobs", state="waiting") == 3

        def counted() -> bool:
            return ("rota_census_age_seconds", ()) in read(exposition(source))

        assert await asyncio.to_thread(eventually, counted, "the census never comes")


async def test_the_index_is_that_of_the_shares(
    server: Server, queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lanes count from when they have waited all through the window: a minute is too long here."""
    from rota.store import census

    monkeypatch.setattr(census, "part_kept_waiting", lambda lane: 1 if lane.in_ring else 0)
    await queue.enqueue_many(specs(30, "a") + specs(30, "b"))
    await queue.lane("a").set(weight=3)
    async with queue.consumer() as consumer:
        await consumer.complete(await consumer.claim(16))
    found = await queue.census()
    assert found.lanes["ready"] == 2
    assert found.index is not None
    assert found.least is not None
    assert found.index > 0.97
    assert 0.7 < found.least <= 1 <= (found.most or 0) < 1.3


async def test_a_server_that_is_gone_is_told_within_seconds(
    private_server: PrivateServer, queue_name: str
) -> None:
    server = private_server()
    async with open_queue(server, queue_name) as queue:
        with (
            exporting(queue) as source,
            Endpoint(source, source.health) as endpoint,
        ):
            status, _, text = await asyncio.to_thread(scrape, f"{endpoint.url}/readyz")
            assert (status, '"ok": true' in text) == (200, True)
            server.kill()
            status, _, text = await asyncio.to_thread(scrape, f"{endpoint.url}/metrics")
            assert status == 200
            assert read(text) == {("rota_queue_up", ()): 0}
            assert (await asyncio.to_thread(scrape, f"{endpoint.url}/readyz"))[0] == 503
            assert (await asyncio.to_thread(scrape, f"{endpoint.url}/healthz"))[0] == 200
            server.restart()
            series = read((await asyncio.to_thread(scrape, f"{endpoint.url}/metrics"))[2])
            assert value(series, "rota_queue_up") == 1


def test_several_queues_and_what_is_refused(server: Server, queue_name: str) -> None:
    one, same = (rota.Queue(queue_name, url=server.url) for _ in range(2))
    other = rota.Queue(queue_name, url=server.url, prefix="other")
    third = rota.Queue(f"{queue_name}-3", url=server.url)
    with exporting(one, other, third) as source:
        families = text_string_to_metric_families(exposition(source))
        up = next(family for family in families if family.name == "rota_queue_up")
        labels = [sample.labels["queue"] for sample in up.samples]
        assert labels == [one.link.keys.root, other.link.keys.root, third.name]
    with pytest.raises(rota.ConfigError, match="expected each queue once"):
        collector(one, same)
    with pytest.raises(rota.ConfigError, match=r"expected a rota\.Queue or several"):
        collector()
    with pytest.raises(rota.ConfigError, match="top: expected a whole number from 0 to 100"):
        collector(one, top=101)


# ── the port ────────────────────────────────────────────────────────────────────────────────────


def names(metrics: Iterable[object]) -> set[str]:
    return {str(getattr(metric, "name", metric)).removesuffix("_total") for metric in metrics}


def test_what_is_described_is_the_catalogue(server: Server, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=server.url)
    with exporting(queue) as source:
        assert names(source.describe()) == names(OF_QUEUES)
    assert names(worker_collector(Worker(queue)).describe()) == names(OF_WORKERS)
    assert len({metric.name for metric in CATALOGUE}) == len(CATALOGUE)
    for metric in CATALOGUE:
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.text[0].isupper() or metric.text[0].isdigit()


def test_the_port_answers_what_it_is_asked(server: Server, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=server.url)
    sick = Health((Check("engine", True, vital=True), Check("wheel", False, "it <came> off")))
    dead = Health((Check("engine", False, "", vital=True),))
    state = [well()]
    with exporting(queue) as source, Endpoint(source, lambda: state[0]) as endpoint:
        assert scrape(f"{endpoint.url}/nothing")[0] == 404
        assert scrape(f"{endpoint.url}/")[0] == 200
        assert scrape(f"{endpoint.url}/healthz?verbose")[0] == 200
        _, kind, text = scrape(f"{endpoint.url}/metrics", "application/openmetrics-text")
        assert kind.startswith("application/openmetrics-text")
        assert text.endswith("# EOF\n")
        state[0] = sick
        assert scrape(f"{endpoint.url}/healthz")[0] == 200
        status, kind, text = scrape(f"{endpoint.url}/readyz")
        assert (status, kind) == (503, "application/json")
        assert '"name": "wheel", "ok": false, "text": "it <came> off"' in text
        state[0] = dead
        assert scrape(f"{endpoint.url}/healthz")[0] == 503
        request = urllib.request.Request(f"{endpoint.url}/metrics", data=b"x", method="POST")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=IN_TIME)
        assert refused.value.code == 501
        refused.value.close()
        port = int(endpoint.url.rpartition(":")[2])
        with pytest.raises(rota.ConfigError, match=rf"cannot serve metrics on 127\.0\.0\.1:{port}"):
            Endpoint(source, well, port=port).open()
    with pytest.raises(urllib.error.URLError):
        scrape(f"{endpoint.url}/healthz")
