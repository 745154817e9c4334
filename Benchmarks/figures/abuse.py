"""Clients that exceed their own bounds, and what another client of the same sidecar notices."""

import multiprocessing
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

from figures.table import Table
from rig.bystander import CALLS, PACE, Bystander
from rig.client import Client, encode
from rig.servers import Rig, Sidecar, say

#: For how many seconds the bystander is watched before and during each abuse.
WATCH = 2
#: p99 during the abuse ÷ p99 before it.
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
**Abuse**: one client exceeds one of its own bounds for {WATCH} seconds, over and over. Another client, in its own
process, meanwhile sends `PING`, `LOCK.ACQUIRE` and `LOCK.RELEASE` at most {1 / PACE:,.0f} times a second. The figures
are the p99 of its acquires before and during the abuse (medians of the rounds), and the median of the rounds' ratios.
No other client may be refused."""


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    connection.setblocking(False)
    return connection


def push(connection: socket.socket, data: bytes) -> bytes | None:
    """Sends what the socket takes, and reads nothing. Returns the rest; None if the connection was closed."""
    try:
        return data[connection.send(data) :]
    except BlockingIOError:
        time.sleep(0.001)
        return data
    except OSError:
        return None


def drain(connection: socket.socket) -> None:
    """Reads what has arrived."""
    try:
        while connection.recv(1 << 20):
            pass
    except OSError:
        # Nothing more for now, or the connection is closed.
        pass


def pour(port: int, data: bytes, is_read: bool = False) -> Iterator[None]:
    """Sends the same whole commands in a loop, over a new connection when the old one is closed."""
    connection, left = connect(port), data
    while True:
        rest = push(connection, left)
        if rest is None:
            connection.close()
            connection = connect(port)
        if is_read:
            drain(connection)
        left = rest or data
        yield


def unread_replies(sidecar: Sidecar) -> Iterator[None]:
    yield from pour(sidecar.port, encode("INFO") * 50)


def long_pipeline(sidecar: Sidecar) -> Iterator[None]:
    yield from pour(sidecar.port, encode("PING") * 2048, is_read=True)


def huge_command(sidecar: Sidecar) -> Iterator[None]:
    yield from pour(sidecar.port, encode("LOCK.ACQUIRE", b"x" * (1 << 20), 1000))


def nonsense(sidecar: Sidecar) -> Iterator[None]:
    yield from pour(sidecar.port, b"\x00" * 70_000)


def nonsense_behind_a_wait(sidecar: Sidecar) -> Iterator[None]:
    """The error for the nonsense comes after the wait. The nonsense goes on meanwhile."""
    connection = connect(sidecar.port)
    push(connection, encode("LIMIT.TAKE", "line") * 2 + encode("LIMIT.TAKE", "line", "WAIT", 60_000) + b"*x\r\n")
    while push(connection, b"x" * 70_000) is not None:
        yield


def half_commands(sidecar: Sidecar) -> Iterator[None]:
    """Abandons its calls: the bytes behind them are no command, so the connection ends."""
    connection = connect(sidecar.port)
    while True:
        if push(connection, encode("PERMIT.ACQUIRE", "calls") * 1024 + b"*x\r\n") != b"":
            connection.close()
            connection = connect(sidecar.port)
        yield


def numbered(port: int, command: Callable[[int], bytes]) -> Iterator[None]:
    """Sends commands that are all about something else, 64 at a time."""
    connection, number = connect(port), 0
    left: bytes | None = b""
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


def made_up_subjects(sidecar: Sidecar) -> Iterator[None]:
    yield from numbered(sidecar.port, lambda number: encode("LIMIT.TAKE", "each", "SUBJECT", f"made-up-{number}"))


def crowded_line(sidecar: Sidecar) -> Iterator[None]:
    """One subject asks for more than its share of a queue, and goes on asking."""
    yield from pour(sidecar.port, encode("LIMIT.TAKE", "line", "WAIT", 60_000) * (WAITING + 1), is_read=True)


def unreported_permits(sidecar: Sidecar) -> Iterator[None]:
    yield from pour(sidecar.port, encode("PERMIT.ACQUIRE", "calls") * 256, is_read=True)


def too_many_connections(sidecar: Sidecar) -> Iterator[None]:
    connections: list[socket.socket] = []
    while True:
        # Some send nothing, some half a command.
        if len(connections) < CONNECTIONS - 20:
            connections.append(connect(sidecar.port))
            push(connections[-1], b"*3\r\n$12\r\nLOCK.AC")
        else:
            connect(sidecar.port).close()
            time.sleep(0.002)
        yield


def too_many_requests(sidecar: Sidecar) -> Iterator[None]:
    """Opens more HTTP connections than there are places. None of them sends a whole request."""
    connections: list[socket.socket] = []
    while True:
        if len(connections) > CONNECTIONS + 20:
            connections.pop(0).close()
            time.sleep(0.002)
        connections.append(connect(sidecar.http_port))
        push(connections[-1], b"POST /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000\r\n")
        yield


def large_bodies(sidecar: Sidecar) -> Iterator[None]:
    head = b"POST /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65537\r\n\r\n"
    while True:
        connection = connect(sidecar.http_port)
        push(connection, head + b"x" * 65_537)
        connection.close()
        yield


def deaf_followers(sidecar: Sidecar) -> Iterator[None]:
    """Followers that do not read the events, while events are published."""
    followers = [connect(sidecar.port) for _ in range(20)]
    for follower in followers:
        push(follower, encode("SUBSCRIBE", "interlock:events"))
    client, number = Client(sidecar.port), 0
    while True:
        client.command("BREAKER.FORCE", "calls", ("DISABLED", "AUTO")[number % 2])
        number += 1
        yield


def linked_leases(sidecar: Sidecar) -> Iterator[None]:
    yield from numbered(sidecar.port, lambda number: encode("LOCK.ACQUIRE", f"linked-{number}", 60_000, "LINKED"))


#: The abuses, by what is abused.
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


def abuse(kind: str, sidecar: Sidecar, orders: Connection) -> None:
    """Runs in its own process until it is told to stop."""
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


def measure(rig: Rig, table: Table, rounds: int, scale: int) -> None:
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
            # By now the abuse is in progress.
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
        ratio = statistics.median(
            late / early if early and late else float("inf") for early, late in zip(before, during, strict=True)
        )
        table.add(
            f"abuse, {kind}: p99 of another's locks, before and during",
            f"{statistics.median(during):,.0f} µs",
            f"{statistics.median(before):,.0f} µs",
            f"{ratio:.2f}",
            f"≤ {BOUND}",
            ratio <= BOUND,
        )
        table.add(
            f"abuse, {kind}: of the other, refused or lost",
            f"{errors + lost}",
            "–",
            f"{errors + lost}",
            "0",
            errors + lost == 0,
        )
        rig.stop(sidecar.process)
