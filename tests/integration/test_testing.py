"""rota.testing, used as a user's test suite uses it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import rota
from rota.testing import drain, drain_sync, embedded_server, rota_url

__all__ = ["rota_url"]

ROOT = Path(__file__).parents[2]


def a_queue(url: str | None = None) -> rota.Queue:
    return rota.Queue("orders", url=url)


async def test_drain_runs_all_that_may_run_now_and_leaves_the_rest(rota_url: str) -> None:
    queue = a_queue(rota_url)
    ran: list[int] = []

    @queue.task
    async def pay(order: int) -> None:
        ran.append(order)

    await queue.enqueue_many(pay.spec(n) for n in range(250))
    await pay.options(delay=60).enqueue(1000)
    await queue.lane("later").pause()
    await pay.options(lane="later").enqueue(1001)

    assert await drain(queue) == rota.Drained(done=250, retried=0, dead=0, left=2)
    assert sorted(ran) == list(range(250))


async def test_drain_runs_what_the_jobs_themselves_enqueue(rota_url: str) -> None:
    queue = a_queue(rota_url)

    @queue.task
    async def count_down(n: int) -> None:
        if n:
            await count_down.enqueue(n - 1)

    await count_down.enqueue(5)
    assert (await drain(queue)).done == 6


async def test_drain_lets_lifespans_end(rota_url: str) -> None:
    """It has no grace for jobs, and nobody told it to stop."""
    queue, seen = a_queue(rota_url), []

    @queue.lifespan
    async def resources() -> AsyncIterator[None]:
        yield
        await asyncio.sleep(0.02)
        seen.append("closed")

    await drain(queue)
    assert seen == ["closed"]


async def test_drain_keeps_the_order_of_a_sequence(rota_url: str) -> None:
    queue = a_queue(rota_url)
    ran: list[int] = []

    @queue.task
    async def step(n: int) -> None:
        await asyncio.sleep(0.01 if n % 2 else 0)
        ran.append(n)

    await queue.enqueue_many(step.options(ordering_key="o").spec(n) for n in range(30))
    assert (await drain(queue)).done == 30
    assert ran == list(range(30))


async def test_drain_counts_failures(rota_url: str) -> None:
    queue = a_queue(rota_url)

    @queue.task(max_attempts=1)
    async def once() -> None:
        raise RuntimeError("no")

    @queue.task(max_attempts=2, backoff=rota.Backoff(base=60))
    async def again() -> None:
        raise RuntimeError("not yet")

    await once.enqueue()
    await again.enqueue()
    assert await drain(queue) == rota.Drained(done=0, retried=1, dead=1, left=1)


async def test_drain_takes_several_queues(rota_url: str) -> None:
    queues = [rota.Queue(name, url=rota_url) for name in ("a", "b")]
    for queue in queues:

        @queue.task
        async def nothing() -> None: ...

        await nothing.enqueue()
    assert (await drain(queues)).done == 2


async def test_drain_gives_up_in_time_and_gives_back_what_it_had(rota_url: str) -> None:
    queue = a_queue(rota_url)
    started, cancelled = list[int](), list[int]()

    @queue.task
    async def forever() -> None:
        started.append(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    await queue.enqueue_many(forever.spec() for _ in range(3))
    with pytest.raises(TimeoutError, match=r"not done within 0.5 s; .*orders: 3"):
        await drain(queue, timeout=0.5, concurrency=2)
    assert len(cancelled) == len(started) <= 2
    info = await queue.info()
    assert (info.waiting, info.running, info.consumers) == (3, 0, 0)


async def test_a_timeout_error_of_a_handler_is_that_job_s_own_failure(rota_url: str) -> None:
    queue = a_queue(rota_url)

    @queue.task(max_attempts=1)
    async def late() -> None:
        raise TimeoutError("upstream")

    await late.enqueue()
    assert (await drain(queue)).dead == 1


def test_drain_sync_needs_no_event_loop(rota_url: str) -> None:
    queue = a_queue(rota_url)
    threads: list[str] = []

    @queue.task
    def plain(n: int) -> None:
        threads.append(threading.current_thread().name)

    for round in (1, 2):
        queue.sync.enqueue_many(plain.spec(n) for n in range(20))
        assert drain_sync(queue) == rota.Drained(done=20, retried=0, dead=0, left=0)
        assert len(threads) == 20 * round
    queue.sync.close()


async def test_drain_sync_says_what_to_use_in_a_loop(rota_url: str) -> None:
    with pytest.raises(RuntimeError, match=r"await drain\(queue\)"):
        drain_sync(a_queue(rota_url))


@pytest.mark.parametrize("timeout", [-1, float("nan"), "5", True])
async def test_drain_refuses_an_absurd_timeout(rota_url: str, timeout: object) -> None:
    with pytest.raises(rota.ConfigError, match="timeout"):
        await drain(a_queue(rota_url), timeout=timeout)  # type: ignore[arg-type]


def test_rota_url_is_that_of_queues_without_one(rota_url: str) -> None:
    assert os.environ["ROTA_URL"] == rota_url
    queue = a_queue()
    queue.sync.enqueue(rota.JobSpec(task="any"))
    other = a_queue(rota_url)
    assert other.sync.info().waiting == 1
    queue.sync.close()
    other.sync.close()


def test_embedded_server_ends_with_its_block_though_a_client_is_open() -> None:
    with embedded_server() as url, embedded_server() as other:
        assert url != other
        queue, elsewhere = a_queue(url), a_queue(other)
        queue.sync.enqueue(rota.JobSpec(task="any"))
        assert (queue.sync.info().waiting, elsewhere.sync.info().waiting) == (1, 0)
        socket = Path(url.removeprefix("unix://"))
        assert socket.exists()
    assert not socket.exists()
    assert not socket.parent.exists()
    queue.sync.close()
    elsewhere.sync.close()


SUITE = """
import os
from pathlib import Path
import pytest
import rota
from rota.testing import drain_sync

queue = rota.Queue("module")  # made at import, used by every test

@queue.task
def job() -> None: ...

@pytest.mark.parametrize("round", range(3))
def test_each_begins_empty(rota_url, round):
    assert queue.sync.info().waiting == 0
    job.sync.enqueue()
    job.sync.enqueue()
    assert queue.sync.info().waiting == 2
    if round == 1:
        assert drain_sync(queue).done == 2
    Path("urls").open("a").write(rota_url + "\\n")

def test_the_environment_is_put_back():
    assert "ROTA_URL" not in os.environ
"""


def test_a_suite_with_a_queue_made_at_import(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        'from rota.testing import rota_url\n\n__all__ = ["rota_url"]\n'
    )
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:valkey", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "4 passed" in run.stdout
    urls = set((tmp_path / "urls").read_text().splitlines())
    assert len(urls) == 1, "the URL changed between tests"
    assert not Path(urls.pop().removeprefix("unix://")).parent.exists(), "the server was left"


def test_it_works_without_pytest() -> None:
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "import rota.testing\n"
        "print(hasattr(rota.testing, 'rota_url'), rota.testing.drain_sync.__name__)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert run.stdout.split() == ["False", "drain_sync"], run.stderr
