"""`rota web` and `rota dev`, as processes."""

from __future__ import annotations

import re
import signal
import urllib.error
import urllib.request
from base64 import b64encode

import pytest

from rota.queue import Queue
from tests.process.conftest import Here
from tests.process.programs import Program, Programs
from tests.support.queues import spec
from tests.support.times import PATIENCE
from tests.support.waiting import eventually


def address_of(program: Program, says: str) -> str:
    program.says(says)
    found = re.search(r"http://\S+", program.errors)
    assert found
    return found[0]


def fetch(address: str, user: str | None = None, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(address, headers=headers)
    if user is not None:
        request.add_header("Authorization", f"Basic {b64encode(user.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_web_serves_a_dashboard_until_it_is_stopped(rota: Programs, queue: Queue) -> None:
    queue.sync.enqueue(spec("acme"))
    web = rota.start("web", queue.name, "--port", "0")
    address = address_of(web, "rota web:")
    assert address.startswith("http://127.0.0.1:")
    status, text = fetch(f"{address}q/{queue.name}/lanes?order=all")
    assert status == 200
    assert "acme" in text
    assert fetch(f"{address}healthz") == (200, "ok\n")
    assert fetch(f"{address}readyz") == (200, "ok\n")
    assert "rota_queue_up" in fetch(f"{address}metrics")[1]
    web.signal(signal.SIGTERM)
    assert web.wait() == 0


def test_web_asks_for_the_password_of_the_environment(rota: Programs, queue: Queue) -> None:
    web = rota.start(
        "web", queue.name, "--port", "0", ROTA_WEB_USER="ops", ROTA_WEB_PASSWORD="s3cret"
    )
    page = address_of(web, "rota web:") + f"q/{queue.name}/"
    assert fetch(page)[0] == 401
    assert fetch(page, "ops:wrong")[0] == 401
    assert fetch(page, "ops:s3cret")[0] == 200


def test_web_through_a_proxy_of_the_machine_is_read_only(rota: Programs, queue: Queue) -> None:
    queue.sync.enqueue(spec("acme"))
    web = rota.start("web", queue.name, "--port", "0", "--root-path", "/jobs")
    address = address_of(web, "rota web:")
    page = f"{address}q/{queue.name}/lane?name=acme"
    assert "do/lane.pause" in fetch(page)[1]
    status, text = fetch(page, **{"X-Forwarded-For": "203.0.113.9"})
    assert status == 200
    assert "do/lane.pause" not in text
    assert 'href="/jobs/static/' in text


def test_web_believes_the_proxies_and_names_it_was_told(rota: Programs, queue: Queue) -> None:
    words = ("web", queue.name, "--port", "0", "--trusted-host", "queue.example")
    web = rota.start(*words, ROTA_WEB_TRUSTED_PROXY="127.0.0.1 ::1", FORWARDED_ALLOW_IPS="*")
    page = address_of(web, "rota web:") + f"q/{queue.name}/"
    said = {"X-Forwarded-For": "127.0.0.1, 203.0.113.9"}
    assert "You are 203.0.113.9." in fetch(page, Host="queue.example", **said)[1]
    assert fetch(page, Host="evil.test", **said)[0] == 403


def test_web_believes_no_proxy_untold(rota: Programs, queue: Queue) -> None:
    web = rota.start("web", queue.name, "--port", "0", FORWARDED_ALLOW_IPS="*")
    page = address_of(web, "rota web:") + f"q/{queue.name}/"
    for name in ("X-Forwarded-For", "X-Real-IP", "Forwarded"):
        assert "You are 127.0.0.1." in fetch(page, **{name: "203.0.113.9"})[1]
        assert fetch(page, Host="evil.test", **{name: "127.0.0.1"})[0] == 403


@pytest.mark.parametrize(
    ("words", "env", "said"),
    [
        (["--port", "70000"], {}, "port: expected"),
        (["--trusted-host", "http://x"], {}, "trusted_hosts: expected"),
        (["--trusted-proxy", "10.0.0.1/8"], {}, "trusted_proxies: expected"),
        (["--port", "0"], {"ROTA_WEB_USER": "ops"}, "ROTA_WEB_PASSWORD together"),
        (["--host", "203.0.113.77", "--port", "0"], {}, "cannot listen on 203.0.113.77"),
    ],
)
def test_web_says_what_is_wrong(
    here: Here,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    env: dict[str, str],
    said: str,
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    code, _, error = here("web", "orders", *words)
    assert code == 2
    assert said in error


def test_web_says_what_to_install(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    code, _, error = here("web", "orders")
    assert code == 2
    assert "pip install 'rota[web]'" in error


APP = """
@queue.task
async def work(n: int) -> None:
    note("{word}", n)
"""


def test_dev_runs_a_worker_that_follows_the_code(rota: Programs, queue: Queue) -> None:
    rota.module(APP.format(word="before"))
    dev = rota.start("dev", "app:queue", "--port", "0")
    address = address_of(dev, "rota.worker: working")
    queue.sync.enqueue(spec(payload=b"[1]"))
    eventually(lambda: said(rota) == ["before"], "the job does not run", timeout=PATIENCE)
    assert fetch(f"{address}q/{queue.name}/workers")[0] == 200

    rota.module("this is no Python")
    dev.says("the worker has ended; it starts again when the code changes")
    rota.module(APP.format(word="after"))
    queue.sync.enqueue(spec(payload=b"[2]"))
    eventually(lambda: said(rota) == ["before", "after"], "it does not follow", timeout=PATIENCE)
    dev.signal(signal.SIGINT)
    assert dev.wait() == 0
    assert queue.sync.consumers() == []


def said(rota: Programs) -> list[str]:
    return [line[2] for line in rota.notes()]


def test_dev_takes_its_worker_with_it_when_killed(rota: Programs, queue: Queue) -> None:
    rota.module(APP.format(word="x"))
    dev = rota.start("dev", "app:queue", "--port", "0")
    dev.says("rota.worker: working")
    assert len(queue.sync.consumers()) == 1
    dev.signal(signal.SIGKILL)
    dev.wait()
    eventually(lambda: queue.sync.consumers() == [], "the worker goes on", timeout=PATIENCE)


def test_dev_says_what_is_wrong_with_the_module(here: Here, rota: Programs) -> None:
    rota.write("broken.py", "import rota\nqueue = rota.Queue(")
    code, _, error = here("dev", "broken:queue", "--port", "0")
    assert code == 2
    assert "importing module 'broken' failed" in error
