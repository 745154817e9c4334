"""A replica of Redis's keys that knows the commands of Interlock's scripts and clients."""

from __future__ import annotations

import dataclasses
from typing import Any

# Commands that change no key.
READ_NAMES = (
    "GET MGET EXISTS TYPE PTTL TTL HGET HGETALL HMGET HLEN HEXISTS HSTRLEN ZCARD ZRANGE ZRANGEBYSCORE ZSCORE ZRANK "
    "ZCOUNT XRANGE XREVRANGE XLEN STRLEN SCAN KEYS DBSIZE PUBLISH SPUBLISH SUBSCRIBE SSUBSCRIBE PSUBSCRIBE "
    "UNSUBSCRIBE SUNSUBSCRIBE PUNSUBSCRIBE PUBSUB TIME PING ECHO INFO HELLO AUTH SELECT CLIENT ROLE WAIT SCRIPT "
    "COMMAND CONFIG QUIT READONLY READWRITE ASKING CLUSTER MULTI EXEC WATCH UNWATCH MEMORY LASTSAVE OBJECT RESET"
)
READS = frozenset(READ_NAMES.split())


class WrongType(Exception):
    """Redis replies WRONGTYPE, or that a value is no number, and changes nothing."""


@dataclasses.dataclass
class Entry:
    """The value of a key: str, dict of str (hash), dict of float (zset) or None (stream)."""

    kind: str
    value: Any
    # The Unix time in ms at which it expires.
    until: int | None = None
    # Whether it may have been set in the ms before.
    is_rounded: bool = False


class Replica:
    """The keys of one database."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        # Keys that the running script has found, although their time may have passed.
        self.alive: set[str] = set()
        # By how many ms the running script's clock had advanced when it gave a key the time that it lasts.
        self.shifts: dict[str, int] = {}

    def show(self, key: str) -> dict[str, Any] | None:
        """Returns the value of a key as in `Call.before`."""
        entry = self.entries.get(key)
        if not entry:
            return None
        value = entry.value
        if entry.kind == "hash":
            value = [[field, text] for field, text in value.items()]
        elif entry.kind == "zset":
            members = sorted(value.items(), key=lambda item: (item[1], item[0]))
            value = [[member, number_text(score)] for member, score in members]
        return {entry.kind: value} | ({} if entry.until is None else {"until": entry.until})

    def find(self, key: str, now: int) -> Entry | None:
        """Returns the entry of a key unless it has expired at `now`, a Unix time in ms."""
        entry = self.entries.get(key)
        if entry and entry.until is not None and entry.until < now and key not in self.alive:
            del self.entries[key]
            return None
        return entry

    def open(self, key: str, kind: str, now: int) -> Entry:
        """Returns the entry of a key, which it creates."""
        entry = self.find(key, now)
        if not entry:
            entry = self.entries[key] = Entry(kind, {"string": "0", "stream": None}.get(kind, {}))
        if entry.kind != kind:
            raise WrongType
        return entry

    def apply(self, args: list[str], now: int) -> list[str]:
        """Applies a command. Returns the keys to which it gave a time to last."""
        name = args[0].upper()
        if name in READS:
            return []
        method = getattr(self, f"do_{name.lower()}", None)
        if not method:
            raise ValueError(f"the replica does not know the command {' '.join(args)[:200]}")
        try:
            return method(now, *args[1:]) or []
        except WrongType:
            return []

    def do_set(self, now: int, key: str, value: str, *options: str) -> list[str]:
        old = self.find(key, now)
        until, keeps = None, False
        is_relative = False
        words = iter(options)
        for word in words:
            match word.upper():
                case "NX" if old:
                    return []
                case "XX" if not old:
                    return []
                case "GET" if old and old.kind != "string":
                    raise WrongType
                case "NX" | "XX" | "GET":
                    pass
                case "KEEPTTL":
                    keeps = True
                case "PX" | "EX" as unit:
                    until, is_relative = now + int(next(words)) * (1000 if unit == "EX" else 1), True
                case "PXAT" | "EXAT" as unit:
                    until = int(next(words)) * (1000 if unit == "EXAT" else 1)
                case _:
                    raise ValueError(f"the replica does not know the option {word} of SET")
        self.entries[key] = Entry("string", value, old.until if keeps and old else until)
        return [key] if is_relative else []

    def do_del(self, _now: int, *keys: str) -> None:
        for key in keys:
            self.entries.pop(key, None)

    do_unlink = do_del

    def do_pexpire(self, now: int, key: str, milliseconds: str) -> list[str]:
        return [key] if self.keep(now, key, now + int(milliseconds)) else []

    def do_expire(self, now: int, key: str, seconds: str) -> list[str]:
        return self.do_pexpire(now, key, str(1000 * int(seconds)))

    def do_pexpireat(self, now: int, key: str, until: str) -> None:
        self.keep(now, key, int(until))

    def keep(self, now: int, key: str, until: int) -> bool:
        """Lets a key last until a time. Returns whether it exists."""
        entry = self.find(key, now)
        if entry:
            entry.until, entry.is_rounded = until, False
            if until <= now:
                del self.entries[key]
        return bool(entry)

    def do_persist(self, now: int, key: str) -> None:
        entry = self.find(key, now)
        if entry:
            entry.until = None

    def do_incrby(self, now: int, key: str, amount: str) -> None:
        entry = self.open(key, "string", now)
        try:
            entry.value = str(int(entry.value) + int(amount))
        except ValueError:
            raise WrongType from None

    def do_decrby(self, now: int, key: str, amount: str) -> None:
        self.do_incrby(now, key, str(-int(amount)))

    def do_incr(self, now: int, key: str) -> None:
        self.do_incrby(now, key, "1")

    def do_hset(self, now: int, key: str, *pairs: str) -> None:
        self.open(key, "hash", now).value.update(zip(pairs[::2], pairs[1::2], strict=True))

    def do_hincrby(self, now: int, key: str, field: str, amount: str) -> None:
        fields = self.open(key, "hash", now).value
        fields[field] = str(int(fields.get(field, "0")) + int(amount))

    def do_hdel(self, now: int, key: str, *fields: str) -> None:
        self.remove(now, key, "hash", list(fields))

    def do_zadd(self, now: int, key: str, *pairs: str) -> None:
        members = self.open(key, "zset", now).value
        for score, member in zip(pairs[::2], pairs[1::2], strict=True):
            members[member] = float(score)

    def do_zrem(self, now: int, key: str, *members: str) -> None:
        self.remove(now, key, "zset", list(members))

    def do_zpopmin(self, now: int, key: str, count: str = "1") -> None:
        entry = self.find(key, now)
        if entry and entry.kind == "zset":
            order = sorted(entry.value, key=lambda member: (entry.value[member], member))
            self.remove(now, key, "zset", order[: int(count)])

    def do_zremrangebyscore(self, now: int, key: str, low: str, high: str) -> None:
        entry = self.find(key, now)
        if entry and entry.kind == "zset":
            ends = [float(end.lstrip("(")) for end in (low, high)]
            is_within = [
                member
                for member, score in entry.value.items()
                if (ends[0] < score or (ends[0] == score and low[0] != "("))
                and (score < ends[1] or (score == ends[1] and high[0] != "("))
            ]
            self.remove(now, key, "zset", is_within)

    def do_xadd(self, now: int, key: str, *_fields: str) -> None:
        self.open(key, "stream", now)

    def do_flushdb(self, _now: int, *_options: str) -> None:
        self.entries.clear()

    def remove(self, now: int, key: str, kind: str, names: list[str]) -> None:
        """Removes members, and the key if it has none left."""
        entry = self.find(key, now)
        if not entry:
            return
        if entry.kind != kind:
            raise WrongType
        for name in names:
            entry.value.pop(name, None)
        if not entry.value:
            del self.entries[key]


def number_text(number: float) -> str:
    """Returns a score as Redis prints it."""
    return str(int(number)) if number.is_integer() else f"{number:.17g}"
