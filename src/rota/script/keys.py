"""Every key rota writes, in one table.

From it come the Python builders (`Keys`), the Lua helpers put in front of each script
(`lua_helpers`), what the doctor knows and the leak check of the tests. No other module builds a
key. All keys of a queue share the hash tag `{queue}`, so a queue is one slot. The
prefix they have by default, `emq`, is that of EchoMQ, from which lanes, ceilings and doorbell come.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rota.values import config


@dataclass(frozen=True, slots=True)
class KeyKind:
    """One kind of key: its template below the queue's root, its Redis type, what it holds.

    Templates with `{lane}`, `{sequence}`, `{id}`, `{consumer}`, `{nonce}` or `{minute}` take that
    one argument; `transient` keys may outlive a drained queue only with a TTL or an owner.
    """

    name: str
    template: str
    type: str
    holds: str

    @property
    def parameter(self) -> str | None:
        found = re.search(r"{(\w+)}", self.template)
        return found.group(1) if found else None


CATALOGUE: tuple[KeyKind, ...] = (
    KeyKind("config", "config", "hash", "queue-wide settings, cursors of paged changes, guard"),
    KeyKind("none", "none", "none", "declared by every script, never exists"),
    KeyKind("ring", "ring", "zset", "lane → tag: the lanes that may be served now"),
    KeyKind("vt", "vt", "string", "the tag of the last entry served"),
    KeyKind("owed", "owed", "zset", "lane → tag kept while the lane is outside the ring"),
    KeyKind("gwaiting", "gwaiting", "hash", "lane → waiting jobs, delayed apart"),
    KeyKind("pending", "g:{lane}:pending", "zset", "claimable entries: job id or !key → score"),
    KeyKind("out", "g:{lane}:out", "zset", "the lane's sequences that are not claimable now"),
    KeyKind("delayed", "g:{lane}:delayed", "zset", "the lane's delayed jobs → due"),
    KeyKind("sequence", "s:{sequence}", "zset", "a sequence's waiting jobs → score"),
    KeyKind("held", "held", "hash", "sequence → its consumer and jobs in flight, in order"),
    KeyKind("gactive", "gactive", "hash", "lane → permits held"),
    KeyKind("glimit", "glimit", "hash", "lane → ceiling"),
    KeyKind("gweight", "gweight", "hash", "lane → weight"),
    KeyKind("gmax", "gmax", "hash", "lane → backlog limit"),
    KeyKind("grate", "grate", "hash", "lane → rate: ms a job, burst"),
    KeyKind("gtat", "gtat", "zset", "lane → when its rate has used up what it was given, in ms"),
    KeyKind("templates", "templates", "hash", "template → its limits"),
    KeyKind("gtemplate", "gtemplate", "hash", "lane → template"),
    KeyKind("paused", "paused", "set", "paused lanes"),
    KeyKind("blocked", "blocked", "zset", "l:, r:, p:lane, s:, h:sequence, q: → until"),
    KeyKind("why", "why", "hash", "member of blocked or p:lane → reason and who, or the head"),
    KeyKind("scheduled", "scheduled", "zset", "place + id of a delayed job → due"),
    KeyKind("job", "job:{id}", "string", "a job's record: prefix, header, payload"),
    KeyKind("costs", "costs", "hash", "job → what it is charged, where that is not 1"),
    KeyKind("durations", "durations", "hash", "task charged by time → mean seconds of late"),
    KeyKind("attempts", "attempts", "hash", "job → failed attempts"),
    KeyKind("deaths", "deaths", "hash", "job → workers that died with it"),
    KeyKind("errors", "errors", "hash", "job → its last error"),
    KeyKind("releases", "releases", "hash", "job → releases without a delay since it last failed"),
    KeyKind("consumers", "consumers", "zset", "consumer → lease deadline; -inf marked gone"),
    KeyKind("consumer", "c:{consumer}", "hash", "what a consumer holds: job → delivery"),
    KeyKind("orders", "orders", "hash", "consumer → what its process was asked: quiet, stop"),
    KeyKind("cancels", "cancels", "hash", "running job → who asked to cancel it"),
    KeyKind("dead", "dead", "zset", "dead job → when"),
    KeyKind("wake", "wake", "list", "the doorbell"),
    KeyKind("sent", "sent:{nonce}", "string", "receipt: what a call was answered, kept 60 s"),
    KeyKind("figures", "figures:{minute}", "hash", "lane → its jobs, waits, charges: doubles"),
    KeyKind("seq", "seq", "string", "the queue's counter"),
    KeyKind("stats", "stats", "hash", "totals of the queue"),
)

_BY_NAME = {kind.name: kind for kind in CATALOGUE}


ANY_CONFIG = "*:{*}:config"
"""Matches the key that every queue has."""
_CONFIG = re.compile(r"(?P<prefix>[^{}]+):\{(?P<queue>[^{}]+)\}:config")


class Keys:
    """The keys of one queue. `home`: which part of a queue over several hash slots they are, as
    `config` says it; '' of a queue that is whole."""

    __slots__ = ("config", "home", "none", "prefix", "queue", "root", "wake")

    def __init__(self, queue: str, prefix: str = config.DEFAULT_PREFIX, home: str = "") -> None:
        self.queue = queue
        self.home = home
        self.prefix = prefix
        self.root = f"{prefix}:{{{queue}}}:"
        self.config = self.root + "config"
        self.none = self.root + "none"
        self.wake = self.root + "wake"

    def key(self, name: str, argument: str | None = None) -> str:
        """The key of kind `name`; kinds with a parameter take it as `argument`."""
        kind = _BY_NAME[name]
        if kind.parameter is None:
            return self.root + kind.template
        if argument is None:
            raise TypeError(f"key {name} needs its {kind.parameter}")
        return self.root + kind.template.replace("{" + kind.parameter + "}", argument)


def of_config(key: str) -> Keys | None:
    """The keys of the queue whose `config` this is; None where it is none of rota's."""
    found = _CONFIG.fullmatch(key)
    return Keys(found["queue"], found["prefix"]) if found else None


def lua_helpers(text: str) -> str:
    """The Lua locals that build the keys which `text` mentions."""
    mentioned = set(re.findall(r"\bk_(\w+)", text))
    unknown = mentioned - _BY_NAME.keys()
    if unknown:
        raise LookupError(f"no such key in the catalogue: {', '.join(sorted(unknown))}")
    if not mentioned and not re.search(r"\broot\b", text):
        return ""
    lines = ["local root = KEYS[1]:sub(1, -7) -- the queue's root: KEYS[1] is its config"]
    lines += [_lua_helper(kind) for kind in CATALOGUE if kind.name in mentioned]
    return "\n".join(lines)


_LENGTH = {"hash": "HLEN", "zset": "ZCARD", "set": "SCARD", "string": "STRLEN"}


def lua_checks(names: Iterable[str]) -> str:
    """Lua that asks keys of the whole queue for their lengths, and so fails where one has a wrong
    type."""
    return "\n".join(f"redis.call('{_LENGTH[_BY_NAME[name].type]}', k_{name})" for name in names)


def lua_quick_checks(names: Iterable[str]) -> str:
    """The same in fewer calls: one for all sets and sorted sets, of which `none` is always empty.
    It lets pass the one where the other is due."""
    names = list(names)
    sets = [name for name in names if _BY_NAME[name].type in ("zset", "set")]
    if len(sets) < 2:
        return lua_checks(names)
    listed = ", ".join(f"k_{name}" for name in ("none", *sets))
    together = f"redis.call('ZINTERCARD', {len(sets) + 1}, {listed}, 'LIMIT', 1)"
    return "\n".join([together, lua_checks(name for name in names if name not in sets)])


def keys_to_check(text: str) -> list[str]:
    """The keys of the whole queue that `text` mentions, but for `config`, which the guard asks.
    `wake` tells no state: it is not looked at, and whoever rings it goes on without."""
    mentioned = set(re.findall(r"\bk_(\w+)", text)) - {"config", "none", "wake"}
    return [kind.name for kind in CATALOGUE if kind.name in mentioned and kind.parameter is None]


def _lua_helper(kind: KeyKind) -> str:
    if kind.parameter is None:
        return f"local k_{kind.name} = root .. '{kind.template}'"
    before, after = kind.template.split("{" + kind.parameter + "}")
    tail = f" .. '{after}'" if after else ""
    return (
        f"local function k_{kind.name}({kind.parameter})"
        f" return root .. '{before}' .. {kind.parameter}{tail} end"
    )
