"""Locks over HTTP with JSON: etcd's gateway, and Interlock's HTTP API."""

import base64
import http.client
import json
from collections.abc import Mapping
from typing import Any


class JSONClient:
    """A client with one persistent connection."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:
        """Returns the response's body, or None if it is empty."""
        text = None if body is None else json.dumps(body)
        self.connection.request(method, path, text, {"Content-Type": "application/json", **(headers or {})})
        response = self.connection.getresponse()
        answer = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path} answered {response.status}: {answer.decode(errors='replace')[:300]}")
        return json.loads(answer) if answer else None


class EtcdLock:
    """etcd's lock like in its own clients: one lease per session, and a key below the lock's name per turn."""

    def __init__(self, port: int, name: str, lease: int) -> None:
        self.client = JSONClient(port)
        self.name = base64.b64encode(name.encode()).decode()
        self.session = self.client.ask("POST", "/v3/lease/grant", {"TTL": lease})["ID"]

    def acquire(self) -> None:
        self.key = self.client.ask("POST", "/v3/lock/lock", {"name": self.name, "lease": self.session})["key"]

    def release(self) -> None:
        self.client.ask("POST", "/v3/lock/unlock", {"key": self.key})


class InterlockLock:
    def __init__(self, port: int, name: str, lease: int) -> None:
        self.client = JSONClient(port)
        self.path = f"/v1/locks/{name}"
        self.request = {"ttl_ms": lease * 1000, "wait_ms": 60_000}
        self.client.ask("GET", "/healthz")

    def acquire(self) -> None:
        self.token = self.client.ask("POST", self.path, self.request)["token"]

    def release(self) -> None:
        self.client.ask("DELETE", self.path, headers={"Lease-Token": self.token})
