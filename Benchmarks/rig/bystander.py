"""A well-behaved client in its own process. It measures latencies and errors while others load its sidecar."""

import multiprocessing
import os
import statistics
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from rig.client import Client

#: Seconds from one turn of PING, LOCK.ACQUIRE and LOCK.RELEASE to the next.
PACE = 0.005
#: Milliseconds of its long lease, and seconds from one renewal to the next.
TTL = 3000
RENEWAL = 0.2
CALLS = ("PING", "LOCK.ACQUIRE", "LOCK.RENEW")


class Turn(NamedTuple):
    #: Nanoseconds of the monotonic clock, which all processes of a machine share.
    at: int
    call: str
    microseconds: float


class Figures(NamedTuple):
    """The latencies of one call within a span of time, in microseconds."""

    calls: int
    p50: float
    p99: float
    maximum: float

    @property
    def text(self) -> str:
        return f"{self.p50:,.0f}/{self.p99:,.0f}" if self.calls else "no answer"


class Bystander:
    """Calls at a fixed pace until it is stopped. It forks: create it before other connections.

    `pace` and `renewal` are seconds from one turn, and from one renewal, to the next."""

    def __init__(self, port: int, pace: float = PACE, renewal: float = RENEWAL, is_encrypted: bool = False) -> None:
        processes = multiprocessing.get_context("fork")
        self.results, child_end = processes.Pipe()
        self.process = processes.Process(target=run, args=(port, child_end, pace, renewal, is_encrypted), daemon=True)
        self.process.start()
        self.turns: list[Turn] = []
        #: Errors, and how often its lease was lost.
        self.errors: list[str] = []
        self.lost = 0

    def stop(self) -> None:
        self.results.send("stop")
        self.turns, self.errors, self.lost = self.results.recv()
        self.process.join()

    def figures(self, call: str, begin: int, end: int) -> Figures:
        """Returns the latencies of the calls between `begin` and `end`, in nanoseconds of the monotonic clock."""
        return figures([turn.microseconds for turn in self.turns if turn.call == call and begin <= turn.at < end])


def figures(times: Iterable[float]) -> Figures:
    times = sorted(times)
    if not times:
        return Figures(0, 0, 0, 0)
    return Figures(len(times), statistics.median(times), times[len(times) * 99 // 100], times[-1])


def run(port: int, orders: Connection, pace: float, renewal: float, is_encrypted: bool) -> None:
    turns: list[Turn] = []
    errors: list[str] = []
    lost = 0
    client = Client(port, is_encrypted)
    client.socket.settimeout(30)
    # Leases of earlier bystanders may still be held.
    kept, passing = f"kept-{os.getpid()}", f"passing-{os.getpid()}"
    token = client.command("LOCK.ACQUIRE", kept, TTL)[0]
    renewed = due = time.monotonic()
    while not orders.poll(max(0, due - time.monotonic())):
        due = max(due + pace, time.monotonic())
        try:
            timed(turns, "PING", client, "PING")
            [passing_token, *_] = timed(turns, "LOCK.ACQUIRE", client, "LOCK.ACQUIRE", passing, TTL)
            client.command("LOCK.RELEASE", passing, passing_token)
            if time.monotonic() - renewed >= renewal:
                renewed = time.monotonic()
                if timed(turns, "LOCK.RENEW", client, "LOCK.RENEW", kept, token, TTL) is None:
                    lost += 1
                    token = client.command("LOCK.ACQUIRE", kept, TTL)[0]
        except (OSError, RuntimeError, TypeError) as error:
            errors.append(repr(error))
            if not isinstance(error, RuntimeError):
                break
    # `stop` waits for this reply. If the loop ended by an error, `stop` is still to come.
    orders.recv()
    orders.send((turns, errors, lost))


def timed(turns: list[Turn], call: str, client: Client, *words: object) -> Any:
    begin = time.monotonic_ns()
    reply = client.command(*words)
    turns.append(Turn(begin, call, (time.monotonic_ns() - begin) / 1000))
    return reply
