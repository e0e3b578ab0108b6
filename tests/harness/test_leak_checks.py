"""The checks that run after every test can fail: a run of careless tests, judged one by one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_CARELESS = """
import asyncio
import pytest, redis
from tests.support import catalogue

catalogue.is_known = lambda key: key.startswith("emq:")
kept = []

def visit(server):
    kept.append(redis.Redis(unix_socket_path=str(server.nodes[0].address), socket_timeout=5))
    kept[-1].ping()

def test_tidy(valkey):
    valkey.raw().set("emq:{q}:vt", "1")

def test_leaves_a_key(valkey):
    valkey.raw().set("mine", "1")

@pytest.mark.foreign_keys
def test_may_leave_a_key(valkey):
    valkey.raw().set("mine", "1")

def test_leaves_a_connection(valkey):
    visit(valkey)

@pytest.mark.keeps_connections
def test_may_leave_a_connection(valkey):
    visit(valkey)

def test_ends_the_server(valkey):
    valkey.kill()

def test_finds_it_started_again(valkey):
    assert valkey.raw().ping()

async def test_leaves_a_task():
    kept.append(asyncio.create_task(asyncio.sleep(60)))

async def test_waits_for_its_task():
    await asyncio.create_task(asyncio.sleep(0))
"""


def test_each_careless_test_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "test_careless.py").write_text(_CARELESS)
    options = ["-n0", "-p", "no:randomly", "-p", "tests.conftest"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-c", ROOT / "pyproject.toml", tmp_path],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "500"},  # pytest cuts the summary's lines to fit
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    told = dict(re.findall(r"^ERROR \S+::(\w+) - \w+: (.*)$", run.stdout, re.MULTILINE))
    assert "9 passed, 4 errors" in run.stdout, run.stdout
    assert told["test_leaves_a_key"].startswith("the test left keys the catalogue does not know")
    assert told["test_leaves_a_connection"].startswith("the test left connections")
    assert told["test_ends_the_server"].startswith("the test ended the shared valkey server")
    assert told["test_leaves_a_task"].startswith("the test left tasks running")
