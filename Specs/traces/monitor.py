"""Reads a recording of `redis-cli MONITOR` as calls of Redis scripts.

The recording starts before the first script is loaded, on a server without data. So it contains every script's source,
and every change of every key: a small replica of the keys follows them, and knows the keys before and after each call.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from traces.calls import SOURCES, Call
from traces.replica import Replica

LINE = re.compile(r"(\d+)\.(\d{6}) \[(\d+) ([^\]]*)\] (.*)")
ARGUMENT = re.compile(r'"((?:[^"\\]|\\.)*)" ?', re.DOTALL)
ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|.)", re.DOTALL)
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b"}
# The digits of a time of this century in ms or microseconds.
TIMES = re.compile(r"(?<!\d)\d{13}(?:\d{3})?(?!\d)")
# Redis 7.2 and newer read the clock this many microseconds before MONITOR prints the script, at most.
EARLY = 20


@dataclasses.dataclass
class Command:
    """A line of MONITOR."""

    # The Unix time in microseconds.
    time: int
    database: int
    # The client's address; "lua" for a command of the script before it.
    source: str
    args: list[str]

    @property
    def name(self) -> str:
        return self.args[0].upper()


def parse(line: str) -> Command:
    """Parses a line of MONITOR. Strings get one character for each byte."""
    match = LINE.fullmatch(line)
    if not match:
        raise ValueError(f"not a line of MONITOR: {line[:200]}")
    seconds, microseconds, database, source, rest = match.groups()
    args, end = [], 0
    while end < len(rest):
        argument = ARGUMENT.match(rest, end)
        if not argument:
            raise ValueError(f"not a line of MONITOR: {line[:200]}")
        args.append(ESCAPE.sub(unescape, argument[1]))
        end = argument.end()
    return Command(int(seconds) * 1_000_000 + int(microseconds), int(database), source, args)


def unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) == 3 else ESCAPES.get(code, code)


def commands(path: Path) -> Iterator[Command]:
    """Yields the lines of a recording. The last one is left out if it is incomplete."""
    with path.open(encoding="latin-1", newline="\n") as lines:
        for line in lines:
            if line.endswith("\n") and line != "OK\n":
                yield parse(line[:-1])


def groups(path: Path) -> Iterator[list[Command]]:
    """Yields each command with the commands of its script."""
    group: list[Command] = []
    for command in commands(path):
        if command.source == "lua":
            if not group:
                raise ValueError(f"{path}: the recording starts within a script")
            group.append(command)
            continue
        if group:
            yield group
        group = [command]
    # The last script may be incomplete.


class Replies:
    """The replies that record.py wrote: those of one port, in order."""

    def __init__(self, path: Path | None) -> None:
        self.queues: dict[str, collections.deque[dict[str, Any]]] = collections.defaultdict(collections.deque)
        if path:
            with path.open(encoding="utf-8") as lines:
                for line in lines:
                    entry = json.loads(line)
                    self.queues[str(entry["port"])].append(entry)

    def take(self, command: Command) -> tuple[bool, Any]:
        """Returns whether there is a reply to the command, and the reply."""
        queue = self.queues[command.source.rpartition(":")[2]]
        # Redis rejected a request that MONITOR does not show.
        while queue and queue[0]["request"] != command.args and is_error(queue[0]["reply"]):
            queue.popleft()
        if queue and queue[0]["request"] == command.args:
            return True, queue.popleft()["reply"]
        return False, None


def is_error(reply: Any) -> bool:
    return isinstance(reply, dict) and "error" in reply


def script_name(source: str) -> str:
    """Returns the name of the script with this source, which starts with the fragments that the script needs."""
    files = {file.stem: file.read_bytes().decode("latin-1").rstrip() for file in SOURCES.rglob("*.lua")}
    found = [name for name, text in files.items() if source.rstrip().endswith(text)]
    return max(found, key=lambda name: len(files[name]), default="")


class Reader:
    """Turns groups of commands into calls."""

    def __init__(self, server: str, replies: Replies) -> None:
        self.server = server
        self.replies = replies
        self.replicas: dict[int, Replica] = collections.defaultdict(Replica)
        # Each script's source and name by its digest.
        self.scripts: dict[str, tuple[str, str]] = {}
        # By script, commands and index of a key: whether that key was there before such calls.
        self.seen: dict[tuple[str, tuple[str, ...], int], set[bool]] = collections.defaultdict(set)
        # What was decided about keys that ended at most 2 ms from a call.
        self.doubts: collections.Counter[str] = collections.Counter()

    def feed(self, group: list[Command]) -> Call | None:
        """Follows a command; returns the call if it is one of a script that is known by then."""
        first, *inner = group
        if first.name in {"EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO"}:
            digest = first.args[1] if "SHA" in first.name else self.load(first.args[1])
            if digest.lower() in self.scripts:
                return self.call(self.scripts[digest.lower()][1], first, inner)
            if inner:
                raise ValueError(f"{self.server}: script {digest} was loaded before the recording started")
            self.replies.take(first)
            return None
        if inner:
            raise ValueError(f"{self.server}: {first.name} contains commands of a script")
        if first.name == "SCRIPT" and first.args[1].upper() == "LOAD":
            self.load(first.args[2])
        elif first.name == "SCRIPT" and first.args[1].upper() == "FLUSH":
            self.scripts.clear()
        elif first.name == "FLUSHALL":
            self.replicas.clear()
        else:
            self.replicas[first.database].apply(first.args, first.time // 1000)
        return None

    def load(self, source: str) -> str:
        digest = hashlib.sha1(source.encode("latin-1")).hexdigest()
        if digest not in self.scripts:
            self.scripts[digest] = (source, script_name(source))
        return digest

    def call(self, script: str, first: Command, inner: list[Command]) -> Call:
        count = int(first.args[2])
        keys, args = first.args[3 : 3 + count], first.args[3 + count :]
        has_reply, reply = self.replies.take(first)
        time, slack = clock(first, inner, reply)
        replica = self.replicas[first.database]
        is_doubtful = self.end(replica, script, first, inner, keys)
        before = {key: replica.show(key) for key in keys}
        # By how many ms the clock had advanced when the script asked for how long a key lasts.
        shifts: dict[str, int] = {}
        for last, command in itertools.pairwise([first, *inner]):
            late = command.time // 1000 - time // 1000
            # Redis read the clock for a command after it printed the last one; perhaps in the ms before.
            is_rounded = last.time // 1000 != command.time // 1000
            if command.name == "PTTL":
                key = command.args[1]
                # The key's end is moved by one shift only.
                is_moved = replica.shifts.get(key, shifts.setdefault(key, late)) != late
                entry = replica.entries.get(key)
                if has_reply and entry and (entry.is_rounded or is_rounded or is_moved):
                    self.doubts["reply left out"] += 1
                    has_reply, reply = False, None
            for key in replica.apply(command.args, command.time // 1000):
                # The script gave the time that the key lasts relative to the running clock.
                replica.shifts[key] = late
                if key in replica.entries:
                    replica.entries[key].is_rounded = is_rounded
        after = {key: replica.show(key) for key in keys}
        for key in keys:
            old, new = before[key], after[key]
            shift(new, replica.shifts.get(key, shifts.get(key, 0)), time)
            shift(old, shifts.get(key, 0), time)
        replica.shifts.clear()
        replica.alive.clear()
        return Call(
            script, self.server, time, keys, args, reply,
            [copy.deepcopy(before[key]) for key in keys], [copy.deepcopy(after[key]) for key in keys],
            has_reply, slack, is_doubtful,
        )  # fmt: skip

    def end(self, replica: Replica, script: str, first: Command, inner: list[Command], keys: list[str]) -> bool:
        """Removes the keys whose time has passed. The clocks of both sides have been read up to a ms late.

        Returns whether only MONITOR's clock says if a key was still there."""
        now = first.time // 1000
        is_doubtful = False
        shape = tuple(shape_of(command, keys) for command in inner)
        for index, key in enumerate(keys):
            entry = replica.entries.get(key)
            past = now - entry.until if entry and entry.until is not None else -1
            if past not in (0, 1):
                is_there = entry is not None and past < 0
                self.seen[script, shape, index].add(is_there)
            else:
                seen = self.seen[script, shape, index]
                is_there = next(iter(seen)) if len(seen) == 1 else past == 0
                is_doubtful = is_doubtful or len(seen) != 1
                self.doubts["by the script's commands" if len(seen) == 1 else "by the clock"] += 1
            if entry and not is_there:
                del replica.entries[key]
            elif entry:
                replica.alive.add(key)
        return is_doubtful


def shape_of(command: Command, keys: list[str]) -> str:
    """Returns a command's name and the position of its key."""
    key = command.args[1] if len(command.args) > 1 else ""
    return f"{command.name} {keys.index(key) if key in keys else '-'}"


def shift(entry: dict[str, Any] | None, late: int, time: int) -> None:
    """Lets a key end as though Redis's clock, which the script read `late` ms after its start, had stood still."""
    if entry and "until" in entry:
        entry["until"] = max(entry["until"] - late, time // 1000)


def numbers(reply: Any) -> Iterator[int]:
    """Yields the integers of a reply; those of 64 bits also if they are packed by msgpack."""
    if isinstance(reply, list):
        for part in reply:
            yield from numbers(part)
    elif isinstance(reply, int):
        yield reply
    elif isinstance(reply, str):
        for packed in re.findall(r"\xcf(.{8})", reply, re.DOTALL):
            yield int.from_bytes(packed.encode("latin-1"), "big")


def clock(first: Command, inner: list[Command], reply: Any) -> tuple[int, int]:
    """Returns the time in microseconds at which a script read the clock, and by how many the time may be late.

    MONITOR prints a command some microseconds after Redis has read the clock for it. The exact time often appears in
    what the script writes or replies. Before Redis 7.2, the clock runs during a script, which may read it again."""
    readings = [command.time for command in inner if command.name == "TIME"]
    # The script saw two ms, so every time in ms that it used is doubtful.
    has_changed = bool(inner) and first.time // 1000 != inner[-1].time // 1000
    if not readings:
        return first.time, 1000 if has_changed else 0
    last = readings[-1]
    slack = max(last - first.time + EARLY, 1000 if has_changed else 0)
    found = [int(text) for command in inner for arg in command.args[1:] for text in TIMES.findall(arg)]
    found += numbers(reply)
    for number in found:
        # A number that the script has made even may exceed the clock by 1.
        if first.time - EARLY <= number <= last + 1:
            return number, 0 if len(readings) == 1 and not has_changed else slack
    for number in found:
        if (first.time - EARLY) // 1000 <= number <= last // 1000 != number:
            return number * 1000 + 999, slack
    return last, slack


def read(path: Path, replies: Path | None = None) -> Iterator[Call]:
    """Reads the calls of a recording; with the replies in a file by record.py, if there is one."""
    reader = Reader(path.stem, Replies(replies))
    for group in groups(path):
        call = reader.feed(group)
        if call:
            yield call
