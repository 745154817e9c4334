"""Sends calls when a trace says so, whatever has been answered by then."""

import heapq
import select
import socket
import sys
import time

from rig.client import Replies, encode

#: Nanoseconds for which the last answers are awaited.
GRACE = 2_000_000_000


class Sent:
    """A call that was sent, in nanoseconds of the epoch, the clock of Redis on this machine."""

    __slots__ = ("at", "late", "granted")

    def __init__(self, at, late):
        self.at = at
        #: After how many nanoseconds it was, of the time that the trace names.
        self.late = late
        #: None: not answered yet.
        self.granted = None


class Door:
    """A connection to one sidecar, with the calls under way on it."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.replies = Replies()
        #: Of the sent ones, in order: (Sent, until when it returns if it is refused).
        self.pending = []

    def fileno(self):
        return self.socket.fileno()


def play(trace, ports, service):
    """The calls of a trace as they were sent, those that came back included."""
    doors = [Door(port) for port in ports]
    command = encode("LIMIT.TAKE", service)
    # A moment to get ready in.
    begin = time.time_ns() + 20_000_000
    # A heap, as a sorted list is, because some come back.
    planned = sorted((begin + call.time, call.sidecar, begin + call.returns_until if call.returns_until else 0)
                     for call in trace.calls)
    sent, last = [], begin + trace.length
    while planned or any(door.pending for door in doors):
        if time.time_ns() > last + GRACE:
            sys.exit(f"benchmark: {sum(len(door.pending) for door in doors)} calls to {service} were not answered")
        sent += send_due(planned, doors, command)
        # Not poll or epoll: they wait whole milliseconds.
        pause = (planned[0][0] if planned else last + GRACE) - time.time_ns()
        for door in select.select(doors, [], [], max(0, pause) / 1e9)[0]:
            for again in answers(door, doors.index(door)):
                heapq.heappush(planned, again)
    for door in doors:
        door.socket.close()
    return sent


def send_due(planned, doors, command):
    """Sends what is due, in one write to each sidecar."""
    due = [[] for _ in doors]
    now = time.time_ns()
    while planned and planned[0][0] <= now:
        at, place, until = heapq.heappop(planned)
        due[place].append((at, until))
    sent = []
    for door, calls in zip(doors, due):
        if not calls:
            continue
        now = time.time_ns()
        mine = [(Sent(now, now - at), until) for at, until in calls]
        door.pending += mine
        sent += [call for call, _ in mine]
        door.socket.sendall(command * len(mine))
    return sent


def answers(door, place):
    """Notes what came for the calls under way; those that come back, as they are to be planned."""
    data = door.socket.recv(1 << 16)
    if not data:
        sys.exit("benchmark: a sidecar closed the connection")
    now = time.time_ns()
    replies = door.replies.feed(data)
    answered, door.pending = door.pending[:len(replies)], door.pending[len(replies):]
    again = []
    for (call, until), (limited, _, _, retry_after, _) in zip(answered, replies):
        call.granted = not limited
        back = now + retry_after * 1_000_000
        if limited and back < until:
            again.append((back, place, until))
    return again
