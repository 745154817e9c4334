"""Connections that send prebuilt bytes as fast as a server accepts them, and discard the answers."""

import select
import socket
import struct
from collections.abc import Callable

#: Bytes that one call to the kernel reads.
READ = 1 << 20
#: Bytes of repeated requests that are sent as one block.
BLOCK = 1 << 18
#: Connections from one address of this machine, which has about 28,000 ports.
PER_ADDRESS = 10_000
#: Seconds that a turn waits for a ready connection, so that orders are noticed.
POLL_TIMEOUT = 0.02


def repeated(request: bytes, size: int = BLOCK) -> bytes:
    """Returns the request as often as it fits into a block, at least once."""
    return request * max(1, size // len(request))


def connect(port: int) -> socket.socket:
    """Returns a connection that does not block."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Closing frees the port immediately: a loop of connections would run out of ports within seconds.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return connection


class Sender:
    """`count` connections. Each sends a greeting and then the same data repeatedly; a closed one is replaced.

    port: of a server on this machine
    data: what connection number n sends repeatedly; empty: nothing more
    greeting: what connection number n sends first
    is_read: whether answers are read
    """

    def __init__(
        self,
        port: int,
        count: int,
        data: bytes | Callable[[int], bytes],
        greeting: bytes | Callable[[int], bytes] = b"",
        is_read: bool = True,
    ) -> None:
        self.port = port
        self.data = data if callable(data) else lambda _: data
        self.greeting = greeting if callable(greeting) else lambda _: greeting
        self.is_read = is_read
        self.ready = select.epoll()
        #: By file descriptor: the connection, its number, and the remaining bytes to send.
        self.connections: dict[int, tuple[socket.socket, int, memoryview]] = {}
        for number in range(count):
            self.open(number)

    def open(self, number: int) -> None:
        connection = connect(self.port)
        self.connections[connection.fileno()] = connection, number, memoryview(self.greeting(number))
        self.ready.register(connection, select.EPOLLOUT | (select.EPOLLIN if self.is_read else 0))

    def turn(self) -> None:
        """Sends and reads what is possible now on each connection."""
        for descriptor, events in self.ready.poll(POLL_TIMEOUT):
            connection, number, remaining = self.connections[descriptor]
            try:
                if events & select.EPOLLIN and not connection.recv(READ):
                    raise ConnectionResetError
                if events & (select.EPOLLERR | select.EPOLLHUP):
                    raise ConnectionResetError
                if events & select.EPOLLOUT:
                    self.push(connection, number, remaining)
            except BlockingIOError:
                pass
            except OSError:
                self.replace(descriptor)

    def push(self, connection: socket.socket, number: int, remaining: memoryview) -> None:
        remaining = remaining or memoryview(self.data(number))
        if not remaining:
            self.ready.modify(connection, select.EPOLLIN)
            return
        self.connections[connection.fileno()] = connection, number, remaining[connection.send(remaining) :]

    def replace(self, descriptor: int) -> None:
        connection, number, _ = self.connections.pop(descriptor)
        self.ready.unregister(descriptor)
        connection.close()
        self.open(number)

    def close(self) -> None:
        for connection, _, _ in self.connections.values():
            connection.close()
        self.ready.close()
