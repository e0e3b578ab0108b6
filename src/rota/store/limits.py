"""What lanes and the queue may do: ceilings, weights, backlogs, pauses, blocks, the gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from rota import config, names, scripts
from rota.errors import ConfigError
from rota.keys import Keys
from rota.names import shown
from rota.scripting import Operation, together
from rota.timing import instant, milliseconds, seconds

PAGE = 200
SWEEP_PAGE = 100
SWEEP_PAGES = 100
"""How far a change carries a new default itself; any beat carries it on."""
MAX_NOTE_BYTES = 1000

_to_json = msgspec.json.Encoder().encode


class Unset:
    """The type of `UNSET`: a limit that stays as it is."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()


class Limits:
    """The part of the store that changes lanes and the queue."""

    keys: Keys

    def lane_set(
        self,
        lane: str,
        *,
        ceiling: int | Unset | None = UNSET,
        weight: float | Unset | None = UNSET,
        backlog: int | Unset | None = UNSET,
    ) -> Operation[None]:
        """Changes a lane's limits; what is UNSET stays, None removes a setting."""
        yield from scripts.lane_set(
            self.keys,
            lane=lane,
            ceiling=_setting(ceiling, config.ceiling),
            weight=_setting(weight, config.weight),
            backlog=_setting(backlog, config.backlog),
        )

    def pause(
        self,
        lane: str,
        *,
        reason: str | None,
        by: str | None,
        until: datetime | float | None,
    ) -> Operation[None]:
        until_ms = -1 if until is None else instant(until, "until")
        yield from scripts.pause(self.keys, lane=lane, until_ms=until_ms, why=_why(reason, by))

    def resume(self, lane: str) -> Operation[bool]:
        return bool((yield from scripts.resume(self.keys, lane=lane)))

    def block(
        self, lane: str, delay: float | timedelta, *, reason: str | None, by: str | None
    ) -> Operation[None]:
        """Keeps the lane out of the ring for a time; only ever extends. 0 blocks nothing."""
        ms, why = milliseconds(seconds(delay, "delay")), _why(reason, by)
        if ms > 0:
            yield from scripts.block(self.keys, lane=lane, ms=ms, why=why)

    def unblock(self, lane: str) -> Operation[bool]:
        return bool((yield from scripts.unblock(self.keys, lane=lane)))

    def queue_set(
        self,
        *,
        default_ceiling: int | Unset | None = UNSET,
        dead_max: int | Unset | None = UNSET,
        dead_age: float | timedelta | Unset | None = UNSET,
    ) -> Operation[None]:
        """Changes what holds for the queue, and carries it out as far as a few pages go."""
        yield from self._set_queue(
            default_ceiling=_setting(default_ceiling, config.ceiling),
            dead_max=_setting(dead_max, config.dead_max),
            dead_age=_setting(dead_age, config.dead_age),
        )
        for _ in range(SWEEP_PAGES):
            more, _, _ = yield from scripts.beat(self.keys, limit=SWEEP_PAGE, watched_ms=-1)
            if not more:
                return

    def set_lanes(self, limits: Mapping[str, Mapping[str, Any]]) -> Operation[None]:
        """Changes many lanes, lane → the keywords of `lane_set`; all are checked first."""
        calls = []
        for lane, given in _mapping(limits, "set_lanes").items():
            unknown = _mapping(given, f"lane {shown(lane)}").keys() - {
                "ceiling",
                "weight",
                "backlog",
            }
            if unknown:
                raise ConfigError(
                    f"lane {shown(lane)}: expected ceiling, weight or backlog, "
                    f"given {shown(sorted(map(str, unknown)))}"
                )
            calls.append(
                scripts.lane_set(
                    self.keys,
                    lane=names.lane_name(lane),
                    ceiling=_setting(given.get("ceiling", UNSET), config.ceiling),
                    weight=_setting(given.get("weight", UNSET), config.weight),
                    backlog=_setting(given.get("backlog", UNSET), config.backlog),
                )
            )
        for start in range(0, len(calls), PAGE):
            yield from together(calls[start : start + PAGE])

    def purge(self, lane: str) -> Operation[int]:
        """Deletes what waits and what is delayed in the lane, in pages."""
        total, more = 0, True
        while more:
            more, purged = yield from scripts.purge(self.keys, lane=lane, limit=PAGE)
            total += purged
        return total

    def purge_queue(self) -> Operation[int]:
        """Deletes what waits in every lane; lanes that get work meanwhile may keep it."""
        total, cursor = 0, ""
        while True:
            cursor, lanes = yield from scripts.lanes_page(self.keys, cursor=cursor, limit=PAGE)
            for lane in lanes:
                total += yield from self.purge(lane.name)
            if not cursor:
                return total

    def shut_gate(self, *, reason: str | None, by: str | None) -> Operation[None]:
        yield from self._set_queue(paused=_why(reason, by))

    def open_gate(self) -> Operation[None]:
        yield from self._set_queue(paused="-")

    def _set_queue(
        self, *, default_ceiling: str = "", dead_max: str = "", dead_age: str = "", paused: str = ""
    ) -> Operation[None]:
        yield from scripts.queue_set(
            self.keys,
            default_ceiling=default_ceiling,
            dead_max=dead_max,
            dead_age=dead_age,
            paused=paused,
        )


def _setting(
    value: float | timedelta | Unset | None, check: Callable[[object], float | int | None]
) -> str:
    """How a script is told of a limit: '' unchanged, '-' removed, else its value."""
    if isinstance(value, Unset):
        return ""
    checked = check(value)
    return "-" if checked is None else repr(checked)


def _why(reason: str | None, by: str | None) -> str:
    note = {"reason": _note(reason, "reason"), "by": _note(by, "by")}
    return _to_json(note).decode()


def _note(text: object, name: str) -> str | None:
    if text is None:
        return None
    if isinstance(text, str) and len(text.encode(errors="replace")) <= MAX_NOTE_BYTES:
        return text.encode(errors="replace").decode()
    raise ConfigError(
        f"{name}: expected text of at most {MAX_NOTE_BYTES} bytes, given {shown(text)}"
    )


def _mapping(value: object, what: str) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    raise ConfigError(f"{what}: expected a mapping of settings, given {shown(value)}")
