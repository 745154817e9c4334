"""The capacity of one sidecar, its cost for another client, and the result of one step beyond."""

import itertools
import resource
import socket
import time
from collections.abc import Mapping
from typing import NamedTuple

from figures.table import Table
from rig.bystander import CALLS, PACE, Bystander
from rig.client import Client, encode
from rig.crowd import PING, Crowd, raise_open_files
from rig.servers import Rig, say, wait_until

CONNECTIONS = 5_000
NAMES = 100_000
WAITERS = 10_000
#: The most leases of linked connections that a sidecar keeps alive.
LINKED = 100_000
#: The most commands of one connection in flight.
PIPELINE = 1_024
#: Further connections that a sidecar accepts: the bystander's and the observers'.
SPARE = 10
#: The open-file limit of the sidecar in the last part, and the connections to it.
FILES, TOO_MANY = 200, 400
#: The largest fraction of a core while the sidecar is out of files.
FILES_BOUND = 0.05
#: Milliseconds, longer than any step here.
TTL = 600_000
WAIT = 60_000
#: The seconds for which the bystander is measured.
WATCH = 3
CONFIGURATION = """
listen: {{ max_connections: {connections} }}
services: {{}}
"""
EXPLANATION = f"""\
Measured once, with a fresh sidecar per group. Another client makes at most {1 / PACE:,.0f} calls a second and keeps a
lease alive; its p50/p99 stand next to those before. A connection may have {PIPELINE:,} commands in flight; nothing
else limits waiters and names. *Out of files*: {TOO_MANY} connections, {FILES} open files."""


class Span(NamedTuple):
    """Returns nanoseconds of the monotonic clock."""

    begin: int
    end: int


class Trial:
    """A fresh sidecar with a bystander."""

    def __init__(self, rig: Rig, connections: int) -> None:
        file = rig.folder / f"capacity-{connections}.yaml"
        file.write_text(CONFIGURATION.format(connections=connections))
        self.sidecar = rig.start_sidecar(file)
        self.client = Client(self.sidecar.port)
        self.client.socket.settimeout(30)
        # Memory that the first calls need is not counted.
        for number in range(200):
            [token, *_] = self.client.command("LOCK.ACQUIRE", f"warm-{number}", 1000)
            self.client.command("LOCK.RELEASE", f"warm-{number}", token)
        self.idle = self.sidecar.resident_kilobytes()
        self.bystander = Bystander(self.sidecar.port)
        self.calm = watch("before there is any burden")

    def megabytes(self) -> float:
        return self.sidecar.resident_kilobytes() / 1024

    def info(self, key: str) -> int:
        return int(self.client.info()[key])

    def error(self, *words: object) -> str | None:
        """Returns the error of a command, or None if there was none."""
        try:
            self.client.command(*words)
        except RuntimeError as error:
            return str(error)
        return None

    def refusal(self) -> str | None:
        """Returns the error that the next connection gets, or None if it is accepted."""
        try:
            door = Client(self.sidecar.port)
            door.command("PING")
            door.close()
        except (RuntimeError, OSError) as error:
            return str(error)
        return None

    def report(self, table: Table, what: str, burdened: Span, spans: Mapping[str, Span]) -> None:
        """`burdened` is the span of the bystander's latencies. Its errors count at any time."""
        self.bystander.stop()
        for call in CALLS:
            calm, under = (self.bystander.figures(call, *span) for span in (self.calm, burdened))
            table.add(
                f"{what}: {call}, µs",
                under.text,
                calm.text,
                under.text,
            )
        for name, span in spans.items():
            longest = max(self.bystander.figures(call, *span).most for call in CALLS) / 1000
            table.add(f"{what}: longest call, {name}", f"{longest:,.1f} ms", "–", f"{longest:,.1f} ms")
        wrong = len(self.bystander.errors) + self.bystander.lost
        first = f", first {self.bystander.errors[0]}" if self.bystander.errors else ""
        table.add(
            f"{what}: errors, lost leases",
            f"{wrong} of {len(self.bystander.turns):,} calls{first}",
            "–",
            str(wrong),
            "0",
            wrong == 0,
        )


def watch(state: str) -> Span:
    say(f"capacity: another client {state}, {WATCH} s …")
    begin = time.monotonic_ns()
    time.sleep(WATCH)
    return Span(begin, time.monotonic_ns())


def measure(rig: Rig, table: Table) -> None:
    needed = WAITERS + 10 * SPARE
    # The sidecars inherit the limit.
    most = raise_open_files()
    if most is not None and most < needed:
        table.missing("capacity", f"at most {most:,} open files are allowed here, and {needed:,} are needed")
        return
    measure_connections(rig, table)
    measure_names(rig, table)
    measure_waiters(rig, table)
    measure_files(rig, table)


def measure_connections(rig: Rig, table: Table) -> None:
    say(f"capacity: opening {CONNECTIONS:,} connections …")
    trial = Trial(rig, CONNECTIONS + SPARE)
    crowd = Crowd(trial.sidecar.port, CONNECTIONS)
    held = trial.megabytes()
    quiet = watch(f"beside {CONNECTIONS:,} connections")
    say(f"capacity: {CONNECTIONS:,} calls at once …")
    begin = time.monotonic_ns()
    leases = crowd.ask(lambda place: encode("LOCK.ACQUIRE", f"c-{place}", TTL))
    taken = time.monotonic_ns()
    crowd.ask(lambda place: encode("LOCK.RELEASE", f"c-{place}", leases[place][0]))
    stormy, busy = Span(begin, time.monotonic_ns()), trial.megabytes()
    say("capacity: one connection beyond …")
    begin = time.monotonic_ns()
    crowd.join(CONNECTIONS + SPARE - trial.info("connected_clients"))
    reply = trial.refusal()
    beyond = Span(begin, time.monotonic_ns())
    alive = sum(reply == b"PONG" for reply in crowd.ask(PING))
    what = f"{CONNECTIONS:,} connections"
    each = (held * 1024 - trial.idle) / CONNECTIONS
    table.add(
        f"{what}: resident memory",
        f"{held:.1f} MB; called {busy:.1f} MB",
        f"idle {trial.idle / 1024:.1f} MB",
        f"{each:.1f} KB each",
    )
    length = (taken - stormy.begin) / 1e6
    table.add(f"{what}: LOCK.ACQUIRE from all", f"{length:,.0f} ms", "–", f"{length:,.0f} ms")
    trial.report(table, what, quiet, {"calls from all": stormy, "one beyond": beyond})
    table.add(
        f"{what}: one beyond max_connections",
        "refused" if reply else "accepted",
        "–",
        "refused" if reply else "accepted",
        "refused",
        bool(reply and "max number of clients" in reply),
    )
    table.add(
        f"{what}: others answered then",
        f"{alive:,} of {len(crowd.sockets):,}",
        "–",
        f"{alive:,}",
        "all",
        alive == len(crowd.sockets),
    )
    crowd.close()
    rig.stop(trial.sidecar.process)


def take_many(crowd: Crowd, count: int, prefix: str, *options: object) -> int:
    """Acquires `count` locks over the connections, in pipelines. Returns how many it got."""
    connections = len(crowd.sockets)
    share, got = count // connections, 0
    for connection in range(connections):
        words = (encode("LOCK.ACQUIRE", f"{prefix}-{connection}-{number}", TTL, *options) for number in range(share))
        crowd.sockets[connection].sendall(b"".join(words))
        got += sum(reply is not None for _, reply in crowd.answers(share, 30))
    return got


def measure_names(rig: Rig, table: Table) -> None:
    say(f"capacity: taking {NAMES:,} locks, and as many linked ones …")
    trial = Trial(rig, 10 * SPARE + NAMES // 1000)
    crowd = Crowd(trial.sidecar.port, NAMES // 1000)
    before, redis = trial.sidecar.resident_kilobytes(), redis_memory(rig)
    got = take_many(crowd, NAMES, "plain")
    plain, in_redis = trial.sidecar.resident_kilobytes(), redis_memory(rig)
    quiet = watch(f"while {NAMES:,} locks are held")
    begin = time.monotonic_ns()
    linked = take_many(crowd, LINKED, "linked", "LINKED")
    loaded = trial.sidecar.resident_kilobytes()
    reply = trial.error("LOCK.ACQUIRE", "one-more", TTL, "LINKED")
    # The name is the same, because a refused call must leave nothing behind.
    unlinked = trial.client.command("LOCK.ACQUIRE", "one-more", TTL)
    beyond = Span(begin, time.monotonic_ns())
    what = f"{NAMES:,} names"
    table.add(f"{what}: locks held at once", f"{got:,}", "–", f"{got:,}", f"{NAMES:,}", got == NAMES)
    table.add(
        f"{what}: resident memory",
        f"{plain / 1024:.1f} MB; {linked:,} linked {loaded / 1024:.1f} MB",
        f"idle {before / 1024:.1f} MB; Redis {(in_redis - redis) / NAMES:.2f} KB each",
        f"{(plain - before) / NAMES:.2f} KB each",
    )
    trial.report(table, what, quiet, {"linked leases": beyond})
    table.add(
        f"{what}: one linked lease beyond {LINKED:,}",
        "refused" if reply else "granted",
        "–",
        "refused" if reply else "granted",
        "refused",
        bool(reply and reply.startswith("UNAVAILABLE")),
    )
    table.add(
        f"{what}: that lock without LINKED",
        "granted" if unlinked else "held",
        "–",
        "granted" if unlinked else "held",
        "granted",
        bool(unlinked),
    )
    crowd.close()
    rig.stop(trial.sidecar.process)


def redis_memory(rig: Rig) -> float:
    """Returns kilobytes."""
    return int(Client(rig.redis_port).info("memory")["used_memory"]) / 1024


def measure_waiters(rig: Rig, table: Table) -> None:
    say(f"capacity: {WAITERS:,} connections wait for one lock …")
    trial = Trial(rig, WAITERS + SPARE)
    [token, *_] = trial.client.command("LOCK.ACQUIRE", "crowd", TTL)
    crowd = Crowd(trial.sidecar.port, WAITERS)
    connected = trial.megabytes()
    request = encode("LOCK.ACQUIRE", "crowd", TTL, "WAIT", WAIT)
    for connection in crowd.sockets:
        connection.sendall(request)
    wait_until(lambda: trial.info("locks_waiting") == WAITERS, f"the waiting of {WAITERS:,}")
    waiting = trial.megabytes()
    quiet = watch(f"while {WAITERS:,} wait")
    say(f"capacity: one that asks {2 * PIPELINE:,} times beyond them …")
    begin = time.monotonic_ns()
    greedy = Client(trial.sidecar.port)
    greedy.socket.sendall(request * (2 * PIPELINE))
    time.sleep(0.5)
    taken_up = trial.info("locks_waiting") - WAITERS
    greedy.close()
    wait_until(lambda: trial.info("locks_waiting") == WAITERS, "the end of those whose client left")
    idlers = [Client(trial.sidecar.port) for _ in range(WAITERS + SPARE - trial.info("connected_clients"))]
    reply = trial.refusal()
    beyond = Span(begin, time.monotonic_ns())
    say(f"capacity: the lock goes through {WAITERS:,} hands …")
    begin = time.monotonic_ns()
    trial.client.command("LOCK.RELEASE", "crowd", token)
    fences, times = pass_on(crowd)
    drain = Span(begin, time.monotonic_ns())
    what = f"{WAITERS:,} waiters"
    table.add(
        f"{what}: resident memory",
        f"{waiting:.1f} MB",
        f"idle {trial.idle / 1024:.1f} MB; connected {connected:.1f} MB",
        f"{(waiting - connected) * 1024 / WAITERS:.2f} KB each",
    )
    ordered = [fences[connection.fileno()] for connection in crowd.sockets if connection.fileno() in fences]
    table.add(
        f"{what}: got the lock",
        f"{len(ordered):,}",
        "–",
        f"{len(ordered):,}",
        f"{WAITERS:,}",
        len(ordered) == WAITERS,
    )
    early = sum(left > right for left, right in itertools.pairwise(ordered))
    table.add(f"{what}: out of order", f"{early:,}", "–", f"{early:,}", "0", early == 0)
    times.sort()
    middle, late = (times[len(times) * share // 100] / 1e6 for share in (50, 99))
    table.add(
        f"{what}: release to next grant, p50/p99",
        f"{middle:.2f}/{late:.2f} ms",
        f"all {(drain.end - drain.begin) / 1e9:.1f} s",
        f"{late:.2f} ms",
    )
    trial.report(table, what, quiet, {"beyond": beyond, "hand-overs": drain})
    table.add(
        f"{what}: commands accepted, of {2 * PIPELINE:,}",
        f"{taken_up:,}",
        "–",
        f"{taken_up:,}",
        f"≤ {PIPELINE:,}",
        0 < taken_up <= PIPELINE,
    )
    table.add(
        f"{what}: one beyond max_connections",
        "refused" if reply else "accepted",
        "–",
        "refused" if reply else "accepted",
        "refused",
        bool(reply and "max number of clients" in reply),
    )
    for client in idlers:
        client.close()
    crowd.close()
    rig.stop(trial.sidecar.process)


def pass_on(crowd: Crowd) -> tuple[dict[int, int], list[int]]:
    """Lets each waiter release the lock at once. Returns their fences, and the nanoseconds from each release to the
    next grant."""
    fences, times, released = {}, [], None
    for number, reply in crowd.answers(2 * WAITERS, WAIT // 1000):
        if not isinstance(reply, list):
            # The reply to a release, or nil for a wait that ended without the lock.
            continue
        now = time.monotonic_ns()
        if released:
            times.append(now - released)
        fences[number] = reply[1]
        crowd.members[number][0].sendall(encode("LOCK.RELEASE", "crowd", reply[0]))
        released = time.monotonic_ns()
    return fences, times


def measure_files(rig: Rig, table: Table) -> None:
    say(f"capacity: {TOO_MANY} connections to a sidecar that may open {FILES} files …")
    sidecar = rig.start_sidecar()
    client = Client(sidecar.port)
    resource.prlimit(sidecar.process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
    callers = [socket.create_connection(("127.0.0.1", sidecar.port), timeout=5) for _ in range(TOO_MANY)]
    time.sleep(0.5)
    before, begin = sidecar.processor_seconds(), time.monotonic()
    time.sleep(1.5)
    share = (sidecar.processor_seconds() - before) / (time.monotonic() - begin)
    lease = client.command("LOCK.ACQUIRE", "out-of-files", TTL)
    for caller in callers:
        caller.close()
    wait_until(
        lambda: Client(sidecar.port).command("PING"), "an answer to a new connection, once there are files again"
    )
    rig.stop(sidecar.process)
    what = "out of files"
    table.add(f"{what}: cores", f"{share:.2f}", "–", f"{share:.2f}", f"≤ {FILES_BOUND}", share <= FILES_BOUND)
    table.add(
        f"{what}: earlier client",
        "served" if lease else "refused",
        "–",
        "served" if lease else "refused",
        "served",
        bool(lease),
    )
