"""HTTP/1.1 over raw sockets: one request at a time, and an open loop of requests over persistent connections."""

import collections
import ctypes
import gc
import re
import select
import socket
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

#: How long to wait for the last answers, in nanoseconds.
GRACE = 5_000_000_000
#: A request that goes out later than this, in nanoseconds, was held up by the loop rather than by the server.
LATE = 1_000_000
#: The open loop does not sleep in the last nanoseconds before a request is due: waking up takes that long.
SPIN = 30_000
END = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
#: Of prctl(2): how late the kernel may wake this thread, in nanoseconds.
PR_SET_TIMERSLACK = 29


def request(method: str, path: str, body: bytes = b"") -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + END + body


class Answer(NamedTuple):
    status: int
    body: bytes


def parse(data: bytes) -> Answer | None:
    """The answer that these bytes begin with; None if it is not complete. Its head must tell the body's length."""
    end = data.find(END)
    if end < 0:
        return None
    length = LENGTH.search(data, 0, end + 2)
    if not length:
        raise RuntimeError(f"an answer without Content-Length: {data[:end].decode(errors='replace')}")
    body, size = data[end + len(END) :], int(length[1])
    return Answer(int(data[9:12]), body[:size]) if len(body) >= size else None


class WebClient:
    """The smallest HTTP client, for timing single round trips over one connection: one request, one answer."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        return self.socket.fileno()

    def ask(self, request: bytes) -> Answer:
        self.socket.sendall(request)
        data = b""
        while True:
            more = self.socket.recv(1 << 16)
            if not more:
                raise ConnectionResetError("the server has closed the connection")
            data += more
            if answer := parse(data):
                return answer

    def close(self) -> None:
        self.socket.close()


class Played(NamedTuple):
    """What an open loop saw. Times are microseconds from when a request was due."""

    p50: float
    p99: float
    #: The share of requests that the loop itself sent later than `LATE`.
    late: float
    #: The share of requests that had to wait because no connection was free.
    queued: float
    #: Answers other than 200.
    refused: int


class Pupil(WebClient):
    """One connection of the loop, with its request in flight."""

    #: When the request was due.
    due = 0
    data = b""


def play(port: int, request: bytes, times: Sequence[int], connections: int) -> Played:
    """Sends the request at these times, in nanoseconds from the beginning, each over a connection that is free. If none
    is, the request waits, and its latency goes on."""
    pupils = {}
    for _ in range(connections):
        pupil = Pupil(port)
        # Whatever the first request of a connection takes to prepare is not counted.
        pupil.ask(request)
        pupil.socket.setblocking(False)
        pupils[pupil.fileno()] = pupil
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    gc.disable()
    try:
        return loop(pupils, request, times)
    finally:
        gc.enable()
        for pupil in pupils.values():
            pupil.close()


def loop(pupils: dict[int, Pupil], request: bytes, times: Sequence[int]) -> Played:
    free = collections.deque(pupils.values())
    busy: set[int] = set()
    latencies: list[int] = []
    late = queued = refused = sent = 0
    # A moment to get ready.
    begin = time.monotonic_ns() + 5_000_000
    last = begin + times[-1] + GRACE
    #: Since when a connection is free.
    freed = begin
    while sent < len(times) or busy:
        while sent < len(times) and free and (due := begin + times[sent]) <= (now := time.monotonic_ns()):
            pupil = free.popleft()
            pupil.due = due
            pupil.socket.send(request)
            busy.add(pupil.fileno())
            sent += 1
            queued += due < freed
            late += now - max(due, freed) > LATE
        now = time.monotonic_ns()
        if now > last:
            sys.exit(f"benchmark: {len(busy)} requests were not answered, and {len(times) - sent} could not be sent")
        # select, because poll and epoll wait whole milliseconds.
        pause = (begin + times[sent] if sent < len(times) and free else last) - now
        for number in select.select(busy, [], [], max(0, pause - SPIN) / 1e9)[0]:
            pupil = pupils[number]
            data = pupil.socket.recv(1 << 16)
            if not data:
                sys.exit("benchmark: a server closed a connection with a request in flight")
            pupil.data += data
            answer = parse(pupil.data)
            if answer is None:
                continue
            now = time.monotonic_ns()
            latencies.append(now - pupil.due)
            refused += answer.status != 200
            pupil.data = b""
            busy.remove(number)
            if not free:
                freed = now
            free.append(pupil)
    latencies.sort()
    count = len(latencies)
    return Played(
        latencies[count // 2] / 1000, latencies[count * 99 // 100] / 1000, late / count, queued / count, refused
    )
