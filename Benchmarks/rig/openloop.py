"""An open loop: sends calls at the times of a trace, whether or not earlier ones are answered."""

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
"""A call to send: (time, place of the sidecar, until when it is repeated if it is refused)."""


class Sent:
    """A call that was sent, in nanoseconds of the epoch, which is the clock of Redis on this machine."""

    __slots__ = ("at", "granted", "late")

    def __init__(self, at: int, late: int) -> None:
        self.at = at
        #: Nanoseconds after the time of the trace.
        self.late = late
        #: None until it is answered.
        self.granted: bool | None = None


class Door:
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
    doors = [Door(port) for port in ports]
    command = encode("LIMIT.TAKE", service)
    # A moment to get ready.
    begin = time.time_ns() + 20_000_000
    # A sorted list is a heap. Repeated calls are pushed to it.
    planned = sorted(
        (begin + call.time, call.sidecar, begin + call.returns_until if call.returns_until else 0)
        for call in trace.calls
    )
    sent, last = [], begin + trace.length
    while planned or any(door.pending for door in doors):
        if time.time_ns() > last + GRACE:
            sys.exit(f"benchmark: {sum(len(door.pending) for door in doors)} calls to {service} were not answered")
        sent += send_due(planned, doors, command)
        # select, because poll and epoll wait whole milliseconds.
        pause = (planned[0][0] if planned else last + GRACE) - time.time_ns()
        for door in select.select(doors, [], [], max(0, pause) / 1e9)[0]:
            for again in answers(door, doors.index(door)):
                heapq.heappush(planned, again)
    for door in doors:
        door.socket.close()
    return sent


def send_due(planned: list[Planned], doors: Sequence[Door], command: bytes) -> list[Sent]:
    """Sends what is due, in one write for each sidecar."""
    due: list[list[tuple[int, int]]] = [[] for _ in doors]
    now = time.time_ns()
    while planned and planned[0][0] <= now:
        at, place, until = heapq.heappop(planned)
        due[place].append((at, until))
    sent = []
    for door, calls in zip(doors, due, strict=True):
        if not calls:
            continue
        now = time.time_ns()
        mine = [(Sent(now, now - at), until) for at, until in calls]
        door.pending += mine
        sent += [call for call, _ in mine]
        door.socket.sendall(command * len(mine))
    return sent


def answers(door: Door, place: int) -> list[Planned]:
    """Reads replies. Returns the calls to repeat."""
    data = door.socket.recv(1 << 16)
    if not data:
        sys.exit("benchmark: a sidecar closed the connection")
    now = time.time_ns()
    replies = door.replies.feed(data)
    answered, door.pending = door.pending[: len(replies)], door.pending[len(replies) :]
    again = []
    for (call, until), (limited, _, _, retry_after, _) in zip(answered, replies, strict=True):
        call.granted = not limited
        back = now + retry_after * 1_000_000
        if limited and back < until:
            again.append((back, place, until))
    return again
