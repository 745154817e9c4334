"""The cost of reported outcomes in Redis, at many permits per second.

There is one service, without limits. Without calls, a sidecar sends commands of its own every 5 seconds, so an idle
second may have none.
"""

import functools
import re
import select
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from figures.table import Table
from rig.client import Client, encode
from rig.servers import Rig, Sidecar, print_line

SERVICE = "outcomes"
CONFIGURATION = f"""
services:
  {SERVICE}: {{ breaker: {{ failure_rate: 50%, window: 10s, minimum_calls: 20 }} }}
"""
#: Reports per second of all clients together.
RATE = 50_000
FLEETS = (1, 2)
#: The connections to each sidecar.
CONNECTIONS = 8
#: Calls in one pipeline. One of them fails.
BATCH = 100
BOUND = 40
EXPLANATION = f"""\
Each sidecar has {CONNECTIONS} connections. Pipelines of {BATCH} have one error each, which trips nothing. *Idle* is a
second without calls."""
ACQUIRE = encode("PERMIT.ACQUIRE", SERVICE) * BATCH
PERMIT = re.compile(rb":1\r\n\$32\r\n([0-9a-f]{32})\r\n")
#: Lines of the reply to a permit and to a report.
LINES = 7, 2


def report(permit: bytes, index: int) -> bytes:
    """Encodes reports, of which the first of a batch is an error."""
    return encode("PERMIT.REPORT", SERVICE, permit, "OK" if index else "ERROR")


class Caller:
    """A connection that acquires a batch of permits and reports their outcomes, in a loop."""

    def __init__(self, port: int) -> None:
        self.socket = Client(port).socket
        self.received = b""
        #: Lines still to come; 0 if no batch is in flight.
        self.lines = 0
        self.permits: list[bytes] = []
        self.reported = 0

    @property
    def is_idle(self) -> bool:
        return not self.lines

    def turn(self) -> None:
        """Reports on the last batch and requests the next one."""
        reports = b"".join(report(permit, index) for index, permit in enumerate(self.permits))
        self.lines = len(self.permits) * LINES[1] + BATCH * LINES[0]
        self.reported += len(self.permits)
        self.socket.sendall(reports + ACQUIRE)

    def receive(self) -> None:
        self.received += self.socket.recv(1 << 16)
        if b"\r\n-" in self.received or self.received.startswith(b"-"):
            sys.exit(f"benchmark: outcomes: {self.received[-300:]!r}")
        if self.received.count(b"\r\n") < self.lines:
            return
        self.permits = PERMIT.findall(self.received)
        if len(self.permits) != BATCH:
            sys.exit(f"benchmark: outcomes: {BATCH - len(self.permits)} of {BATCH} permits were refused")
        self.received, self.lines = b"", 0


def measure(rig: Rig, table: Table, rounds: int, scale: int) -> None:
    seconds = max(2, 5 * scale / 100)
    for count in FLEETS:
        sidecars = rig.start_fleet(count)
        idle = commands_per_second(sidecars, lambda: time.sleep(1))
        rates, commands = [], []
        for number in range(1, rounds + 1):
            print_line(f"outcomes, sidecars: {count}, round {number} of {rounds}, {seconds:.0f} s …")
            callers = [Caller(sidecar.port) for sidecar in sidecars for _ in range(CONNECTIONS)]
            commands.append(commands_per_second(sidecars, functools.partial(run, callers, seconds)))
            rates.append(sum(caller.reported for caller in callers) / seconds)
        states = [Client(sidecar.port).command("BREAKER.STATE", SERVICE)[3] for sidecar in sidecars]
        if states != [b"closed"] * count:
            sys.exit(f"benchmark: outcomes: the breaker is {states}")
        for sidecar in sidecars:
            rig.stop(sidecar.process)
        add_rows(table, count, statistics.median(rates), statistics.median(commands), idle)


def commands_per_second(sidecars: Sequence[Sidecar], work: Callable[[], object]) -> float:
    """Returns the mean commands per second that each sidecar sends to Redis during `work`."""
    before, begin = sum(sidecar.redis_commands() for sidecar in sidecars), time.monotonic()
    work()
    length = time.monotonic() - begin
    return (sum(sidecar.redis_commands() for sidecar in sidecars) - before) / length / len(sidecars)


def run(callers: Sequence[Caller], seconds: float) -> None:
    """Runs the callers, each at its own times. A late caller takes its turn immediately."""
    begin = time.monotonic()
    pace = len(callers) * BATCH / RATE
    due = {caller: begin + pace * index / len(callers) for index, caller in enumerate(callers)}
    # Permits of the first turns are reported in the second ones.
    end = begin + seconds + pace
    by_socket = {caller.socket: caller for caller in callers}
    while (now := time.monotonic()) < end:
        for caller in callers:
            if caller.is_idle and due[caller] <= now:
                caller.turn()
                due[caller] += pace
        next_at = min((due[caller] for caller in callers if caller.is_idle), default=end)
        for ready in select.select(by_socket, [], [], max(0, min(next_at, end) - time.monotonic()))[0]:
            by_socket[ready].receive()


def add_rows(table: Table, count: int, rate: float, commands: float, idle: float) -> None:
    label = f"{count} {'sidecar' if count == 1 else 'sidecars'}"
    table.add(f"{label}: outcomes reported", f"{rate:,.0f}/s", f"offered {RATE:,}/s", f"{rate:,.0f}/s")
    table.add(
        f"{label}: commands to Redis per sidecar",
        f"{commands:.1f}/s",
        f"idle {idle:.1f}/s",
        f"{commands:.1f}/s",
        f"≤ {BOUND}/s",
        commands <= BOUND,
    )
