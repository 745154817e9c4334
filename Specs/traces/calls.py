"""The calls of Redis scripts: reading them from a file, and writing their parts as TLA+."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parents[2] / "Sources" / "Interlock"
# TLC's integers have 32 bits.
MAX_INTEGER = 2**31 - 1


class SkippedError(Exception):
    """A call that no specification covers. The message is the reason, which the summary counts."""


class ElsewhereError(SkippedError):
    """A call that another encoder translates, because of the state of its keys."""


@dataclasses.dataclass
class Call:
    """One call of a script. Each character of a string stands for one byte."""

    # The name of the Lua file.
    script: str
    server: str
    # Redis's clock in microseconds, which is paused while a script runs.
    time: int
    keys: list[str]
    args: list[str]
    # A number, a string, None, a list, {"status": text} or {"error": text}.
    reply: Any
    # The value of each key by its type, "string", "hash" or "zset", the last two as pairs; "until" is the Unix time in
    # milliseconds at which it expires. None if the key does not exist.
    before: list[dict[str, Any] | None]
    after: list[dict[str, Any] | None]
    # MONITOR shows no replies.
    has_reply: bool = True
    # By how many microseconds `time` may be late: MONITOR shows no exact times.
    slack: int = 0
    # A key ended so close to the call that MONITOR does not show whether the call found it.
    is_doubtful: bool = False

    def remaining(self, entry: dict[str, Any]) -> int | None:
        """Returns the milliseconds until the entry expires, or None if it does not."""
        return entry["until"] - self.time // 1000 if "until" in entry else None


def script_names(sources: dict[str, str]) -> dict[str, str]:
    """Returns the name of the file with which each source ends, by digest. A digest without such a file is left out."""
    files = {file.stem: file.read_bytes().decode("latin-1").rstrip() for file in SOURCES.rglob("*.lua")}
    names = {}
    for digest, source in sources.items():
        matches = [name for name, text in files.items() if source.rstrip().endswith(text)]
        if matches:
            names[digest] = max(matches, key=lambda name: len(files[name]))
    return names


def scripts_with(text: str, path: Path) -> set[str]:
    """Returns the names of the scripts in a file of calls whose source has this text."""
    with path.open(encoding="utf-8") as lines:
        entries = (json.loads(line) for line in lines if '"source":' in line)
        sources = {entry["script"]: entry["source"] for entry in entries if text in entry.get("source", "")}
    return set(script_names(sources).values())


def read(path: Path) -> Iterator[Call]:
    """Reads the calls that `simulate --scripts` wrote. Calls of scripts that are no file's are left out."""
    names: dict[str, str] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if "source" in entry:
                names |= script_names({entry["script"]: entry["source"]})
            elif entry["script"] in names:
                yield Call(
                    script=names[entry["script"]],
                    server=entry["server"],
                    time=entry["time"],
                    keys=entry["keys"],
                    args=entry["args"],
                    reply=entry.get("reply"),
                    before=entry["before"],
                    after=entry["after"],
                    has_reply="reply" in entry,
                    slack=entry.get("slack", 0),
                )


def tla(value: object) -> str:
    """Writes a value as TLA+: a dictionary as a record, a list or tuple as a sequence."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            if abs(value) > MAX_INTEGER:
                raise ValueError(f"{value} does not fit into TLC's integers")
            return str(value)
        case str():
            return json.dumps(value)
        case dict():
            return "[" + ", ".join(f"{name} |-> {tla(item)}" for name, item in value.items()) + "]"
        case list() | tuple():
            return "<<" + ", ".join(map(tla, value)) + ">>"
        case set() | frozenset():
            return "{" + ", ".join(sorted(map(tla, value))) + "}"
        case _:
            raise TypeError(f"cannot write {value!r} as TLA+")
