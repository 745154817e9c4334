"""An open loop: sends calls at the times of a trace, without waiting for answers."""

import heapq
import select
import socket
import sys
import time
from collections.abc import Sequence

from rig.client import Replies, encode
from rig.traces import Trace

#: How long to wait for the last replies, in nanoseconds.
GRACE = 2_000_000_000


Planned = tuple[int, int, int]
"""A call to send: (time, index of the sidecar, until when it is repeated if it is refused)."""


class Sent:
    """A call that was sent, in nanoseconds of the epoch, which is the clock of Redis on this machine."""

    __slots__ = ("at", "granted", "late")

    def __init__(self, at: int, late: int) -> None:
        self.at = at
        #: Nanoseconds after the time of the trace.
        self.late = late
        #: None until it is answered.
        self.granted: bool | None = None


class SidecarConnection:
    """A connection to one sidecar, with its calls in flight."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.replies = Replies()
        #: In order of sending: (call, until when it is repeated if it is refused).
        self.pending: list[tuple[Sent, int]] = []

    def fileno(self) -> int:
        return self.socket.fileno()


def play(trace: Trace, ports: Sequence[int], service: str) -> list[Sent]:
    """Returns the calls as they were sent, repeated ones included."""
    connections = [SidecarConnection(port) for port in ports]
    command = encode("LIMIT.TAKE", service)
    # Leaves time to prepare.
    begin = time.time_ns() + 20_000_000
    # A sorted list is a heap. Repeated calls are pushed to it.
    planned = sorted(
        (begin + call.time, call.sidecar, begin + call.repeated_until if call.repeated_until else 0)
        for call in trace.calls
    )
    sent, last = [], begin + trace.length
    while planned or any(connection.pending for connection in connections):
        if time.time_ns() > last + GRACE:
            pending = sum(len(connection.pending) for connection in connections)
            sys.exit(f"benchmark: {pending} calls to {service} were not answered")
        sent += send_due(planned, connections, command)
        # select, because poll and epoll wait whole milliseconds.
        pause = (planned[0][0] if planned else last + GRACE) - time.time_ns()
        for connection in select.select(connections, [], [], max(0, pause) / 1e9)[0]:
            for again in answers(connection, connections.index(connection)):
                heapq.heappush(planned, again)
    for connection in connections:
        connection.socket.close()
    return sent


def send_due(planned: list[Planned], connections: Sequence[SidecarConnection], command: bytes) -> list[Sent]:
    """Sends the due calls, in one write for each sidecar."""
    due: list[list[tuple[int, int]]] = [[] for _ in connections]
    now = time.time_ns()
    while planned and planned[0][0] <= now:
        at, index, until = heapq.heappop(planned)
        due[index].append((at, until))
    sent = []
    for connection, calls in zip(connections, due, strict=True):
        if not calls:
            continue
        now = time.time_ns()
        calls_sent = [(Sent(now, now - at), until) for at, until in calls]
        connection.pending += calls_sent
        sent += [call for call, _ in calls_sent]
        connection.socket.sendall(command * len(calls_sent))
    return sent


def answers(connection: SidecarConnection, index: int) -> list[Planned]:
    """Reads replies. Returns the calls to repeat."""
    data = connection.socket.recv(1 << 16)
    if not data:
        sys.exit("benchmark: a sidecar closed the connection")
    now = time.time_ns()
    replies = connection.replies.feed(data)
    answered, connection.pending = connection.pending[: len(replies)], connection.pending[len(replies) :]
    again = []
    for (call, until), (limited, _, _, retry_after, _) in zip(answered, replies, strict=True):
        call.granted = not limited
        back = now + retry_after * 1_000_000
        if limited and back < until:
            again.append((back, index, until))
    return again
