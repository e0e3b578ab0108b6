"""Ids differ, sort by time, and are not those of a parent process."""

from __future__ import annotations

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor

from rota.values.ids import new_id


def test_an_id_is_its_time_and_random_digits() -> None:
    first = new_id()
    assert re.fullmatch(r"[0-9a-f]{26}", first)
    assert abs(int(first[:11], 16) - time.time_ns() // 1_000_000) < 60_000


def test_ids_of_threads_differ() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: [new_id() for _ in range(1000)], range(16)))
    random = {id[11:] for some in made for id in some}
    assert len(random) == 16_000


def test_a_forked_child_makes_ids_of_its_own() -> None:
    new_id()  # some are left for the next
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, "".join(new_id()[11:] for _ in range(300)).encode())
        os._exit(0)
    os.close(write)
    mine = {new_id()[11:] for _ in range(300)}
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    theirs = {text[i : i + 15] for i in range(0, len(text), 15)}
    assert len(mine) == len(theirs) == 300
    assert mine.isdisjoint(theirs)
