"""How long a trip takes to reach the last sidecar of a fleet, and what is let through meanwhile."""

import bisect
import json
import random
import select
import statistics
import sys
import time

from rig.client import Client, Replies, encode
from rig.monitor import Monitor
from rig.servers import say, wait_until

SIDECARS = 8
SERVICE = "trip"
EVENTS = "interlock:events"
CONFIGURATION = f"""
services:
  {SERVICE}: {{ permit_ttl: 1s, breaker: {{ minimum_calls: 1, failure_rate: 1%, open_for: 1m }} }}
"""
#: Nanoseconds between two calls at one sidecar; they go on while a trip is measured.
PACE = 2_000_000
#: Nanoseconds of calls before and after each trip.
MARGIN = 5_000_000
#: Nanoseconds after which a trip should have reached everybody.
PATIENCE = 5_000_000_000
BOUND_MS = 10
EXPLANATION = f"""\
**Trip**: {SIDECARS} sidecars, at each of which a permit is asked for every {PACE / 1e6:.0f} ms. An error that is reported at one of them trips the
breaker: from when the report is sent until the last of all sidecars has refused a permit because the breaker is open. Whoever hears
the event is asked at once. Let through are the permits whose answers came after Redis had published the event, by the clock that
Redis and the clients share."""


class Member:
    """One sidecar of the fleet: a connection for single commands, one for calls at its own pace, one for events."""

    CALL = encode("PERMIT.ACQUIRE", SERVICE)

    def __init__(self, port):
        self.client = Client(port)
        self.calls = Client(port).socket
        self.events = Client(port).socket
        self.events.sendall(encode("SUBSCRIBE", EVENTS))
        self.answers, self.messages = Replies(), Replies()
        #: Calls that are not answered yet.
        self.pending = 0
        self.forget()

    def forget(self):
        """The next trip begins."""
        #: When the first refusal came, and when each permit did, in nanoseconds of the epoch.
        self.refused_at = None
        self.granted_at = []
        self.has_heard = False

    def call(self):
        self.calls.sendall(self.CALL)
        self.pending += 1

    def take_answers(self, now):
        answers = self.answers.feed(self.calls.recv(1 << 16))
        self.pending -= len(answers)
        for granted, reason, *_ in answers:
            if granted:
                self.granted_at.append(now)
            elif reason == b"open" and self.refused_at is None:
                self.refused_at = now
        if self.has_heard and self.refused_at is None and not self.pending:
            self.call()

    def take_messages(self):
        for kind, _, message in self.messages.feed(self.events.recv(1 << 16)):
            if kind == b"message" and opens(message) and not self.has_heard:
                self.has_heard = True
                self.call()


def opens(message):
    event = json.loads(message)
    return event.get("service") == SERVICE and event.get("state") == "open"


def measure(rig, table, rounds, scale):
    count = max(20, 100 * rounds * scale // 100)
    sidecars = rig.start_fleet(SIDECARS)
    members = [Member(sidecar.port) for sidecar in sidecars]
    monitor = Monitor(rig.redis_port)
    sent, times, granted = [], [], []
    chance = random.Random(count)
    for number in range(count):
        if number % 100 == 0:
            say(f"trip of {SIDECARS} sidecars, {number} of {count} …")
        sent_at, last_at = trip(members, chance.randrange(PACE))
        sent.append(sent_at)
        times.append((last_at - sent_at) / 1e6)
        granted.append([at for member in members for at in member.granted_at])
    published = [at for at, words in monitor.stop(b'"PUBLISH"') if words[1] == EVENTS.encode() and opens(words[2])]
    for sidecar in sidecars:
        rig.stop(sidecar.process)
    if len(published) < count:
        sys.exit(f"benchmark: {count} trips, of which Redis published {len(published)}")
    events = [published[bisect.bisect(published, sent_at)] for sent_at in sent]
    report(table, times, [sum(at > event for at in ats) for event, ats in zip(events, granted)])


def trip(members, offset):
    """When the report was sent, and when the last sidecar's first refusal came. Afterwards each member knows what it granted."""
    close(members)
    permit = members[0].client.command("PERMIT.ACQUIRE", SERVICE)[1]
    report = encode("PERMIT.REPORT", SERVICE, permit, "ERROR")
    by_socket = {member.calls: member for member in members} | {member.events: member for member in members}
    begin = time.time_ns()
    # Not all at once.
    due = [begin + place * PACE // len(members) for place in range(len(members))]
    planned, sent_at, end = begin + MARGIN + offset, None, None
    while end is None or time.time_ns() < end or any(member.pending for member in members):
        now = time.time_ns()
        if now > begin + PATIENCE:
            sys.exit("benchmark: a trip did not reach every sidecar")
        if sent_at is None and now >= planned:
            sent_at = now
            members[0].client.socket.sendall(report)
        for place, member in enumerate(members):
            if due[place] <= now and (end is None or now < end):
                member.call()
                due[place] += PACE
        if end is None and all(member.refused_at for member in members):
            end = now + MARGIN
        next_at = min(*due, end or begin + PATIENCE, planned if sent_at is None else begin + PATIENCE)
        for ready in select.select(by_socket, [], [], max(0, next_at - time.time_ns()) / 1e9)[0]:
            member = by_socket[ready]
            if ready is member.events:
                member.take_messages()
            else:
                member.take_answers(time.time_ns())
    members[0].client.reply()
    return sent_at, max(member.refused_at for member in members)


def close(members):
    """Every sidecar gives permits again, and has told what it heard of earlier trips."""
    members[0].client.command("BREAKER.FORCE", SERVICE, "AUTO")
    for member in members:
        wait_until(lambda: member.client.command("PERMIT.ACQUIRE", SERVICE)[0] == b"1", "the end of a trip")
    while heard := select.select([member.events for member in members], [], [], 0)[0]:
        for member in members:
            if member.events in heard:
                member.take_messages()
    for member in members:
        member.forget()


def report(table, times, let_through):
    times.sort()
    middle, late = times[len(times) // 2], times[len(times) * 99 // 100]
    what = f"trip, {SIDECARS} sidecars"
    table.add(f"{what}: report to the last one's refusal, p50 and p99 of {len(times)}", f"{middle:.2f} and {late:.2f} ms", "–",
              f"{late:.2f} ms", f"≤ {BOUND_MS} ms", late <= BOUND_MS)
    mean = statistics.mean(let_through)
    rate = SIDECARS * 1_000_000_000 // PACE
    table.add(f"{what}: calls let through after the trip was published, of {rate:,} calls/s", f"{mean:.2f}, at most {max(let_through)}",
              "–", f"{mean:.2f}")
