"""Very many connections to one sidecar."""

import select
import socket
import sys
import time

from rig.client import Replies, encode

#: How many connect before the next ones do: fewer than a listener's backlog.
AT_ONCE = 500
PING = encode("PING")


class Crowd:
    def __init__(self, port, count):
        self.port = port
        self.members = {}
        self.ready = select.epoll()
        while len(self.members) < count:
            self.join(min(AT_ONCE, count - len(self.members)))

    @property
    def sockets(self):
        """In the order in which they connected."""
        return [member[0] for member in self.members.values()]

    def join(self, count):
        """So many more connections, each of which has been answered."""
        new = []
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", self.port), timeout=10)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.members[connection.fileno()] = connection, Replies()
            self.ready.register(connection, select.EPOLLIN)
            new.append(connection)
        self.ask(PING, new)

    def ask(self, command, sockets=None, seconds=30):
        """Sends a command over each connection, or a function's of its place; the replies, in the order of the connections."""
        sockets = self.sockets if sockets is None else sockets
        for place, connection in enumerate(sockets):
            connection.sendall(command(place) if callable(command) else command)
        places = {connection.fileno(): place for place, connection in enumerate(sockets)}
        replies = {}
        for number, reply in self.answers(len(sockets), seconds):
            replies[places[number]] = reply
        return [replies[place] for place in range(len(sockets))]

    def answers(self, count, seconds):
        """So many replies as they come: (file number, reply)."""
        deadline = time.monotonic() + seconds
        while count > 0:
            ready = self.ready.poll(max(0, deadline - time.monotonic()))
            if not ready:
                sys.exit(f"benchmark: {count:,} of {len(self.members):,} connections had no answer within {seconds} s")
            for number, _ in ready:
                connection, replies = self.members[number]
                data = connection.recv(1 << 16)
                if not data:
                    sys.exit("benchmark: the sidecar closed a connection that it had taken")
                for reply in replies.feed(data):
                    count -= 1
                    yield number, reply

    def close(self):
        self.ready.close()
        for connection in self.sockets:
            connection.close()
        self.members = {}
