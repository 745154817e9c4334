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

from traces.calls import Call, InputError, Unknown, is_error, lacks_memory, script_name
from traces.replica import Replica

LINE = re.compile(r"(\d+)\.(\d{6}) \[(\d+) ([^\]]*)\] (.*)")
ARGUMENT = re.compile(r'"((?:[^"\\]|\\.)*)" ?', re.DOTALL)
ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|.)", re.DOTALL)
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b"}
CALLS = {"EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO"}
# The digits of a time of this century in ms or microseconds.
TIMES = re.compile(r"(?<!\d)\d{13}(?:\d{3})?(?!\d)")
# Redis 7.2 and newer read the clock this many microseconds before MONITOR prints the script, at most.
EARLY = 20
# The calls with the same commands that must agree on whether a key existed, before they decide it for another call.
AGREEING = 20
# The number of replies in which to search for that of a call.
AHEAD = 100
# The part of the calls that may lack a reply, because sidecars are killed while they wait for it.
MISSING = 0.02


@dataclasses.dataclass
class Command:
    """A line of MONITOR."""

    # The Unix time in microseconds.
    time: int
    database: int
    # The client's address; "lua" for a command of the script before it.
    source: str
    args: list[str]
    # The number of the line.
    line: int = 0

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
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n") or line == "OK\n":
                continue
            try:
                command = parse(line[:-1])
            except ValueError as error:
                raise InputError(f"{path}:{number}: {error}") from error
            command.line = number
            yield command


def groups(path: Path) -> Iterator[list[Command]]:
    """Yields each command with the commands of its script, of which the last may be incomplete."""
    group: list[Command] = []
    for command in commands(path):
        if command.source == "lua":
            if not group:
                raise InputError(f"{path}: the recording starts within a script")
            group.append(command)
            continue
        if group:
            yield group
        group = [command]
    if group:
        yield group


class Replies:
    """The replies that record.py wrote: those of one port, in order."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.queues: dict[str, collections.deque[dict[str, Any]]] = collections.defaultdict(collections.deque)
        self.calls = 0
        # The calls that have no reply, and the replies that are to no call.
        self.missing = self.unused = 0
        # Whether any reply says that the server lacks memory.
        self.lacks_memory = False
        if path:
            self.load(path)

    def load(self, path: Path) -> None:
        """Reads the replies."""
        number = 0
        try:
            with path.open(encoding="utf-8") as lines:
                for line in lines:
                    number += 1
                    entry = json.loads(line)
                    self.queues[str(entry["port"])].append({"request": entry["request"], "reply": entry["reply"]})
                    if is_error(entry["reply"]) and lacks_memory([entry["reply"]["error"]]):
                        self.lacks_memory = True
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}:{number}: not a reply that record.py writes: {error!r}") from error

    def take(self, command: Command) -> tuple[bool, Any]:
        """Returns whether there is a reply to the command, and the reply. Drops the replies before it."""
        if not self.path:
            return False, None
        self.calls += 1
        queue = self.queues[command.source.rpartition(":")[2]]
        for index, entry in enumerate(itertools.islice(queue, AHEAD)):
            if entry["request"] == command.args:
                self.drop(queue, index)
                return True, queue.popleft()["reply"]
        self.missing += 1
        return False, None

    def drop(self, queue: collections.deque[dict[str, Any]], count: int) -> None:
        """Drops replies. MONITOR does not show a request that Redis rejected, so an error may be to no call."""
        for _ in range(count):
            self.unused += not is_error(queue.popleft()["reply"])

    def finish(self) -> None:
        """Drops the replies that are left."""
        for queue in self.queues.values():
            self.drop(queue, len(queue))

    @property
    def is_complete(self) -> bool:
        """Whether the replies are those of the calls."""
        return not self.unused and self.missing <= MISSING * self.calls


class Reader:
    """Turns groups of commands into calls."""

    def __init__(self, server: str, replies: Replies, unknown: Unknown) -> None:
        self.server = server
        self.unknown = unknown
        self.replies = replies
        self.replicas: dict[int, Replica] = collections.defaultdict(Replica)
        # Each script's source by its digest.
        self.scripts: dict[str, str] = {}
        # By script, commands and index of a key: how often that key was there before such calls, and how often not.
        self.seen: dict[tuple[str, tuple[str, ...], int], collections.Counter[bool]] = collections.defaultdict(
            collections.Counter
        )
        # The decisions about replies and keys that the running clock makes doubtful.
        self.doubts: collections.Counter[str] = collections.Counter()

    def feed(self, group: list[Command]) -> Call | None:
        """Follows a command. Returns the call if it is one of a script whose file is known."""
        first, *inner = group
        if first.name in CALLS:
            digest = first.args[1] if "SHA" in first.name else self.load(first.args[1])
            if digest.lower() in self.scripts:
                source = self.scripts[digest.lower()]
                call = self.call(script_name(source), first, inner)
                if call.script:
                    return call
                self.unknown.add(source)
                return None
            if inner:
                raise ValueError(f"script {digest} was loaded before the recording started")
            self.replies.take(first)
            return None
        if inner:
            raise ValueError(f"{first.name} contains commands of a script")
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
        self.scripts[digest] = source
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
                    self.doubts["reply left out, because the ms changed within the call"] += 1
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
        messages = [command.args[1:3] for command in inner if command.name == "PUBLISH"]
        return Call(
            script=script,
            server=self.server,
            time=time,
            keys=keys,
            args=args,
            reply=reply,
            before=[copy.deepcopy(before[key]) for key in keys],
            after=[copy.deepcopy(after[key]) for key in keys],
            has_reply=has_reply,
            slack=slack,
            is_doubtful=is_doubtful,
            published=[(channel, message, None) for channel, message in messages],
            # MONITOR does not show a command that Redis refused. Where no call lacked memory, no command did.
            refused=[] if self.replies.path and not self.replies.lacks_memory else None,
        )

    def end(self, replica: Replica, script: str, first: Command, inner: list[Command], keys: list[str]) -> bool:
        """Removes the keys whose time has passed. The clocks of both sides have been read up to a ms late.

        Returns whether only MONITOR's clock shows if a key was still there.
        """
        now, last = first.time // 1000, (inner or [first])[-1].time // 1000
        is_doubtful = False
        shape = tuple(shape_of(command, keys) for command in inner)
        for index, key in enumerate(keys):
            entry = replica.entries.get(key)
            past = now - entry.until if entry and entry.until is not None else -1
            if entry and entry.until is not None and past < 0 and entry.until <= last:
                # Before Redis 7.2, the key ends while the script runs.
                is_doubtful = True
                self.doubts["key that ended during the call, so the call is skipped"] += 1
                continue
            if past not in (0, 1):
                is_there = entry is not None and past < 0
                self.seen[script, shape, index][is_there] += 1
            else:
                seen = self.seen[script, shape, index]
                is_known = len(seen) == 1 and seen.total() >= AGREEING
                is_there = next(iter(seen)) if is_known else past == 0
                is_doubtful = is_doubtful or not is_known
                way = "by the script's commands" if is_known else "by MONITOR's clock, so the call is skipped"
                self.doubts[f"key that ended at the call, decided {way}"] += 1
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


class Recording:
    """A recording, with the replies in a file by record.py if there is one."""

    def __init__(self, path: Path, replies: Path | None, unknown: Unknown) -> None:
        self.path = path
        self.reader = Reader(path.stem, Replies(replies), unknown)

    def calls(self) -> Iterator[Call]:
        """Yields the calls."""
        last: list[Command] = []
        try:
            for group in groups(self.path):
                if last and (call := self.reader.feed(last)):
                    yield call
                last = group
            # The last script may be incomplete, but its reply may have been recorded.
            if last and last[0].name in CALLS:
                self.reader.replies.take(last[0])
        except OSError as error:
            raise InputError(f"{self.path}: {error.strerror}") from error
        except (ValueError, KeyError, IndexError, TypeError) as error:
            text = f"{self.path}:{last[0].line if last else 1}: {error}"
            raise InputError(f"{text}; only Interlock may use the recorded server") from error
        self.reader.replies.finish()

    def notes(self) -> dict[str, int]:
        """Returns the numbers of doubts, and of calls and replies that do not match."""
        replies = self.reader.replies
        counts = {"call without a reply": replies.missing, "reply without a call": replies.unused}
        return dict(self.reader.doubts.most_common()) | {text: count for text, count in counts.items() if count}
