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
#: A request that is sent later than this, in nanoseconds, was delayed by the loop and not by the server.
LATE = 1_000_000
#: The open loop does not sleep in the last nanoseconds before a request is due: waking up takes that long.
SPIN = 30_000
END = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
#: Of prctl(2): how late the kernel may wake this thread, in nanoseconds.
PR_SET_TIMERSLACK = 29


def request(method: str, path: str, body: bytes = b"") -> bytes:
    """Returns the bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + END + body


class Answer(NamedTuple):
    status: int
    body: bytes


def parse(data: bytes) -> Answer | None:
    """Returns the answer at the start of these bytes, or None if it is not complete. Requires Content-Length."""
    end = data.find(END)
    if end < 0:
        return None
    length = LENGTH.search(data, 0, end + 2)
    if not length:
        raise RuntimeError(f"an answer without Content-Length: {data[:end].decode(errors='replace')}")
    body, size = data[end + len(END) :], int(length[1])
    return Answer(int(data[9:12]), body[:size]) if len(body) >= size else None


class WebClient:
    """A minimal HTTP client for timing single round trips over one connection: one request, one answer."""

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


class LoopResult(NamedTuple):
    """The result of an open loop. Times are microseconds from when a request was due."""

    p50: float
    p99: float
    #: The fraction of requests that the loop itself sent later than `LATE`.
    late: float
    #: The fraction of requests that had to wait because no connection was free.
    queued: float
    #: Answers other than 200.
    refused: int


class LoopConnection(WebClient):
    """One connection of the loop, with its request in flight."""

    #: When the request was due.
    due = 0
    data = b""


def play(port: int, request: bytes, times: Sequence[int], connections: int) -> LoopResult:
    """Sends the request at these times, in nanoseconds from the beginning, each over a connection that is free. If none
    is, the request waits, and its latency includes the wait."""
    by_descriptor = {}
    for _ in range(connections):
        connection = LoopConnection(port)
        # The first request of a connection is not counted, because it takes longer.
        connection.ask(request)
        connection.socket.setblocking(False)
        by_descriptor[connection.fileno()] = connection
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    gc.disable()
    try:
        return loop(by_descriptor, request, times)
    finally:
        gc.enable()
        for connection in by_descriptor.values():
            connection.close()


def loop(by_descriptor: dict[int, LoopConnection], request: bytes, times: Sequence[int]) -> LoopResult:
    free = collections.deque(by_descriptor.values())
    busy: set[int] = set()
    latencies: list[int] = []
    late = queued = refused = sent = 0
    # Leaves time to prepare.
    begin = time.monotonic_ns() + 5_000_000
    last = begin + times[-1] + GRACE
    #: The time since which a connection is free.
    freed = begin
    while sent < len(times) or busy:
        while sent < len(times) and free and (due := begin + times[sent]) <= (now := time.monotonic_ns()):
            connection = free.popleft()
            connection.due = due
            connection.socket.send(request)
            busy.add(connection.fileno())
            sent += 1
            queued += due < freed
            late += now - max(due, freed) > LATE
        now = time.monotonic_ns()
        if now > last:
            sys.exit(f"benchmark: {len(busy)} requests were not answered, and {len(times) - sent} could not be sent")
        # select, because poll and epoll wait whole milliseconds.
        pause = (begin + times[sent] if sent < len(times) and free else last) - now
        for number in select.select(busy, [], [], max(0, pause - SPIN) / 1e9)[0]:
            connection = by_descriptor[number]
            data = connection.socket.recv(1 << 16)
            if not data:
                sys.exit("benchmark: a server closed a connection with a request in flight")
            connection.data += data
            answer = parse(connection.data)
            if answer is None:
                continue
            now = time.monotonic_ns()
            latencies.append(now - connection.due)
            refused += answer.status != 200
            connection.data = b""
            busy.remove(number)
            if not free:
                freed = now
            free.append(connection)
    latencies.sort()
    count = len(latencies)
    return LoopResult(
        latencies[count // 2] / 1000, latencies[count * 99 // 100] / 1000, late / count, queued / count, refused
    )
