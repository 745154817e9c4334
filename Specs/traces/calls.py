"""The calls of Redis scripts: reading them from a file, and writing their parts as TLA+."""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parents[2] / "Sources" / "Interlock"
# TLC's integers have 32 bits.
MAX_INTEGER = 2**31 - 1
# The errors with which a server refuses a script's first write, or a script that it has not loaded. Before Redis 7.0, a
# description of the script precedes the error. The last two are those of a cluster.
REFUSAL = re.compile(
    r"(?:ERR Error running script [^:]*: (?:@user_script: ?\d+: )*-?)?"
    r"(?:(OOM|READONLY|NOREPLICAS|MISCONF|NOSCRIPT)\b"
    r"|ERR Script attempted to (?:access a non local key|execute a command while the cluster is down))"
)
# A source that has at least this part of the lines of a script's file belongs to an older or newer version of it.
SIMILAR = 0.5


class InputError(Exception):
    """Calls that cannot be read. The message names the file."""


class SkippedError(Exception):
    """A call that no specification covers. The message is the reason, which the summary counts."""


class ElsewhereError(SkippedError):
    """A call that another encoder translates, because of the state of its keys."""


class UnexpectedError(Exception):
    """A reply that no operator gives, so that the call is illegal."""


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
    # The messages that the script sent by PUBLISH: channel, message, and the number of receivers, or None if that is
    # not known. None if the recording shows no messages.
    published: list[tuple[str, str, int | None]] | None = None
    # The errors that the script's commands returned, also those that it handled. None if the recording does not show
    # them.
    refused: list[str] | None = None

    def remaining(self, entry: dict[str, Any]) -> int | None:
        """Returns the milliseconds until the entry expires, or None if it does not."""
        return entry["until"] - self.time // 1000 if "until" in entry else None


def is_error(reply: Any) -> bool:
    """Returns whether a reply is an error."""
    return isinstance(reply, dict) and "error" in reply


def is_refused(call: Call, kinds: Sequence[str]) -> bool:
    """Returns whether the server refused the call, which then must have changed nothing.

    `kinds` are the types of the keys. Raises SkippedError if other software uses a key for another type, and
    UnexpectedError for any other error, because a script must not fail.
    """
    if not is_error(call.reply):
        return False
    text = call.reply["error"]
    if REFUSAL.match(text):
        return True
    if "WRONGTYPE" in text and any(
        entry is not None and kind not in entry for entry, kind in zip(call.before, kinds, strict=False)
    ):
        raise SkippedError("other software uses the key for another type")
    raise UnexpectedError(text)


def lacks_memory(errors: Sequence[str]) -> bool:
    """Returns whether one of the errors says that the server has no memory left."""
    return any((match := REFUSAL.match(text)) and match[1] == "OOM" for text in errors)


def translate(encode: Callable[[Call], str], call: Call) -> str:
    """Translates a call into a step.

    A reply of another shape, and keys that the script left in another shape, make an illegal step. Raises InputError
    if the arguments or the keys before the call cannot be read.
    """
    try:
        return encode(call)
    except SkippedError:
        raise
    except UnexpectedError:
        return unexpected(call)
    except Exception as error:
        try:
            encode(dataclasses.replace(call, reply=None, has_reply=False, after=call.before))
        except SkippedError:
            raise
        except Exception:
            raise InputError(f"the keys or arguments of {call.script} cannot be read: {error!r}") from error
        return unexpected(call)


def unexpected(call: Call) -> str:
    """Writes the step of a call that is illegal whatever the specification says."""
    return tla({"unexpected": call.script})


@functools.cache
def script_files() -> dict[str, str]:
    """Returns the text of each Lua file by its name."""
    return {file.stem: file.read_bytes().decode("latin-1").rstrip() for file in SOURCES.rglob("*.lua")}


@functools.cache
def script_name(source: str) -> str:
    """Returns the name of the longest file with which a source ends, or an empty string.

    A source starts with the fragments that the script needs.
    """
    files = script_files()
    found = [name for name, text in files.items() if source.rstrip().endswith(text)]
    return max(found, key=lambda name: len(files[name]), default="")


@functools.cache
def changed_file(source: str) -> str:
    """Returns the name of the file whose other version a source without a file is, or an empty string."""
    bodies = {name: body(text) for name, text in script_files().items()}
    # The fragments that the script needs are no sign of the script itself.
    for text in bodies.values():
        source = source.replace(text, "")
    lines = set(source.splitlines())

    def part(name: str) -> float:
        wanted = bodies[name].splitlines()
        return sum(line in lines for line in wanted if line) / len(wanted)

    best = max(bodies, key=part)
    return best if part(best) >= SIMILAR else ""


def body(text: str) -> str:
    """Returns a file's text without the line that names the fragments that it needs, as a script contains it."""
    first, _, rest = text.partition("\n")
    return rest if first.startswith("-- needs:") else text


class Unknown:
    """The calls of scripts whose source is no file's."""

    def __init__(self) -> None:
        self.calls: collections.Counter[str] = collections.Counter()
        # The files of which the recording has another version.
        self.changed: set[str] = set()

    def add(self, source: str) -> None:
        """Counts a call of the script with this source."""
        name = changed_file(source)
        self.calls[f"another version of {name}.lua" if name else source.strip().splitlines()[-1][:60]] += 1
        if name:
            self.changed.add(name)


def scripts_with(text: str, path: Path) -> set[str]:
    """Returns the names of the scripts in a file of calls whose source has this text."""
    with path.open(encoding="utf-8") as lines:
        entries = (json.loads(line) for line in lines if '"source":' in line)
        sources = {entry["source"] for entry in entries if text in entry.get("source", "")}
    return {script_name(source) for source in sources} - {""}


def read(path: Path, unknown: Unknown) -> Iterator[Call]:
    """Reads the calls that `simulate --scripts` wrote. Calls of scripts that are no file's are counted."""
    sources: dict[str, str] = {}
    number = 0
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                number += 1
                entry = json.loads(line)
                if "source" in entry:
                    sources[entry["script"]] = entry["source"]
                elif name := script_name(sources[entry["script"]]):
                    yield Call(
                        script=name,
                        server=entry["server"],
                        time=entry["time"],
                        keys=entry["keys"],
                        args=entry["args"],
                        reply=entry.get("reply"),
                        before=entry["before"],
                        after=entry["after"],
                        has_reply="reply" in entry,
                        slack=entry.get("slack", 0),
                        published=entry.get("published"),
                        refused=entry.get("refused"),
                    )
                else:
                    unknown.add(sources[entry["script"]])
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}:{number}: not a call that `simulate --scripts` writes: {error!r}") from error


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
