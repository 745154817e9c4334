"""The takes from a limit and their times, from the commands that the take script ran on the limit's key.

Commands are those of `rig.monitor`, grants are (nanoseconds, cost), both in order.
"""

import re

from figures.oracles import Grants
from rig.monitor import Commands

#: An entry of a log: microseconds of the epoch, and the cost.
ENTRY = re.compile(rb"(\d{16}):(\d+)")


def fixed(commands: Commands) -> list[Grants]:
    """Returns the grants of each life of a counter. SET starts a life, INCRBY adds to it."""
    lives: list[Grants] = []
    for at, words in commands:
        if words[0] == b"SET":
            lives.append([(at, int(words[2]))])
        elif words[0] == b"INCRBY":
            lives[-1].append((at, int(words[2])))
    return lives


def counted(commands: Commands, limit: int) -> list[Grants]:
    """Returns the same for a counter that includes refused calls, as in the library `limits`.

    An INCRBY that is followed by EXPIRE starts a life. The first `limit` calls of a life were granted.
    """
    lives: list[Grants] = []
    for (at, words), (_, next_words) in zip(commands, [*commands[1:], (0, [b""])], strict=True):
        if words[0].upper() != b"INCRBY":
            continue
        if next_words[0].upper() == b"EXPIRE" or not lives:
            lives.append([])
        lives[-1].append((at, int(words[2])))
    return [life[:limit] for life in lives]


def pushed(commands: Commands) -> Grants:
    """Returns the entries pushed to a list. Each push is one call."""
    return [(at, len(words) - 2) for at, words in commands if words[0].upper() == b"LPUSH"]


def sliding(commands: Commands) -> Grants:
    """Returns the entries written to a log. They contain their times."""
    entries = [ENTRY.fullmatch(word) for _, words in commands if words[0] == b"HSET" for word in words[3::2]]
    return [(int(entry[1]) * 1000, int(entry[2])) for entry in entries if entry]


def smooth(commands: Commands, limit: int, window: int) -> Grants:
    """Returns the steps of a theoretical arrival time, which SET stores. A grant adds `window` ÷ `limit` to it, or to
    the present."""
    grants: Grants = []
    arrival = 0
    for at, words in commands:
        if words[0] == b"SET":
            # Fractions of a microsecond follow a colon.
            reached = int(words[2].partition(b":")[0]) * 1000
            grants.append((at, round((reached - max(at, arrival)) * limit / window)))
            arrival = reached
    return grants
