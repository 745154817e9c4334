"""Well-behaved clients in separate processes, which measure the effect of others on their sidecar.

`Caller` sends a command at a fixed pace, without waiting for answers. `Prober` checks liveness over a new
connection each time. `Holder` keeps a linked lease. All of them fork: create them before other connections.
"""

import collections
import multiprocessing
import select
import socket
import ssl
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from rig.client import Client, Replies, encode

#: Seconds from one command to the next.
PACE = 0.005
#: Seconds from one liveness probe to the next, and until it counts as failed.
PROBE_PACE, PROBE_TIMEOUT = 0.25, 1.0
#: How long to wait for the last answers, in seconds.
GRACE = 10.0
TTL = 1500


class Turn(NamedTuple):
    #: Nanoseconds of the monotonic clock, which all processes of a machine share.
    at: int
    milliseconds: float


class Latencies(NamedTuple):
    """The latencies of the turns within a span of time, in milliseconds."""

    calls: int
    p50: float
    p99: float
    maximum: float


def latencies(turns: list[Turn], begin: int, end: int) -> Latencies:
    times = sorted(turn.milliseconds for turn in turns if begin <= turn.at < end)
    if not times:
        return Latencies(0, float("inf"), float("inf"), float("inf"))
    return Latencies(len(times), statistics.median(times), times[len(times) * 99 // 100], times[-1])


class Port(NamedTuple):
    """Where to connect, and how."""

    number: int
    key: str = ""
    is_encrypted: bool = False


class Witness:
    """A process that runs `function` until it is stopped."""

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        processes = multiprocessing.get_context("fork")
        self.orders, child_end = processes.Pipe()
        self.process = processes.Process(target=function, args=(*arguments, child_end), daemon=True)
        self.process.start()
        child_end.close()

    def stop(self) -> Any:
        """Returns the turns and the errors."""
        try:
            self.orders.send("stop")
            return self.orders.recv()
        except (EOFError, OSError):
            return [], ["the witness's process has ended"]
        finally:
            self.process.join(5)


def caller(port: Port, *words: object) -> Witness:
    return Witness(call, port, words)


def prober(port: Port, path: str = "/healthz") -> Witness:
    return Witness(probe, port, path)


def holder(port: Port) -> Witness:
    return Witness(hold, port)


def call(port: Port, words: tuple[object, ...], orders: Connection) -> None:
    client = Client(port.number, port.is_encrypted)
    client.socket.settimeout(30)
    if port.key:
        client.command("AUTH", port.key)
    command, replies = encode(*words), Replies()
    sent: collections.deque[int] = collections.deque()
    turns: list[Turn] = []
    errors: list[str] = []
    due, end = time.monotonic(), float("inf")
    is_encrypted = isinstance(client.socket, ssl.SSLSocket)
    while time.monotonic() < end and (sent or end == float("inf")):
        if end == float("inf") and time.monotonic() >= due:
            # If the machine cannot keep the pace, the missed turns are skipped.
            due = max(due + PACE, time.monotonic())
            sent.append(time.monotonic_ns())
            client.socket.sendall(command)
        pause = due - time.monotonic() if end == float("inf") else end - time.monotonic()
        has_more = is_encrypted and client.socket.pending()  # type: ignore[attr-defined]
        waited: list[Any] = [orders, client.socket] if end == float("inf") else [client.socket]
        ready = select.select(waited, [], [], 0 if has_more else max(0, pause))[0]
        if orders in ready:
            orders.recv()
            end = time.monotonic() + GRACE
        if client.socket in ready or has_more:
            try:
                data = client.socket.recv(1 << 16)
                if not data:
                    raise ConnectionResetError("the server has closed the connection")
                answers = replies.feed(data)
            except (OSError, RuntimeError) as error:
                errors.append(repr(error))
                break
            now = time.monotonic_ns()
            turns += [Turn(at, (now - at) / 1e6) for at in (sent.popleft() for _ in answers)]
    if end == float("inf"):
        orders.recv()
    now = time.monotonic_ns()
    turns += [Turn(at, (now - at) / 1e6) for at in sent]
    orders.send((turns, errors))


def probe(port: Port, path: str, orders: Connection) -> None:
    turns: list[Turn] = []
    errors: list[str] = []
    due = time.monotonic()
    while not orders.poll(max(0, due - time.monotonic())):
        due = max(due + PROBE_PACE, time.monotonic())
        begin = time.monotonic_ns()
        try:
            status = ask(port, path)
            if status != 200:
                errors.append(f"{path} answered {status}")
        except OSError as error:
            errors.append(f"{path}: {error!r}")
        turns.append(Turn(begin, (time.monotonic_ns() - begin) / 1e6))
    orders.recv()
    orders.send((turns, errors))


def ask(port: Port, path: str, seconds: float = PROBE_TIMEOUT) -> int:
    """Returns the status of an answer over a new connection. Raises OSError if it does not arrive in time."""
    deadline = time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", port.number), timeout=seconds) as plain:
        connection = plain
        if port.is_encrypted:
            connection = unverified().wrap_socket(plain)
        key = f"X-Api-Key: {port.key}\r\n" if port.key else ""
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{key}Connection: close\r\n\r\n".encode())
        data = b""
        while b"\r\n" not in data:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            more = connection.recv(1 << 16)
            if not more:
                raise ConnectionResetError("the server has closed the connection")
            data += more
        return int(data[9:12])


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def hold(port: Port, orders: Connection) -> None:
    """Holds a linked lease. Its only error is that the lease was lost."""
    errors: list[str] = []
    client = Client(port.number, port.is_encrypted)
    client.socket.settimeout(30)
    if port.key:
        client.command("AUTH", port.key)
    name = f"held-{time.time_ns()}"
    token = client.command("LOCK.ACQUIRE", name, TTL, "LINKED")[0]
    orders.recv()
    try:
        if client.command("LOCK.RELEASE", name, token) != b"1":
            errors.append("its linked lease was lost")
    except (OSError, RuntimeError) as error:
        errors.append(repr(error))
    orders.send(([], errors))
