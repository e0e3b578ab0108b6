"""Reads a queue's raw keys: what contradicts the invariants, and the state they add up to.

`read` takes everything in one look. `findings` needs nothing but the keys: it recounts, and holds
each key against the others. `picture` says the same state in the reference's words.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

import redis

from rota.script.keys import CATALOGUE, Keys
from tests.model.allowance import Pace
from tests.support.catalogue import is_known

_READ = """
local root = KEYS[1]:sub(1, -7)
local found = {}
for _, key in ipairs(redis.call('KEYS', root .. '*')) do
  local kind = redis.call('TYPE', key).ok
  local value
  if kind == 'string' then value = redis.call('GET', key)
  elseif kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'set' then value = redis.call('SMEMBERS', key)
  else value = redis.call('LRANGE', key, 0, -1) end
  found[#found + 1] = { key, kind, value, redis.call('PTTL', key) }
end
return found
"""

FIGURES = ("served", "waited", "charged")
TRANSIENT = ("sent:", "figures:")
"""What kinds of keys end by themselves: receipts, and the figures of the last minutes."""
TYPES = {kind.name: kind.type for kind in CATALOGUE}


@dataclass(frozen=True, slots=True)
class Delivery:
    """One field of a consumer's hash. `sequence` is its name as keys spell it, None: unordered."""

    number: str
    score: float
    mark: str
    lane: str
    sequence: str | None

    @classmethod
    def parse(cls, text: str) -> Delivery:
        number, score, mark, place = text.split(",", 3)
        lane, key = split_sequence(place)
        return cls(number, float(score), mark, lane, None if key is None else place)

    @property
    def permit(self) -> object:
        return self.sequence if self.sequence is not None else self


def split_sequence(name: str) -> tuple[str, str | None]:
    """Lane and key of `<bytes of lane>:<lane>[:<key>]`."""
    size, _, rest = name.encode().partition(b":")
    lane, tail = rest[: int(size)].decode(), rest[int(size) :].decode()
    return lane, tail[1:] if tail else None


class Dump:
    """Every key of one queue at one moment, below its root."""

    def __init__(self, keys: Keys, rows: Iterable[Any]) -> None:
        self.root = keys.root
        self.types: dict[str, str] = {}
        self.ttls: dict[str, int] = {}
        self._values: dict[str, Any] = {}
        for key, kind, value, ttl in rows:
            name = key.decode()[len(keys.root) :]
            self.types[name], self.ttls[name] = kind.decode(), ttl
            read = _figures if name.startswith("figures:") else _value
            self._values[name] = read(kind.decode(), value)

    def get(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, {} if default is None else default)

    def counts(self, name: str) -> dict[str, int]:
        return {field: int(value) for field, value in self.get(name).items()}

    def each(self, before: str, after: str = "") -> Iterator[tuple[str, Any]]:
        """What the keys `<before>…<after>` hold, by what stands between."""
        for name, value in self._values.items():
            if name.startswith(before) and name.endswith(after):
                yield name[len(before) : len(name) - len(after)], value

    def deliveries(self, consumer: str) -> dict[str, Delivery]:
        fields = self.get(f"c:{consumer}").items()
        return {id: Delivery.parse(text) for id, text in fields if not id.startswith("!")}

    def holdings(self) -> dict[str, tuple[str, list[str]]]:
        """Held sequences: consumer and jobs."""
        found = {}
        for sequence, text in self.get("held").items():
            consumer, *jobs = text.split("\n")
            found[sequence] = (consumer, jobs)
        return found

    @property
    def vt(self) -> float:
        return float(self.get("vt", "0"))

    @property
    def sweeping(self) -> bool:
        return "sweep" in self.get("config")


def read(raw: redis.Redis, keys: Keys) -> Dump:
    """`raw` must answer bytes."""
    rows: Any = raw.eval(_READ, 1, keys.config)
    return Dump(keys, rows)


def _value(kind: str, value: Any) -> Any:
    if kind == "string":
        return value.decode(errors="replace")
    texts = [item.decode() for item in value]
    if kind == "hash":
        return dict(zip(texts[::2], texts[1::2], strict=True))
    if kind == "zset":
        return {m: float(s) for m, s in zip(texts[::2], texts[1::2], strict=True)}
    return set(texts) if kind == "set" else texts


def _figures(kind: str, value: list[bytes]) -> dict[str, dict[str, float]]:
    assert kind == "hash"
    return {
        lane.decode(): dict(zip(FIGURES, struct.unpack_from("<3d", text), strict=True))
        for lane, text in zip(value[::2], value[1::2], strict=True)
    }


# ── what is wrong ───────────────────────────────────────────────────────────────────────────────


def findings(dump: Dump) -> list[str]:
    """What contradicts the invariants; empty when all is well."""
    checks = (
        _keys,
        _membership,
        _permits,
        _tokens,
        _places,
        _totals,
        _rotation,
        _limits,
        _leftovers,
    )
    return [finding for check in checks for finding in check(dump)]


def _lanes(dump: Dump) -> set[str]:
    lanes = {lane for name in ("ring", "gwaiting", "gactive") for lane in dump.get(name)}
    return lanes | {lane for end in (":pending", ":out") for lane, _ in dump.each("g:", end)}


def _keys(dump: Dump) -> Iterator[str]:
    for name, kind in dump.types.items():
        if not is_known(dump.root + name):
            yield f"unknown key {name}"
        if TYPES.get(name, kind) != kind:
            yield f"{name} is a {kind}"
    for nonce, _ in dump.each("sent:"):
        if not 0 <= dump.ttls[f"sent:{nonce}"] <= 60_000:
            yield f"receipt {nonce} lives for {dump.ttls[f'sent:{nonce}']} ms"
    for minute, _ in dump.each("figures:"):
        if not 0 <= dump.ttls[f"figures:{minute}"] <= 180_000:
            yield f"figures:{minute} lives for {dump.ttls[f'figures:{minute}']} ms"
    for name, ttl in dump.ttls.items():
        if ttl >= 0 and not name.startswith(TRANSIENT):
            yield f"{name} ends in {ttl} ms"


HASHES = {"ceiling": "glimit", "weight": "gweight", "rate": "grate", "backlog": "gmax"}


def limit(dump: Dump, lane: str, name: str) -> str | None:
    """What holds for a lane, as text: its own, its template's, the queue's; None: nothing."""
    templates = {name: json.loads(text) for name, text in dump.get("templates").items()}
    sources = (
        dump.get(HASHES[name]).get(lane),
        templates.get(dump.get("gtemplate").get(lane), {}).get(name),
        dump.get("config").get(f"default_{name}"),
    )
    return next((text for text in sources if text is not None), None)


def ceiling(dump: Dump, lane: str) -> float:
    found = limit(dump, lane, "ceiling")
    return inf if found is None else int(found)


def _membership(dump: Dump) -> Iterator[str]:
    """Invariant 1, and that a kept tag is a lane's outside."""
    ring, active = dump.get("ring"), dump.counts("gactive")
    for lane in _lanes(dump):
        free = active.get(lane, 0) < ceiling(dump, lane)
        may = (
            bool(dump.get(f"g:{lane}:pending"))
            and lane not in dump.get("paused")
            and not {f"l:{lane}", f"r:{lane}"} & dump.get("blocked").keys()
        )
        if dump.sweeping and may:
            continue
        if (lane in ring) != (may and free):
            yield f"lane {lane}: in the ring {lane in ring}, may be served {may and free}"
    for lane in ring.keys() & dump.get("owed").keys():
        yield f"lane {lane} stands in the ring and in owed"


def _permits(dump: Dump) -> Iterator[str]:
    """Invariant 2, and that `held` and the consumers' hashes agree."""
    permits: dict[str, set[object]] = {}
    held: dict[str, tuple[str, set[str]]] = {}
    for consumer, _ in dump.each("c:"):
        for id, delivery in dump.deliveries(consumer).items():
            permit = delivery.sequence if delivery.sequence is not None else (consumer, id)
            permits.setdefault(delivery.lane, set()).add(permit)
            if delivery.sequence is not None:
                owner, ids = held.setdefault(delivery.sequence, (consumer, set()))
                ids.add(id)
                if owner != consumer:
                    yield f"sequence {delivery.sequence} is held by {owner} and {consumer}"
    recount = {lane: len(found) for lane, found in permits.items()}
    if recount != dump.counts("gactive"):
        yield f"gactive {dump.counts('gactive')}, in flight {recount}"
    total = int(dump.get("stats").get("permits", 0))
    if total != sum(recount.values()):
        yield f"stats say {total} permits, in flight {recount}"
    holdings = {name: (owner, set(ids)) for name, (owner, ids) in dump.holdings().items()}
    if holdings != held:
        yield f"held {holdings}, in consumers' hashes {held}"


def _tokens(dump: Dump) -> Iterator[str]:
    """Invariant 3."""
    tokens: dict[str, dict[str, float]] = {}
    outside: dict[str, dict[str, float]] = {}
    blocked = dump.get("blocked")
    for sequence, jobs in dump.each("s:"):
        lane, key = split_sequence(sequence)
        out = sequence in dump.get("held") or {f"s:{sequence}", f"h:{sequence}"} & blocked.keys()
        where = outside if out else tokens
        where.setdefault(lane, {})["" if key is None else key] = min(jobs.values())
    for lane in _lanes(dump):
        pending = dump.get(f"g:{lane}:pending")
        found = {e[1:]: score for e, score in pending.items() if e.startswith("!")}
        if found != tokens.get(lane, {}):
            yield f"lane {lane}: tokens {found}, free sequences {tokens.get(lane, {})}"
        if dump.get(f"g:{lane}:out") != outside.get(lane, {}):
            yield f"lane {lane}: out {dump.get(f'g:{lane}:out')}, is {outside.get(lane, {})}"


def _places(dump: Dump) -> Iterator[str]:
    """Invariant 4, and that a record's prefix names the place its job has."""
    places: dict[str, list[tuple[str, float]]] = {}
    for lane, pending in dump.each("g:", ":pending"):
        for entry, score in pending.items():
            if not entry.startswith("!"):
                places.setdefault(entry, []).append((f"pending of {lane}", score))
    for sequence, jobs in dump.each("s:"):
        for id, score in jobs.items():
            places.setdefault(id, []).append((f"sequence {sequence}", score))
    for member in dump.get("scheduled"):
        places.setdefault(member[17:], []).append(("scheduled", float(member[:17])))
    for consumer, _ in dump.each("c:"):
        for id, delivery in dump.deliveries(consumer).items():
            places.setdefault(id, []).append((f"hands of {consumer}", delivery.score))
    for id in dump.get("dead"):
        places.setdefault(id, []).append(("dead", inf))
    records = dict(dump.each("job:"))
    for id, found in places.items():
        if len(found) > 1:
            yield f"job {id} is in {found}"
        if id not in records:
            yield f"job {id} in {found} has no record"
        elif found[0][1] not in (inf, float(records[id][:17])):
            yield f"job {id} in {found} has place {records[id][:17]} in its record"
    for id in records.keys() - places.keys():
        yield f"job {id} is nowhere"
    delayed = {m: due for _, jobs in dump.each("g:", ":delayed") for m, due in jobs.items()}
    if delayed != dump.get("scheduled"):
        yield f"scheduled {dump.get('scheduled')}, by lane {delayed}"


def waiting(dump: Dump) -> Counter[str]:
    """Waiting jobs per lane, counted anew."""
    counted: Counter[str] = Counter()
    for lane, pending in dump.each("g:", ":pending"):
        counted[lane] += sum(not entry.startswith("!") for entry in pending)
    for sequence, jobs in dump.each("s:"):
        counted[split_sequence(sequence)[0]] += len(jobs)
    return +counted


def _totals(dump: Dump) -> Iterator[str]:
    """Invariant 5."""
    recount = waiting(dump)
    if recount != dump.counts("gwaiting"):
        yield f"gwaiting {dump.counts('gwaiting')}, waiting {dict(recount)}"
    running = sum(len(dump.deliveries(consumer)) for consumer, _ in dump.each("c:"))
    stats = dump.counts("stats")
    for name, number in (("waiting", recount.total()), ("running", running)):
        if stats.get(name, 0) != number:
            yield f"stats say {stats.get(name, 0)} {name}, there are {number}"
    stored = sum(1 for _ in dump.each("job:"))
    gone = sum(stats.get(name, 0) for name in ("completed", "discarded", "purged", "cancelled"))
    if stats.get("enqueued", 0) - gone != stored:
        yield f"stats {stats}, there are {stored} records"


def _rotation(dump: Dump) -> Iterator[str]:
    for lane, tag in dump.get("ring").items():
        if tag < dump.vt:
            yield f"lane {lane} stands at {tag} in the ring, behind vt {dump.vt}"


def _limits(dump: Dump) -> Iterator[str]:
    for name, text in dump.get("templates").items():
        if unknown := json.loads(text).keys() - HASHES.keys():
            yield f"template {name} sets {sorted(unknown)}"
    templated = dump.get("gtemplate")  # a changed template leaves state that goes with its time
    for lane in dump.get("gtat").keys() - templated.keys():
        if limit(dump, lane, "rate") is None:
            yield f"lane {lane} has spent tokens, and no rate"
    for member in dump.get("blocked"):
        if member == "q:" and "paused" not in dump.get("config"):
            yield "an end of a pause of the queue, which is not paused"
        if member.startswith("r:") and member[2:] not in dump.get("gtat"):
            yield f"lane {member[2:]} waits for a token, and has spent none"


def _leftovers(dump: Dump) -> Iterator[str]:
    """What belongs to something must go with it."""
    records = {id for id, _ in dump.each("job:")}
    for name in ("attempts", "deaths", "releases", "errors", "costs", "cancels"):
        for id in dump.get(name).keys() - records:
            yield f"{name} of job {id}, which is gone"
    blocked, why = dump.get("blocked"), dump.get("why")
    pauses = {f"p:{lane}" for lane in dump.get("paused")}
    explained = {member for member in blocked if member[0] not in "rq"} | pauses
    if why.keys() != explained:
        yield f"why {sorted(why)}, blocked {sorted(blocked)}, paused {sorted(pauses)}"
    for member, until in blocked.items():
        if member.startswith("p:") and member not in pauses:
            yield f"an end at {until} of a pause that is not: {member}"
    running = {id for consumer, _ in dump.each("c:") for id in dump.deliveries(consumer)}
    for id in dump.get("cancels").keys() - running:
        yield f"job {id} is asked to stop, and does not run"
    consumers = {consumer for consumer, _ in dump.each("c:")}
    if consumers != dump.get("consumers").keys():
        yield f"consumers {sorted(dump.get('consumers'))}, hashes {sorted(consumers)}"
    if len(dump.get("wake", [])) > 64:
        yield f"{len(dump.get('wake'))} wakes"


# ── what it adds up to ──────────────────────────────────────────────────────────────────────────


def picture(dump: Dump) -> dict[str, Any]:
    """The state in the words of the reference, for comparing."""
    sequences = {name: split_sequence(name) for name, _ in dump.each("s:")}
    sequences |= {name: split_sequence(name) for name in dump.get("held")}
    return {
        "ring": dump.get("ring"),
        "owed": dump.get("owed"),
        "vt": dump.vt,
        "pending": dict(dump.each("g:", ":pending")),
        "out": dict(dump.each("g:", ":out")),
        "sequences": {sequences[name]: jobs for name, jobs in dump.each("s:")},
        "delayed": {member[17:]: due for member, due in dump.get("scheduled").items()},
        "held": {sequences[name]: jobs for name, (_, jobs) in dump.holdings().items()},
        "gwaiting": dump.counts("gwaiting"),
        "gactive": dump.counts("gactive"),
        "gtat": dump.get("gtat"),
        "limits": _own_limits(dump),
        "templates": {name: _parsed(json.loads(t)) for name, t in dump.get("templates").items()},
        "template_of": dump.get("gtemplate"),
        "shut": "paused" in dump.get("config"),
        "paused": dump.get("paused", set()),
        "blocked": {_blocked(member): until for member, until in dump.get("blocked").items()},
        "blockers": {
            split_sequence(member[2:]): id
            for member, id in dump.get("why").items()
            if member.startswith("h:")
        },
        "leases": dump.get("consumers"),
        "deliveries": {
            consumer: {
                id: (delivery.number, delivery.mark)
                for id, delivery in dump.deliveries(consumer).items()
            }
            for consumer, _ in dump.each("c:")
        },
        "claims": {consumer: int(fields["!claim"]) for consumer, fields in dump.each("c:")},
        "dead": set(dump.get("dead")),
        "records": {id for id, _ in dump.each("job:")},
        "attempts": dump.counts("attempts"),
        "deaths": dump.counts("deaths"),
        "releases": dump.counts("releases"),
        "costs": {id: _cost(text) for id, text in dump.get("costs").items()},
        "durations": {task: float(mean) for task, mean in dump.get("durations").items()},
        "cancels": set(dump.get("cancels")),
        "figures": {
            (name, int(minute), lane): figure
            for minute, lanes in dump.each("figures:")
            for lane, figures in lanes.items()
            for name, figure in figures.items()
        },
        "seq": int(dump.get("seq", "0")),
    }


def _parsed(limits: dict[str, str]) -> dict[str, Any]:
    return {name: _pace(text) if name == "rate" else float(text) for name, text in limits.items()}


def _cost(text: str) -> float | None:
    """Of a job that is charged by time, what it was charged when it was claimed."""
    text = text.removeprefix("t").partition(",")[0]
    return float(text) if text else None


def _pace(text: str) -> Pace:
    interval, burst, *_ = text.split(",")
    return Pace(float(interval), int(burst))


def _own_limits(dump: Dump) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, str]] = {}
    for name, key in HASHES.items():
        for lane, text in dump.get(key).items():
            found.setdefault(lane, {})[name] = text
    return {lane: _parsed(limits) for lane, limits in found.items()}


def _blocked(member: str) -> tuple[str, Any]:
    kind, _, name = member.partition(":")
    return (kind, split_sequence(name)) if kind in "sh" else (kind, name)
