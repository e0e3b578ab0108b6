"""Settings of a server that endanger a queue, each with a sentence of advice.

The clients' own read time-outs are always longer than what they wait for, so those need no check.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rota.doctor.findings import Advice
from rota.script import stubs
from rota.script.keys import CATALOGUE, Keys
from rota.script.loader import Ask, Operation, Packed, Reply, Tail, all_commands
from rota.values.versions import is_too_old, read_info, version_of

MEMORY_SHARE = 0.9
CLOCK_S = 1.0
CLIENT_COMMANDS = ("BLPOP", "SCRIPT LOAD")
"""What workers send beside scripts, and cannot do without."""
SETTINGS = ("maxmemory-policy", "appendonly", "save", "timeout")


class ServerCheck:
    """The server that serves a queue, as far as it says anything of itself."""

    def __init__(self, keys: Keys, park_s: float) -> None:
        self._keys = keys
        self._park_s = park_s
        self.refuses = False
        """It is too old for rota's scripts."""
        self.read_only = False
        """It is a replica."""
        self.denies = False
        """It does not let our user do what rota's scripts do."""
        self.advice: list[Advice] = []

    def examine(self) -> Operation[list[Advice]]:
        sent = time.time()
        info, now, *rest = yield Ask(
            self._keys,
            (
                ("INFO",),
                ("TIME",),
                *(("CONFIG", "GET", name) for name in SETTINGS),
                ("CLUSTER", "INFO"),
            ),
        )
        answered = time.time()
        said = read_info(info)
        settings = dict(zip(SETTINGS, map(_setting, rest), strict=False))
        if said:
            self._version(said)
            self._role(said)
            self._memory(said, settings)
            self._persistence(said, settings)
        else:
            self._unread("INFO")
        hidden = [name for name, value in settings.items() if value is None]
        if hidden:
            self._unread(f"CONFIG GET {' '.join(hidden)}")
        self._idle(settings)
        self._clock(now, sent, answered)
        if said.get("cluster_enabled") == "1":
            self._cluster(read_info(rest[-1]))
        if not self.refuses:
            yield from self._rights()
        return self.advice

    def _rights(self) -> Operation[None]:
        """Asked of a script: it may look at the rights of its user where that may not itself."""
        names = [self._keys.key(kind.name, kind.parameter and "x") for kind in CATALOGUE]
        commands, keys = yield from stubs.rights(
            self._keys,
            commands=Packed([*all_commands(), *CLIENT_COMMANDS]),
            names=Tail([name.encode() for name in names]),
        )
        self.denies = bool(commands or keys)
        if commands:
            rules = " ".join("+" + name.lower().replace(" ", "|") for name in commands)
            self._say(
                "ACL",
                f"this user may not run {', '.join(commands).lower()}, and calls that need them "
                f"are refused: allow {rules}, or ask with the user that workers have",
            )
        if keys:
            self._say(
                "ACL",
                f"this user may not read and write {', '.join(keys)}: allow ~{self._keys.root}*",
            )

    def _say(self, setting: str, text: str, *, danger: bool = True) -> None:
        self.advice.append(Advice(setting, text, danger))

    def _unread(self, what: str) -> None:
        self._say(
            what,
            "could not be read, so what it says was not checked: allow this user to",
            danger=False,
        )

    def _version(self, said: Mapping[str, str]) -> None:
        kind, version = version_of(said)
        if is_too_old(kind, version):
            self.refuses = True
            text = said[f"{kind}_version"]
            self._say("version", f"{kind} {text} is too old: use Valkey 7.2, Redis 7.0 or later")

    def _role(self, said: Mapping[str, str]) -> None:
        if said.get("role") == "slave":
            self.read_only = True
            self._say(
                "role", "this server is a replica and takes no writes: connect to its primary"
            )

    def _memory(self, said: Mapping[str, str], settings: Mapping[str, str | None]) -> None:
        policy = said.get("maxmemory_policy") or settings["maxmemory-policy"] or "noeviction"
        most, used = _int(said.get("maxmemory")), _int(said.get("used_memory"))
        if policy != "noeviction":
            self._say(
                "maxmemory-policy",
                f"with {policy} the server deletes jobs when its memory is full: set noeviction",
                danger=most > 0,
            )
        if most and used > MEMORY_SHARE * most:
            self._say(
                "maxmemory",
                f"{used * 100 // most} % of it are in use, and at 100 % new jobs are refused: let "
                "workers drain the queue, or raise it",
            )

    def _persistence(self, said: Mapping[str, str], settings: Mapping[str, str | None]) -> None:
        if said.get("aof_enabled") != "0":
            return
        if settings["save"] == "":
            self._say("appendonly", "a restart of the server loses every job: set appendonly yes")
        else:
            self._say(
                "appendonly",
                "a crash of the server loses the jobs since its last snapshot: set appendonly yes",
                danger=False,
            )

    def _idle(self, settings: Mapping[str, str | None]) -> None:
        idle = _int(settings["timeout"])
        if 0 < idle <= self._park_s:
            self._say(
                "timeout",
                f"the server closes connections idle for {idle} s, and workers wait "
                f"{self._park_s:g} s at a time: set it to 0",
            )

    def _clock(self, now: Reply, sent: float, answered: float) -> None:
        if not isinstance(now, list):
            self._unread("TIME")
            return
        server = int(now[0]) + int(now[1]) / 1e6
        ahead = max(server - answered, sent - server)
        if ahead > CLOCK_S:
            self._say(
                "clock",
                f"the server's clock and this machine's are {ahead:.1f} s apart, and instants "
                "given to jobs are meant by the server's: synchronise them",
            )

    def _cluster(self, said: Mapping[str, str]) -> None:
        if said and said.get("cluster_state") != "ok":
            covered = said.get("cluster_slots_ok", "some")
            self._say(
                "cluster",
                f"the cluster is {said.get('cluster_state')}: {covered} of 16384 slots are served; "
                "bring its nodes back",
            )


def _setting(reply: Reply) -> str | None:
    """A list of name and value, or with RESP3 a map; None where it was refused."""
    if isinstance(reply, Mapping):
        reply = [part for pair in reply.items() for part in pair]
    if isinstance(reply, Sequence) and len(reply) == 2 and isinstance(reply[1], bytes):
        return reply[1].decode()
    return None


def _int(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
