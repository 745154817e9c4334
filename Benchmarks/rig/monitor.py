"""What Redis runs and when, by MONITOR."""

import ast
import re
import socket
import threading
import time

from rig.client import Client, encode
from rig.servers import wait_until

LINE = re.compile(rb"\+?(\d+)\.(\d+) \[\d+ (\S+)\] (.*)")
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')


def words_of(line):
    """The quoted words of a line of MONITOR, as bytes."""
    return [ast.literal_eval(f'b"{word}"') for word in WORD.findall(line.decode("latin-1"))]


class Monitor:
    """Keeps everything that Redis runs until it is stopped. Redis is slower for everyone meanwhile."""

    def __init__(self, port):
        self.port = port
        self.chunks = []
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.sendall(encode("MONITOR"))
        wait_until(lambda: self.socket.recv(5) == b"+OK\r\n", "MONITOR")
        self.socket.settimeout(None)
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        while chunk := self.socket.recv(1 << 16):
            self.chunks.append(chunk)

    def stop(self, part):
        """The commands that scripts ran whose lines contain `part`: (nanoseconds of the epoch, words)."""
        mark = b"heard-%d" % time.monotonic_ns()
        Client(self.port).command("ECHO", mark)
        wait_until(lambda: mark in b"".join(self.chunks[-2:]), "the end of what MONITOR tells")
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()
        return commands(b"".join(self.chunks).split(b"\r\n"), part)


def commands(lines, part):
    """What scripts ran, of MONITOR's lines. A script that has asked for the time acts at that time."""
    found, clock = [], None
    for match in filter(None, map(LINE.match, lines)):
        seconds, fraction, source, rest = match.groups()
        at = int(seconds) * 1_000_000_000 + int(fraction) * 1000
        if source != b"lua":
            # Between any two scripts stands the call of one.
            clock = None
        elif rest == b'"TIME"':
            clock = at
        elif part in rest:
            found.append((clock or at, words_of(rest)))
    return found
