"""Clients that go one beyond what is theirs, and what another client of the same sidecar meets meanwhile."""

import multiprocessing
import socket
import statistics
import time

from rig.bystander import CALLS, PACE, Bystander
from rig.client import Client, encode
from rig.servers import say

#: Seconds before each abuse, and of it, for which the bystander is watched.
WATCH = 2
#: p99 during it ÷ p99 before it.
BOUND = 5
CONNECTIONS = 300
SUBJECTS = 1_000
WAITING = 50
CONFIGURATION = f"""
listen: {{ max_connections: {CONNECTIONS} }}
services:
  each:
    max_subjects: {SUBJECTS}
    limits: [ {{ limit: 2, per: 60s, per_subject: true }} ]
  line:
    limits: [ {{ limit: 1, per: 30s }} ]
    on_limit: {{ max_waiting: {WAITING} }}
  calls:
    limits: [ {{ limit: 1000000000, per: 1s }} ]
"""
EXPLANATION = f"""\
**Abuse**: one client goes one beyond a bound that is its own, over and over for {WATCH} seconds, while another one in a process of
its own sends a `PING` and takes and gives back a lock {1 / PACE:,.0f} times a second at most. The figures are the p99 of its locks
before and during it, medians of the rounds, and the median of the rounds' ratios. Nobody else may be refused."""


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    connection.setblocking(False)
    return connection


def push(connection, data):
    """As much as is taken now, and nothing is read. What is left of it; None: the connection was closed."""
    try:
        return data[connection.send(data):]
    except BlockingIOError:
        time.sleep(0.001)
        return data
    except OSError:
        return None


def drain(connection):
    """Reads what there is."""
    try:
        while connection.recv(1 << 20):
            pass
    except OSError:
        # Nothing more now, or never.
        pass


def pour(port, data, is_read=False):
    """The same commands over and over, each of them whole; a new connection when one is closed on."""
    connection, left = connect(port), data
    while True:
        left = push(connection, left)
        if left is None:
            connection.close()
            connection = connect(port)
        if is_read:
            drain(connection)
        left = left or data
        yield


def unread_replies(sidecar):
    yield from pour(sidecar.port, encode("INFO") * 50)


def long_pipeline(sidecar):
    yield from pour(sidecar.port, encode("PING") * 2048, is_read=True)


def huge_command(sidecar):
    yield from pour(sidecar.port, encode("LOCK.ACQUIRE", b"x" * (1 << 20), 1000))


def nonsense(sidecar):
    yield from pour(sidecar.port, b"\x00" * 70_000)


def nonsense_behind_a_wait(sidecar):
    """Its error is told when the wait is over; it goes on meanwhile."""
    connection = connect(sidecar.port)
    push(connection, encode("LIMIT.TAKE", "line") * 2 + encode("LIMIT.TAKE", "line", "WAIT", 60_000) + b"*x\r\n")
    while push(connection, b"x" * 70_000) is not None:
        yield


def half_commands(sidecar):
    """Calls that are left behind: what it sends next cannot be read."""
    connection = connect(sidecar.port)
    while True:
        if push(connection, encode("PERMIT.ACQUIRE", "calls") * 1024 + b"*x\r\n") != b"":
            connection.close()
            connection = connect(sidecar.port)
        yield


def numbered(port, command):
    """Commands that are each about something else, 64 at a time."""
    connection, number, left = connect(port), 0, b""
    while True:
        if not left:
            left = b"".join(command(number + offset) for offset in range(64))
            number += 64
        left = push(connection, left)
        if left is None:
            connection.close()
            connection, left = connect(port), b""
        drain(connection)
        yield


def made_up_subjects(sidecar):
    yield from numbered(sidecar.port, lambda number: encode("LIMIT.TAKE", "each", "SUBJECT", f"made-up-{number}"))


def crowded_line(sidecar):
    """One subject fills more of a line than is its share, and asks on."""
    yield from pour(sidecar.port, encode("LIMIT.TAKE", "line", "WAIT", 60_000) * (WAITING + 1), is_read=True)


def unreported_permits(sidecar):
    yield from pour(sidecar.port, encode("PERMIT.ACQUIRE", "calls") * 256, is_read=True)


def too_many_connections(sidecar):
    connections = []
    while True:
        # Without a word, and with half of one.
        if len(connections) < CONNECTIONS - 20:
            connections.append(connect(sidecar.port))
            push(connections[-1], b"*3\r\n$12\r\nLOCK.AC")
        else:
            connect(sidecar.port).close()
            time.sleep(0.002)
        yield


def too_many_requests(sidecar):
    """HTTP connections beyond all places, none of which sends a whole request."""
    connections = []
    while True:
        if len(connections) > CONNECTIONS + 20:
            connections.pop(0).close()
            time.sleep(0.002)
        connections.append(connect(sidecar.http_port))
        push(connections[-1], b"POST /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000\r\n")
        yield


def large_bodies(sidecar):
    head = b"POST /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65537\r\n\r\n"
    while True:
        connection = connect(sidecar.http_port)
        push(connection, head + b"x" * 65_537)
        connection.close()
        yield


def deaf_followers(sidecar):
    """Followers of the events that read nothing, and events."""
    followers = [connect(sidecar.port) for _ in range(20)]
    for follower in followers:
        push(follower, encode("SUBSCRIBE", "interlock:events"))
    client, number = Client(sidecar.port), 0
    while True:
        client.command("BREAKER.FORCE", "calls", ("DISABLED", "AUTO")[number % 2])
        number += 1
        yield


def linked_leases(sidecar):
    yield from numbered(sidecar.port, lambda number: encode("LOCK.ACQUIRE", f"linked-{number}", 60_000, "LINKED"))


#: What is done, and by whom.
ABUSES = {
    "replies that are not read": unread_replies,
    "2,048 commands at a time": long_pipeline,
    "commands of 1 MiB and more": huge_command,
    "bytes that are no command": nonsense,
    "the same, behind a wait": nonsense_behind_a_wait,
    "calls that are left behind": half_commands,
    "subjects beyond max_subjects": made_up_subjects,
    "waits beyond max_waiting": crowded_line,
    "permits that nobody reports": unreported_permits,
    "linked leases": linked_leases,
    "followers that read nothing": deaf_followers,
    "half commands on all connections": too_many_connections,
    "half requests on all connections": too_many_requests,
    "bodies of 64 KiB and one byte": large_bodies,
}


def abuse(kind, sidecar, orders):
    """In a process of its own, until it is told to stop."""
    steps = 0
    try:
        for _ in ABUSES[kind](sidecar):
            steps += 1
            if orders.poll(0):
                break
        else:
            orders.send(f"it came to its end after {steps} steps")
            return
    except (OSError, RuntimeError) as error:
        orders.send(f"after {steps} steps: {error!r}")
        return
    orders.send("")


def measure(rig, table, rounds, scale):
    watch = WATCH * scale / 100
    processes = multiprocessing.get_context("fork")
    for kind in ABUSES:
        sidecar = rig.start_sidecar()
        before, during, errors, lost = [], [], 0, 0
        for _ in range(rounds):
            bystander = Bystander(sidecar.port)
            time.sleep(0.2)
            begin = time.monotonic_ns()
            time.sleep(watch)
            quiet = time.monotonic_ns()
            ours, theirs = processes.Pipe()
            abuser = processes.Process(target=abuse, args=(kind, sidecar, theirs), daemon=True)
            abuser.start()
            # It is at work by then.
            time.sleep(0.2)
            middle = time.monotonic_ns()
            time.sleep(watch)
            end = time.monotonic_ns()
            ours.send("stop")
            if trouble := ours.recv():
                say(f"  {kind}: {trouble}")
            abuser.terminate()
            abuser.join()
            bystander.stop()
            errors, lost = errors + len(bystander.errors), lost + bystander.lost
            for error in bystander.errors[:1]:
                say(f"  {kind}: the other client met {error}")
            before.append(bystander.figures(CALLS[1], begin, quiet).p99)
            during.append(bystander.figures(CALLS[1], middle, end).p99)
        ratio = statistics.median(late / early if early and late else float("inf") for early, late in zip(before, during))
        table.add(f"abuse, {kind}: p99 of another's locks, before and during", f"{statistics.median(during):,.0f} µs",
                  f"{statistics.median(before):,.0f} µs", f"{ratio:.2f}", f"≤ {BOUND}", ratio <= BOUND)
        table.add(f"abuse, {kind}: of the other, refused or lost", f"{errors + lost}", "–", f"{errors + lost}", "0",
                  errors + lost == 0)
        rig.stop(sidecar.process)
