"""What is set of lanes and the queue: limits and templates, pauses, blocks, the gate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any

import msgspec

from rota.errors import ConfigError
from rota.script import stubs
from rota.script.keys import Keys
from rota.script.loader import Call, Operation, together
from rota.values import config, limits, names
from rota.values.limits import Change, Template
from rota.values.names import shown
from rota.values.timing import instant, milliseconds, seconds

PAGE = 200
SWEEP_PAGE = 100
SWEEP_PAGES = 100
"""How far a change carries a new default itself; any beat carries it on."""
MAX_TEMPLATES = 1000
MAX_NOTE_BYTES = 1000

_OF_QUEUE = {
    "default_ceiling": config.ceiling,
    "default_weight": config.weight,
    "ceiling": config.ceiling,
    "dead_max": config.dead_max,
    "dead_age": config.dead_age,
}
_to_json = msgspec.json.Encoder().encode


class Settings:
    """The part of the store that changes lanes and the queue."""

    keys: Keys

    def lane_set(self, lane: str, **given: object) -> Operation[None]:
        """Changes a lane's limits: the keywords of `Lane.set`.

        ConfigError where there is no template of that name; nothing is changed then.
        """
        change = limits.change(**given)
        _check_known([change], (yield from together([self._lane_set(lane, change)])))

    def _lane_set(self, lane: str, change: Change) -> Call[int]:
        return stubs.lane_set(self.keys, lane=lane, **change)

    def pause(
        self, lane: str, *, reason: str | None, by: str | None, until: datetime | float | None
    ) -> Operation[None]:
        yield from stubs.pause(self.keys, lane=lane, until_ms=_end(until), why=_why(reason, by))

    def resume(self, lane: str) -> Operation[bool]:
        return bool((yield from stubs.resume(self.keys, lane=lane)))

    def block(
        self, lane: str, delay: float | timedelta, *, reason: str | None, by: str | None
    ) -> Operation[None]:
        """Keeps the lane out of the ring for a time; only ever extends. 0 blocks nothing."""
        ms, why = milliseconds(seconds(delay, "delay")), _why(reason, by)
        if ms > 0:
            yield from stubs.block(self.keys, lane=lane, ms=ms, why=why)

    def unblock(self, lane: str) -> Operation[bool]:
        return bool((yield from stubs.unblock(self.keys, lane=lane)))

    def queue_set(self, **given: object) -> Operation[None]:
        """Changes what holds for the queue: the keywords of `Queue.set`; and carries it out as far
        as a few pages go."""
        yield from self._queue_set(given, declared=False)
        yield from self._sweep()

    def declare_ceiling(self, ceiling: int) -> Operation[None]:
        """Sets the default ceiling that stands in code, unless code has said the same before: then
        what was set since stays."""
        if (yield from self._queue_set({"default_ceiling": ceiling}, declared=True)):
            yield from self._sweep()

    def _queue_set(self, given: Mapping[str, object], *, declared: bool) -> Call[int]:
        change = limits.settings(given, _OF_QUEUE)
        return stubs.queue_set(self.keys, **change, declared=declared)

    def _sweep(self) -> Operation[None]:
        for _ in range(SWEEP_PAGES):
            more, *_ = yield from stubs.beat(self.keys, limit=SWEEP_PAGE, watched_ms=-1)
            if not more:
                return

    def lane_reset(self, lane: str) -> Operation[None]:
        """Removes all limits of the lane."""
        yield from self._lane_set(lane, limits.REMOVAL)

    def set_template(self, name: str, **given: object) -> Operation[None]:
        """Makes or changes a template, and carries it out as far as a few pages go."""
        name, change = names.template_name(name), limits.change(**given)
        known = yield from stubs.templates(self.keys)
        if name not in known and len(known) >= MAX_TEMPLATES:
            raise ConfigError(f"expected at most {MAX_TEMPLATES} templates, {shown(name)} is more")
        del change["template"]
        yield from stubs.template_set(self.keys, name=name, **change)
        yield from self._sweep()

    def drop_template(self, name: str) -> Operation[bool]:
        was = yield from stubs.template_drop(self.keys, name=names.template_name(name))
        yield from self._sweep()
        return bool(was)

    def templates(self) -> Operation[dict[str, Template]]:
        return (yield from stubs.templates(self.keys))

    def set_lanes(self, given: Mapping[str, Mapping[str, Any]]) -> Operation[None]:
        """Changes many lanes, lane → the keywords of `Lane.set`; all are checked first.

        ConfigError where there is no template of a name; nothing is changed then. One dropped
        while lanes are changed is a ConfigError too; then only its own are not changed.
        """
        changes = {
            names.lane_name(lane): _change_of(lane, settings)
            for lane, settings in _mapping(given, "set_lanes").items()
        }
        wanted = {change["template"] for change in changes.values()} - {"", "-"}
        if wanted:
            _check_templates(wanted - (yield from stubs.templates(self.keys)).keys())
        calls = [self._lane_set(lane, change) for lane, change in changes.items()]
        done: list[int] = []
        for start in range(0, len(calls), PAGE):
            done += yield from together(calls[start : start + PAGE])
        _check_known(changes.values(), done)

    def shut_gate(
        self, *, reason: str | None, by: str | None, until: datetime | float | None = None
    ) -> Operation[None]:
        yield from stubs.gate_shut(self.keys, until_ms=_end(until), why=_why(reason, by))

    def open_gate(self) -> Operation[bool]:
        return bool((yield from stubs.gate_open(self.keys)))


def _change_of(lane: object, given: object) -> Change:
    settings = _mapping(given, f"lane {shown(lane)}")
    unknown = settings.keys() - set(limits.LIMITS)
    if unknown:
        raise ConfigError(
            f"lane {shown(lane)}: expected {', '.join(limits.LIMITS)}, "
            f"given {shown(sorted(map(str, unknown)))}"
        )
    return limits.change(**settings)


def _check_known(changes: Iterable[Change], done: Iterable[int]) -> None:
    pairs = zip(changes, done, strict=True)
    _check_templates({change["template"] for change, known in pairs if not known})


def _check_templates(unknown: AbstractSet[str]) -> None:
    if unknown:
        raise ConfigError(f"template: expected one that was set, given {shown(min(unknown))}")


def _end(until: datetime | float | None) -> int:
    return -1 if until is None else instant(until, "until")


def _why(reason: str | None, by: str | None) -> str:
    said = {"reason": note(reason, "reason"), "by": note(by, "by")}
    return _to_json(said).decode()


def note(text: object, name: str) -> str | None:
    """A reason, or who: text of at most 1,000 bytes; raises ConfigError."""
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
