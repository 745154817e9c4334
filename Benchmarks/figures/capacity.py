"""The capacity of one sidecar, its cost for another client, and the result of one request more."""

import itertools
import resource
import socket
import time
from collections.abc import Sequence
from typing import NamedTuple

from figures.table import Row, Table
from rig.bystander import CALLS, PACE, Bystander
from rig.client import Client, encode
from rig.connections import PING, Connections, raise_open_files
from rig.servers import Rig, print_line, wait_until

CONNECTIONS = 5_000
NAMES = 100_000
WAITERS = 10_000
#: The maximum number of linked leases that a sidecar keeps alive.
LINKED = 100_000
#: The maximum number of commands of one connection in flight.
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
#: The bystander's calls whose latencies are shown.
SHOWN_CALLS = CALLS[1:]
#: The seconds for which the bystander is measured.
WATCH = 3
CONFIGURATION = """
listen: {{ max_connections: {connections} }}
services: {{}}
"""
EXPLANATION = f"""\
Each group has a fresh sidecar and is measured once. The *bystander*, another client, makes at most
{1 / PACE:,.0f} calls a second and keeps a lease alive. Only commands in flight are limited, to {PIPELINE:,} per
connection; waiters and names are not. *Out of files* makes {TOO_MANY} connections to a sidecar that may open
{FILES} files."""


class Span(NamedTuple):
    """A span in nanoseconds of the monotonic clock."""

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
        self.baseline = watch("before the load")

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
            client = Client(self.sidecar.port)
            client.command("PING")
            client.close()
        except (RuntimeError, OSError) as error:
            return str(error)
        return None

    def report(self, table: Table, label: str, loaded_span: Span, spans: Sequence[Span]) -> Row:
        """Adds the bystander's errors. Returns its latencies within `loaded_span`, each with those before the load, and
        its longest call within `spans`."""
        self.bystander.stop()
        latencies = [
            self.bystander.figures(call, *span).text for call in SHOWN_CALLS for span in (loaded_span, self.baseline)
        ]
        longest = max(self.bystander.figures(call, *span).maximum for span in spans for call in CALLS) / 1000
        wrong = len(self.bystander.errors) + self.bystander.lost
        first = f", first {self.bystander.errors[0]}" if self.bystander.errors else ""
        table.add(
            f"{label}: errors, lost leases",
            f"{wrong} of {len(self.bystander.turns):,} calls{first}",
            "–",
            str(wrong),
            "0",
            wrong == 0,
        )
        return (label, *latencies, f"{longest:,.1f}")


def watch(state: str) -> Span:
    print_line(f"capacity: another client {state}, {WATCH} s …")
    begin = time.monotonic_ns()
    time.sleep(WATCH)
    return Span(begin, time.monotonic_ns())


def measure(rig: Rig, table: Table) -> None:
    needed = WAITERS + 10 * SPARE
    # The sidecars inherit the limit.
    maximum = raise_open_files()
    if maximum is not None and maximum < needed:
        table.missing("capacity", f"at most {maximum:,} open files are allowed here, and {needed:,} are needed")
        return
    bystanders = [part(rig, table) for part in (measure_connections, measure_names, measure_waiters)]
    measure_files(rig, table)
    head = [title for call in SHOWN_CALLS for title in (f"{call}, p50/p99, µs", "before")]
    table.detail("Bystander", ("beside", *head, "longest call during bursts, ms"), bystanders)


def measure_connections(rig: Rig, table: Table) -> Row:
    print_line(f"capacity: opening {CONNECTIONS:,} connections …")
    trial = Trial(rig, CONNECTIONS + SPARE)
    connections = Connections(trial.sidecar.port, CONNECTIONS)
    held = trial.megabytes()
    quiet = watch(f"beside {CONNECTIONS:,} connections")
    print_line(f"capacity: {CONNECTIONS:,} concurrent calls …")
    begin = time.monotonic_ns()
    leases = connections.ask(lambda index: encode("LOCK.ACQUIRE", f"c-{index}", TTL))
    acquired_at = time.monotonic_ns()
    connections.ask(lambda index: encode("LOCK.RELEASE", f"c-{index}", leases[index][0]))
    storm, busy = Span(begin, time.monotonic_ns()), trial.megabytes()
    print_line("capacity: one connection more than allowed …")
    begin = time.monotonic_ns()
    connections.join(CONNECTIONS + SPARE - trial.info("connected_clients"))
    reply = trial.refusal()
    beyond = Span(begin, time.monotonic_ns())
    alive = sum(reply == b"PONG" for reply in connections.ask(PING))
    label = f"{CONNECTIONS:,} connections"
    each = (held * 1024 - trial.idle) / CONNECTIONS
    table.add(
        f"{label}: resident memory",
        f"{held:.1f} MB; after calls {busy:.1f} MB",
        f"idle {trial.idle / 1024:.1f} MB",
        f"{each:.1f} KB each",
    )
    length = (acquired_at - storm.begin) / 1e6
    table.add(f"{label}: LOCK.ACQUIRE from all", f"{length:,.0f} ms", "–", f"{length:,.0f} ms")
    bystander = trial.report(table, label, quiet, (storm, beyond))
    table.add(
        f"{label}: a connection beyond max_connections",
        "refused" if reply else "accepted",
        "–",
        "refused" if reply else "accepted",
        "refused",
        bool(reply and "max number of clients" in reply),
    )
    table.add(
        f"{label}: other connections answered meanwhile",
        f"{alive:,} of {len(connections.sockets):,}",
        "–",
        f"{alive:,}",
        "all",
        alive == len(connections.sockets),
    )
    connections.close()
    rig.stop(trial.sidecar.process)
    return bystander


def take_many(connections: Connections, count: int, prefix: str, *options: object) -> int:
    """Acquires `count` locks over the connections, in pipelines. Returns the number of acquired locks."""
    sockets = connections.sockets
    per_connection, acquired = count // len(sockets), 0
    for index, connection in enumerate(sockets):
        names = (f"{prefix}-{index}-{number}" for number in range(per_connection))
        connection.sendall(b"".join(encode("LOCK.ACQUIRE", name, TTL, *options) for name in names))
        acquired += sum(reply is not None for _, reply in connections.answers(per_connection, 30))
    return acquired


def measure_names(rig: Rig, table: Table) -> Row:
    print_line(f"capacity: acquiring {NAMES:,} locks, and as many linked ones …")
    trial = Trial(rig, 10 * SPARE + NAMES // 1000)
    connections = Connections(trial.sidecar.port, NAMES // 1000)
    before, redis = trial.sidecar.resident_kilobytes(), redis_memory(rig)
    acquired = take_many(connections, NAMES, "plain")
    plain, in_redis = trial.sidecar.resident_kilobytes(), redis_memory(rig)
    quiet = watch(f"while {NAMES:,} locks are held")
    begin = time.monotonic_ns()
    linked = take_many(connections, LINKED, "linked", "LINKED")
    loaded = trial.sidecar.resident_kilobytes()
    reply = trial.error("LOCK.ACQUIRE", "one-more", TTL, "LINKED")
    # The name is the same, because a refused call must leave nothing behind.
    unlinked = trial.client.command("LOCK.ACQUIRE", "one-more", TTL)
    beyond = Span(begin, time.monotonic_ns())
    label = f"{NAMES:,} names"
    table.add(f"{label}: locks held at once", f"{acquired:,}", "–", f"{acquired:,}", f"{NAMES:,}", acquired == NAMES)
    table.add(
        f"{label}: resident memory",
        f"{plain / 1024:.1f} MB; with {linked:,} linked ones {loaded / 1024:.1f} MB",
        f"idle {before / 1024:.1f} MB; Redis {(in_redis - redis) / NAMES:.2f} KB each",
        f"{(plain - before) / NAMES:.2f} KB each",
    )
    bystander = trial.report(table, label, quiet, (beyond,))
    table.add(
        f"{label}: one linked lease beyond {LINKED:,}",
        "refused" if reply else "granted",
        "–",
        "refused" if reply else "granted",
        "refused",
        bool(reply and reply.startswith("UNAVAILABLE")),
    )
    table.add(
        f"{label}: the same lock without LINKED",
        "granted" if unlinked else "held",
        "–",
        "granted" if unlinked else "held",
        "granted",
        bool(unlinked),
    )
    connections.close()
    rig.stop(trial.sidecar.process)
    return bystander


def redis_memory(rig: Rig) -> float:
    """Returns kilobytes."""
    return int(Client(rig.redis_port).info("memory")["used_memory"]) / 1024


def measure_waiters(rig: Rig, table: Table) -> Row:
    print_line(f"capacity: {WAITERS:,} connections wait for one lock …")
    trial = Trial(rig, WAITERS + SPARE)
    [token, *_] = trial.client.command("LOCK.ACQUIRE", "crowd", TTL)
    connections = Connections(trial.sidecar.port, WAITERS)
    connected = trial.megabytes()
    request = encode("LOCK.ACQUIRE", "crowd", TTL, "WAIT", WAIT)
    for connection in connections.sockets:
        connection.sendall(request)
    wait_until(lambda: trial.info("locks_waiting") == WAITERS, f"{WAITERS:,} waiting clients")
    waiting = trial.megabytes()
    quiet = watch(f"while {WAITERS:,} wait")
    print_line(f"capacity: another client that sends {2 * PIPELINE:,} commands …")
    begin = time.monotonic_ns()
    greedy = Client(trial.sidecar.port)
    greedy.socket.sendall(request * (2 * PIPELINE))
    time.sleep(0.5)
    accepted = trial.info("locks_waiting") - WAITERS
    greedy.close()
    wait_until(lambda: trial.info("locks_waiting") == WAITERS, "the end of the disconnected client's waits")
    fillers = [Client(trial.sidecar.port) for _ in range(WAITERS + SPARE - trial.info("connected_clients"))]
    reply = trial.refusal()
    beyond = Span(begin, time.monotonic_ns())
    print_line(f"capacity: {WAITERS:,} hand-overs …")
    begin = time.monotonic_ns()
    trial.client.command("LOCK.RELEASE", "crowd", token)
    fences, times = hand_over_to_all(connections)
    drain = Span(begin, time.monotonic_ns())
    label = f"{WAITERS:,} waiters"
    table.add(
        f"{label}: resident memory",
        f"{waiting:.1f} MB",
        f"idle {trial.idle / 1024:.1f} MB; connected {connected:.1f} MB",
        f"{(waiting - connected) * 1024 / WAITERS:.2f} KB each",
    )
    ordered = [fences[connection.fileno()] for connection in connections.sockets if connection.fileno() in fences]
    table.add(
        f"{label}: waiters that got the lock",
        f"{len(ordered):,}",
        "–",
        f"{len(ordered):,}",
        f"{WAITERS:,}",
        len(ordered) == WAITERS,
    )
    early = sum(left > right for left, right in itertools.pairwise(ordered))
    table.add(f"{label}: grants out of order", f"{early:,}", "–", f"{early:,}", "0", early == 0)
    times.sort()
    middle, late = (times[len(times) * percent // 100] / 1e6 for percent in (50, 99))
    table.add(
        f"{label}: release to next grant, p50/p99",
        f"{middle:.2f}/{late:.2f} ms; all in {(drain.end - drain.begin) / 1e9:.1f} s",
        "–",
        f"{late:.2f} ms",
    )
    bystander = trial.report(table, label, quiet, (beyond, drain))
    table.add(
        f"{label}: commands accepted from one client, of {2 * PIPELINE:,}",
        f"{accepted:,}",
        "–",
        f"{accepted:,}",
        f"≤ {PIPELINE:,}",
        0 < accepted <= PIPELINE,
    )
    table.add(
        f"{label}: a connection beyond max_connections",
        "refused" if reply else "accepted",
        "–",
        "refused" if reply else "accepted",
        "refused",
        bool(reply and "max number of clients" in reply),
    )
    for client in fillers:
        client.close()
    connections.close()
    rig.stop(trial.sidecar.process)
    return bystander


def hand_over_to_all(connections: Connections) -> tuple[dict[int, int], list[int]]:
    """Lets each waiter release the lock immediately. Returns their fences, and the nanoseconds from each release to the
    next grant."""
    fences, times, released = {}, [], None
    for number, reply in connections.answers(2 * WAITERS, WAIT // 1000):
        if not isinstance(reply, list):
            # The reply to a release, or nil for a wait that ended without the lock.
            continue
        now = time.monotonic_ns()
        if released:
            times.append(now - released)
        fences[number] = reply[1]
        connections.by_descriptor[number][0].sendall(encode("LOCK.RELEASE", "crowd", reply[0]))
        released = time.monotonic_ns()
    return fences, times


def measure_files(rig: Rig, table: Table) -> None:
    print_line(f"capacity: {TOO_MANY} connections to a sidecar that may open {FILES} files …")
    sidecar = rig.start_sidecar()
    client = Client(sidecar.port)
    resource.prlimit(sidecar.process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
    callers = [socket.create_connection(("127.0.0.1", sidecar.port), timeout=5) for _ in range(TOO_MANY)]
    time.sleep(0.5)
    before, begin = sidecar.processor_seconds(), time.monotonic()
    time.sleep(1.5)
    fraction = (sidecar.processor_seconds() - before) / (time.monotonic() - begin)
    lease = client.command("LOCK.ACQUIRE", "out-of-files", TTL)
    for caller in callers:
        caller.close()
    wait_until(
        lambda: Client(sidecar.port).command("PING"), "an answer to a new connection, once there are files again"
    )
    rig.stop(sidecar.process)
    label = "out of files"
    table.add(
        f"{label}: CPU cores used",
        f"{fraction:.2f}",
        "–",
        f"{fraction:.2f}",
        f"≤ {FILES_BOUND}",
        fraction <= FILES_BOUND,
    )
    table.add(
        f"{label}: client that connected earlier",
        "served" if lease else "refused",
        "–",
        "served" if lease else "refused",
        "served",
        bool(lease),
    )
