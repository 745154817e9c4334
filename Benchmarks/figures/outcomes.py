"""What reported outcomes cost Redis: permits that are asked for and reported on, many a second."""

import re
import select
import statistics
import sys
import time

from rig.client import Client, encode
from rig.servers import say

SERVICE = "outcomes"
CONFIGURATION = f"""
services:
  {SERVICE}: {{ breaker: {{ failure_rate: 50%, window: 10s, minimum_calls: 20 }} }}
"""
#: Reported a second, by all clients together.
RATE = 50_000
FLEETS = (1, 2)
#: For each sidecar.
CONNECTIONS = 8
#: Calls that travel together; one of them fails.
BATCH = 100
BOUND = 40
EXPLANATION = f"""\
**Outcomes**: {RATE:,} permits a second asked for and reported on, in pipelines of {BATCH} over {CONNECTIONS} connections to each sidecar; one in
{BATCH} is an error, which trips nothing. The service has no limits, so that whatever goes to Redis is for the breaker, or for the sidecar
itself, as when it is idle."""
ACQUIRE = encode("PERMIT.ACQUIRE", SERVICE) * BATCH
PERMIT = re.compile(rb":1\r\n\$32\r\n([0-9a-f]{32})\r\n")
#: Of a permit, and of a report.
LINES = 7, 2


def report(permit, place):
    """One of a batch is an error."""
    return encode("PERMIT.REPORT", SERVICE, permit, "OK" if place else "ERROR")


class Caller:
    """One connection: it asks for a batch of permits and reports what became of them, again and again."""

    def __init__(self, port):
        self.socket = Client(port).socket
        self.received = b""
        #: How many lines end what is under way; 0: nothing is.
        self.lines = 0
        self.permits = []
        self.reported = 0

    @property
    def is_idle(self):
        return not self.lines

    def turn(self):
        """Reports on the last batch, and asks for another."""
        reports = b"".join(report(permit, place) for place, permit in enumerate(self.permits))
        self.lines = len(self.permits) * LINES[1] + BATCH * LINES[0]
        self.reported += len(self.permits)
        self.socket.sendall(reports + ACQUIRE)

    def receive(self):
        self.received += self.socket.recv(1 << 16)
        if b"\r\n-" in self.received or self.received.startswith(b"-"):
            sys.exit(f"benchmark: outcomes: {self.received[-300:]}")
        if self.received.count(b"\r\n") < self.lines:
            return
        self.permits = PERMIT.findall(self.received)
        if len(self.permits) != BATCH:
            sys.exit(f"benchmark: outcomes: {BATCH - len(self.permits)} of {BATCH} permits were refused")
        self.received, self.lines = b"", 0


def measure(rig, table, rounds, scale):
    seconds = max(2, 5 * scale / 100)
    for count in FLEETS:
        sidecars = rig.start_fleet(count)
        idle = commands_per_second(sidecars, lambda: time.sleep(1))
        rates, commands = [], []
        for number in range(1, rounds + 1):
            say(f"outcomes, sidecars: {count}, round {number} of {rounds}, {seconds:.0f} s …")
            callers = [Caller(sidecar.port) for sidecar in sidecars for _ in range(CONNECTIONS)]
            commands.append(commands_per_second(sidecars, lambda: run(callers, seconds)))
            rates.append(sum(caller.reported for caller in callers) / seconds)
        states = [Client(sidecar.port).command("BREAKER.STATE", SERVICE)[3] for sidecar in sidecars]
        if states != [b"closed"] * count:
            sys.exit(f"benchmark: outcomes: the breaker is {states}")
        for sidecar in sidecars:
            rig.stop(sidecar.process)
        tell(table, count, statistics.median(rates), statistics.median(commands), idle)


def commands_per_second(sidecars, work):
    """How many commands each sends to Redis meanwhile, at the mean."""
    before, begin = sum(sidecar.redis_commands() for sidecar in sidecars), time.monotonic()
    work()
    length = time.monotonic() - begin
    return (sum(sidecar.redis_commands() for sidecar in sidecars) - before) / length / len(sidecars)


def run(callers, seconds):
    """Each takes its turn at its own times; when it is not ready by then, as soon as it is."""
    begin = time.monotonic()
    pace = len(callers) * BATCH / RATE
    due = {caller: begin + pace * place / len(callers) for place, caller in enumerate(callers)}
    # What is asked for in the first turns is reported in the second ones.
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


def tell(table, count, rate, commands, idle):
    what = f"outcomes, {count} {'sidecar' if count == 1 else 'sidecars'}"
    table.add(f"{what}: reported", f"{rate:,.0f}/s", f"asked for {RATE:,}/s", f"{rate:,.0f}/s")
    table.add(f"{what}: commands to Redis of a service and sidecar", f"{commands:.1f}/s", f"idle {idle:.1f}/s", f"{commands:.1f}/s",
              f"≤ {BOUND}/s", commands <= BOUND)
