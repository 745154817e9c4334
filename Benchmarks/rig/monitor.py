"""The commands that Redis runs and their times, from MONITOR."""

import ast
import re
import socket
import threading
import time
from collections.abc import Iterable

from rig.client import Client, encode
from rig.servers import wait_until

Commands = list[tuple[int, list[bytes]]]
"""Commands that scripts ran: (nanoseconds of the epoch, words)."""

LINE = re.compile(rb"\+?(\d+)\.(\d+) \[\d+ (\S+)\] (.*)")
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')


def words_of(line: bytes) -> list[bytes]:
    """Returns the quoted words of a line of MONITOR as bytes."""
    return [ast.literal_eval(f'b"{word}"') for word in WORD.findall(line.decode("latin-1"))]


class Monitor:
    """Records everything that Redis runs until it is stopped. This slows Redis down."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.chunks: list[bytes] = []
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.sendall(encode("MONITOR"))
        wait_until(lambda: self.socket.recv(5) == b"+OK\r\n", "MONITOR")
        self.socket.settimeout(None)
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self) -> None:
        while chunk := self.socket.recv(1 << 16):
            self.chunks.append(chunk)

    def stop(self, part: bytes) -> Commands:
        """Returns the commands of scripts whose line contains `part`."""
        marker = b"end-%d" % time.monotonic_ns()
        Client(self.port).command("ECHO", marker)
        wait_until(lambda: marker in b"".join(self.chunks[-2:]), "the end of the output of MONITOR")
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()
        return commands(b"".join(self.chunks).split(b"\r\n"), part)


def commands(lines: Iterable[bytes], part: bytes) -> Commands:
    """Returns the commands of scripts in these lines of MONITOR. A script that called TIME runs at that time."""
    found: Commands = []
    clock = None
    for match in filter(None, map(LINE.match, lines)):
        seconds, fraction, source, rest = match.groups()
        at = int(seconds) * 1_000_000_000 + int(fraction) * 1000
        if source != b"lua":
            # The call of a script comes before its commands.
            clock = None
        elif rest == b'"TIME"':
            clock = at
        elif part in rest:
            found.append((clock or at, words_of(rest)))
    return found
