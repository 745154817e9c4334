"""Locks that are taken over HTTP with JSON: etcd's through its gateway, and Interlock's through its HTTP door."""

import base64
import http.client
import json


class JSONClient:
    """One connection that is kept."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, method, path, body=None, headers=None):
        """The answer; None: it has no body."""
        text = None if body is None else json.dumps(body)
        self.connection.request(method, path, text, {"Content-Type": "application/json", **(headers or {})})
        response = self.connection.getresponse()
        answer = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path} answered {response.status}: {answer.decode(errors='replace')[:300]}")
        return json.loads(answer) if answer else None


class EtcdLock:
    """As etcd's own clients do it: a session's lease once, and a key below the lock's name for each turn."""

    def __init__(self, port, name, lease):
        self.client = JSONClient(port)
        self.name = base64.b64encode(name.encode()).decode()
        self.session = self.client.ask("POST", "/v3/lease/grant", {"TTL": lease})["ID"]

    def acquire(self):
        self.key = self.client.ask("POST", "/v3/lock/lock", {"name": self.name, "lease": self.session})["key"]

    def release(self):
        self.client.ask("POST", "/v3/lock/unlock", {"key": self.key})


class InterlockLock:
    def __init__(self, port, name, lease):
        self.client = JSONClient(port)
        self.path = f"/v1/locks/{name}"
        self.wish = {"ttl_ms": lease * 1000, "wait_ms": 60_000}
        self.client.ask("GET", "/healthz")

    def acquire(self):
        self.token = self.client.ask("POST", self.path, self.wish)["token"]

    def release(self):
        self.client.ask("DELETE", self.path, headers={"Lease-Token": self.token})
