"""What was taken from a limit and when, of the commands that the take script ran on the limit's key.

Commands are (nanoseconds of the epoch, words), as `monitor` has them; grants are (nanoseconds, cost), both in order.
"""

import re

#: An entry of a log: microseconds of the epoch, and the cost.
ENTRY = re.compile(rb"(\d{16}):(\d+)")


def fixed(commands):
    """The grants in each life of a counter: a SET begins it, each INCRBY goes on."""
    lives = []
    for at, words in commands:
        if words[0] == b"SET":
            lives.append([(at, int(words[2]))])
        elif words[0] == b"INCRBY":
            lives[-1].append((at, int(words[2])))
    return lives


def counted(commands, limit):
    """The same of a counter that counts refused calls too, as the library `limits` does: an INCRBY whose next is an EXPIRE begins
    a life, and its first `limit` calls were granted."""
    lives = []
    for (at, words), (_, next_words) in zip(commands, [*commands[1:], (0, [b""])]):
        if words[0].upper() != b"INCRBY":
            continue
        if next_words[0].upper() == b"EXPIRE" or not lives:
            lives.append([])
        lives[-1].append((at, int(words[2])))
    return [life[:limit] for life in lives]


def pushed(commands):
    """The entries that were pushed to a list, a call each."""
    return [(at, len(words) - 2) for at, words in commands if words[0].upper() == b"LPUSH"]


def sliding(commands):
    """The entries that were written to a log, with the times that they carry."""
    entries = [ENTRY.fullmatch(word) for _, words in commands if words[0] == b"HSET" for word in words[3::2]]
    return [(int(entry[1]) * 1000, int(entry[2])) for entry in entries if entry]


def smooth(commands, limit, window):
    """The steps of a theoretical arrival time, each a SET: a grant moves it on by `window` ÷ `limit`, from now at the least."""
    grants, arrival = [], 0
    for at, words in commands:
        if words[0] == b"SET":
            # Fractions of a microsecond stand behind a colon.
            reached = int(words[2].partition(b":")[0]) * 1000
            grants.append((at, round((reached - max(at, arrival)) * limit / window)))
            arrival = reached
    return grants
