"""The time until a trip reaches the last sidecar of a fleet, and the calls that pass meanwhile."""

import bisect
import json
import random
import select
import statistics
import sys
import time
from collections.abc import Sequence

from figures.table import Table
from rig.client import Client, Replies, encode
from rig.monitor import Monitor
from rig.servers import Rig, print_line, wait_until

SIDECARS = 8
SERVICE = "trip"
EVENTS = "interlock:events"
CONFIGURATION = f"""
services:
  {SERVICE}: {{ permit_ttl: 1s, breaker: {{ minimum_calls: 1, failure_rate: 1%, open_for: 1m }} }}
"""
#: Nanoseconds between two calls to one sidecar, which continue during a trip.
PACE = 2_000_000
#: Nanoseconds of calls before and after each trip.
MARGIN = 5_000_000
#: The maximum nanoseconds until a trip has reached every sidecar.
TIMEOUT = 5_000_000_000
BOUND_MS = 10
EXPLANATION = f"""\
An error reported at one sidecar opens all breakers. Each sidecar is asked for a permit every {PACE / 1e6:.0f} ms, and
again at the event."""


class Member:
    """A sidecar of the fleet, with connections for single commands, for steady calls and for events."""

    CALL = encode("PERMIT.ACQUIRE", SERVICE)

    def __init__(self, port: int) -> None:
        self.client = Client(port)
        self.calls = Client(port).socket
        self.events = Client(port).socket
        self.events.sendall(encode("SUBSCRIBE", EVENTS))
        self.answers, self.messages = Replies(), Replies()
        #: Unanswered calls.
        self.pending = 0
        self.reset()

    def reset(self) -> None:
        """Prepares for the next trip."""
        #: Nanoseconds of the epoch: the first refusal, and each permit.
        self.refused_at: int | None = None
        self.granted_at: list[int] = []
        self.has_event = False

    def grants_permits(self) -> bool:
        return bool(self.client.command("PERMIT.ACQUIRE", SERVICE)[0] == b"1")

    def call(self) -> None:
        self.calls.sendall(self.CALL)
        self.pending += 1

    def take_answers(self, now: int) -> None:
        answers = self.answers.feed(self.calls.recv(1 << 16))
        self.pending -= len(answers)
        for granted, reason, *_ in answers:
            if granted:
                self.granted_at.append(now)
            elif reason == b"open" and self.refused_at is None:
                self.refused_at = now
        if self.has_event and self.refused_at is None and not self.pending:
            self.call()

    def take_messages(self) -> None:
        for kind, _, message in self.messages.feed(self.events.recv(1 << 16)):
            if kind == b"message" and is_open_event(message) and not self.has_event:
                self.has_event = True
                self.call()


def is_open_event(message: bytes) -> bool:
    event = json.loads(message)
    return event.get("service") == SERVICE and event.get("state") == "open"


def measure(rig: Rig, table: Table, rounds: int, scale: int) -> None:
    count = max(20, 100 * rounds * scale // 100)
    sidecars = rig.start_fleet(SIDECARS)
    members = [Member(sidecar.port) for sidecar in sidecars]
    monitor = Monitor(rig.redis_port)
    sent, times, granted = [], [], []
    generator = random.Random(count)
    for number in range(count):
        if number % 100 == 0:
            print_line(f"trip of {SIDECARS} sidecars, {number} of {count} …")
        sent_at, last_at = measure_trip(members, generator.randrange(PACE))
        sent.append(sent_at)
        times.append((last_at - sent_at) / 1e6)
        granted.append([at for member in members for at in member.granted_at])
    published = [
        at for at, words in monitor.stop(b'"PUBLISH"') if words[1] == EVENTS.encode() and is_open_event(words[2])
    ]
    for sidecar in sidecars:
        rig.stop(sidecar.process)
    if len(published) < count:
        sys.exit(f"benchmark: {count} trips, of which Redis published {len(published)}")
    events = [published[bisect.bisect(published, sent_at)] for sent_at in sent]
    report(table, times, [sum(at > event for at in ats) for event, ats in zip(events, granted, strict=True)])


def measure_trip(members: Sequence[Member], offset: int) -> tuple[int, int]:
    """Returns when the report was sent, and when the last sidecar refused for the first time. `granted_at` of each
    member then has its permits."""
    wait_until_closed(members)
    permit = members[0].client.command("PERMIT.ACQUIRE", SERVICE)[1]
    report = encode("PERMIT.REPORT", SERVICE, permit, "ERROR")
    by_socket = {member.calls: member for member in members} | {member.events: member for member in members}
    begin = time.time_ns()
    # Spread over the pace.
    due = [begin + index * PACE // len(members) for index in range(len(members))]
    planned = begin + MARGIN + offset
    sent_at: int | None = None
    end: int | None = None
    while end is None or time.time_ns() < end or any(member.pending for member in members):
        now = time.time_ns()
        if now > begin + TIMEOUT:
            sys.exit("benchmark: a trip did not reach every sidecar")
        if sent_at is None and now >= planned:
            sent_at = now
            members[0].client.socket.sendall(report)
        for index, member in enumerate(members):
            if due[index] <= now and (end is None or now < end):
                member.call()
                due[index] += PACE
        if end is None and all(member.refused_at for member in members):
            end = now + MARGIN
        next_at = min(*due, end or begin + TIMEOUT, planned if sent_at is None else begin + TIMEOUT)
        for ready in select.select(by_socket, [], [], max(0, next_at - time.time_ns()) / 1e9)[0]:
            member = by_socket[ready]
            if ready is member.events:
                member.take_messages()
            else:
                member.take_answers(time.time_ns())
    members[0].client.reply()
    assert sent_at is not None
    return sent_at, max(member.refused_at or 0 for member in members)


def wait_until_closed(members: Sequence[Member]) -> None:
    """Waits until each sidecar grants permits and has sent the events of earlier trips."""
    members[0].client.command("BREAKER.FORCE", SERVICE, "AUTO")
    for member in members:
        wait_until(member.grants_permits, "the end of a trip")
    while readable := select.select([member.events for member in members], [], [], 0)[0]:
        for member in members:
            if member.events in readable:
                member.take_messages()
    for member in members:
        member.reset()


def report(table: Table, times: list[float], let_through: Sequence[int]) -> None:
    times.sort()
    p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
    label = f"{SIDECARS} sidecars"
    table.add(
        f"{label}: time from the report to the first refusal by all, p50/p99 of {len(times)}",
        f"{p50:.2f}/{p99:.2f} ms",
        "–",
        f"{p99:.2f} ms",
        f"p99 ≤ {BOUND_MS} ms",
        p99 <= BOUND_MS,
    )
    mean = statistics.mean(let_through)
    rate = SIDECARS * 1_000_000_000 // PACE
    table.add(
        f"{label}: calls per trip that pass after the event, of {rate:,}/s",
        f"{mean:.2f}, at most {max(let_through)}",
        "–",
        f"{mean:.2f}",
    )
