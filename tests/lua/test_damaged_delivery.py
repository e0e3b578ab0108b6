"""exchange.lua: a delivery in the consumer's hash whose score cannot be read harms no other job."""

from __future__ import annotations

import pytest

from tests.lua.conftest import Desk


@pytest.mark.parametrize("ran", [None, 2.0], ids=["by cost", "by time"])
@pytest.mark.parametrize("key", [None, "k"], ids=["alone", "of a sequence"])
def test_it_is_done_with_the_others(desk: Desk, key: str | None, ran: float | None) -> None:
    desk.add("damaged", lane="a", **({"key": key} if key else {}))
    desk.add("sound", lane="b", key="k")
    desk.claim(2)
    hash = desk.key("consumer", "c")
    text = desk.raw.hget(hash, "damaged")
    assert isinstance(text, str)
    delivery, _, rest = text.split(",", 2)
    desk.raw.hset(hash, "damaged", f"{delivery},?,{rest}")
    done = [("damaged", delivery), ("sound", delivery)]
    answer = desk.run(
        desk.store.exchange(
            "c", number=9, want=0, prefetch=1, park=False, done=done, ran=[ran, None]
        )
    )
    assert answer.answers == ["ok", "ok"]
    assert desk.dump().deliveries("c") == {}
    assert "gactive" not in desk.dump().types
    assert desk.dump().counts("stats")["completed"] == 2
    desk.raw.hdel(desk.key("held"), "1:a:k")  # the doctor's: nobody could tell whose it was
    desk.clean()
