"""HTTP requests that need no Redis, pipelined or multiplexed."""

import socket
from collections.abc import Iterator

from abuses.target import ABUSER, CONNECTIONS, CROWDED, Abuse, Case, Target
from rig import http2
from rig.http2 import Streams
from rig.sender import Sender, connect, repeated

#: Streams that the sidecar allows on one connection, or a few less.
STREAMS = 250
#: The maximum number of consoles that are served at a time.
CONSOLES = 64


def get(path: str, *lines: str, key: str = ABUSER) -> bytes:
    more = [f"X-Api-Key: {key}"] if key else []
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *more, *lines, "", ""]).encode()


def pipelined(path: str, count: int, key: str = "") -> Abuse:
    return pipelined_bytes(get(path, key=key), count)


def pipelined_bytes(request: bytes, count: int) -> Abuse:
    def abuse(target: Target) -> Iterator[None]:
        sender = Sender(target.http_port, count, repeated(request))
        while True:
            yield
            sender.turn()

    return abuse


def multiplexed(path: str, count: int, key: str = "", is_grpc: bool = False) -> Abuse:
    def abuse(target: Target) -> Iterator[None]:
        more = [("x-api-key", key)] if key else []
        if is_grpc:
            more += [("content-type", "application/grpc"), ("te", "trailers")]
        fields = http2.fields(path, *more, method="POST" if is_grpc else "GET")
        port = target.grpc_port if is_grpc else target.http_port
        connections = [Streams(port, fields, STREAMS) for _ in range(count)]
        while True:
            yield
            for connection in connections:
                connection.turn(0.02 / count)

    return abuse


def consoles(target: Target) -> Iterator[None]:
    """Opens consoles on different pages."""

    def page(number: int) -> bytes:
        return get(f"/v1/live?view=services&from={number}", "Accept: text/event-stream")

    sender = Sender(target.http_port, CONSOLES, b"", greeting=page)
    while True:
        yield
        sender.turn()


def consoles_of_locks(target: Target) -> Iterator[None]:
    def page(number: int) -> bytes:
        return get(f"/v1/live?view=locks&search=held-{number}", "Accept: text/event-stream")

    sender = Sender(target.http_port, CONSOLES, b"", greeting=page)
    while True:
        yield
        sender.turn()


def too_many_requests(target: Target) -> Iterator[None]:
    """Opens more HTTP connections than allowed, none of which sends a complete request."""
    head = b"POST /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000\r\n"
    connections: list[socket.socket] = []
    while True:
        yield
        if len(connections) > CONNECTIONS + 20:
            connections.pop(0).close()
        connections.append(connect(target.http_port))
        connections[-1].send(head)


def large_bodies(target: Target) -> Iterator[None]:
    head = f"POST /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: {ABUSER}\r\nContent-Length: 65537\r\n\r\n"
    request = head.encode() + b"x" * 65_537
    sender = Sender(target.http_port, 8, request)
    while True:
        yield
        sender.turn()


LIVE = "/v1/live?view=services"
SHOULD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
CASES = [
    Case("live-1", "GET /v1/live?view=services, pipelined on 1 connection", pipelined(LIVE, 1, ABUSER)),
    Case("live-8", "GET /v1/live?view=services, pipelined on 8 connections", pipelined(LIVE, 8, ABUSER)),
    Case("services-4", "GET /v1/services, pipelined on 4", pipelined("/v1/services", 4, ABUSER)),
    Case("metrics-4", "GET /metrics, pipelined on 4", pipelined("/metrics", 4, ABUSER)),
    Case("healthz-64", "GET /healthz without a key, pipelined on 64", pipelined("/healthz", 64)),
    Case("healthz-1000", "GET /healthz without a key, pipelined on 1,000", pipelined("/healthz", 1_000)),
    Case("401-8", "requests without a key that need one, on 8", pipelined("/v1/services", 8)),
    Case("404-64", "unknown paths without a key, on 64", pipelined("/nothing/here", 64)),
    Case("console-64", "GET /console without a key, on 64", pipelined("/console", 64)),
    Case("openapi-8", "GET /openapi.yaml with a key, on 8", pipelined("/openapi.yaml", 8, ABUSER)),
    Case("consoles-64", "64 consoles on different pages of services", consoles),
    Case("consoles-locks-64", "64 consoles on different searches for locks", consoles_of_locks),
    Case("h2-live", f"GET /v1/live?view=services, {STREAMS} streams of HTTP/2", multiplexed(LIVE, 1, ABUSER)),
    Case("h2-401", f"requests without a key, {STREAMS} streams on each of 8", multiplexed("/v1/services", 8)),
    Case("h2-console", f"GET /console, {STREAMS} streams on each of 4", multiplexed("/console", 4)),
    Case(
        "grpc-401", f"calls of gRPC without a key, {STREAMS} streams on each of 8", multiplexed(SHOULD, 8, is_grpc=True)
    ),
    Case("bad-64", "bytes that are no HTTP, on 64", pipelined_bytes(b"GET  HTTP\r\n\r\n", 64)),
    Case("half-requests", "half requests on all connections", too_many_requests, CROWDED),
    Case("large-bodies", "bodies of 64 KiB and one byte, on 8", large_bodies),
]
