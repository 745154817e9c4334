"""One client process. Acquires locks, writes to their resources, and records each call as `interlock bench` does.

Each line reaches the file before the next call, because the client may be killed at any time.
"""

import json
import os
import pathlib
import socket
import sys
import time
from typing import Any

from judged.adapters import LOCKERS, MARGIN_MS, Locker, Target
from judged.plan import TTL_MS, WAIT_MS, Job, jobs

#: The pause after a failed call, in seconds.
AFTER_FAILURE = 0.05
#: The fraction of the lease after which a holder renews, also if the grant itself took this long.
RENEW_AT = 1 / 3
#: The maximum number of leases of one client in a part. Each client numbers its leases consecutively.
LEASES_OF_CLIENT = 1_000_000


class Resource:
    """The connection to the resources that the locks guard."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.answers = self.socket.makefile("r")

    def ask(self, **words: object) -> Any:
        self.socket.sendall((json.dumps(words) + "\n").encode())
        return json.loads(self.answers.readline())


class Client:
    """Runs jobs until the end of the part."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.number: int = options["client"]
        self.slot: int = options["slot"]
        self.jobs = jobs(options["seed"], options["number"], self.number)
        self.locker: Locker = LOCKERS[options["peer"]](Target(*options["target"]))
        self.resource = Resource(options["resource"])
        self.file = os.open(options["file"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.leases = self.number * LEASES_OF_CLIENT
        #: The end of the part.
        self.deadline = 0.0

    def run(self) -> None:
        self.deadline = self.resource.ask(ready=self.number)
        while time.monotonic() < self.deadline:
            job = self.jobs.next()
            self.work(job)
            time.sleep(job.pause)

    def record(self, what: str, at: int | None = None, **fields: object) -> int:
        """Records an event. Returns its time."""
        at = at or time.monotonic_ns()
        line = {"at": at, "what": what, "client": self.number, **fields}
        os.write(self.file, (json.dumps(line) + "\n").encode())
        return at

    def fail(self, error: Exception) -> None:
        self.record("failed", reason=f"{type(error).__name__}: {error}"[:200])
        time.sleep(AFTER_FAILURE)

    def work(self, job: Job) -> None:
        lease = {"lock": job.lock}
        asked = self.record("acquire", sidecar=self.slot, mode="exclusive", ttl=TTL_MS, wait=WAIT_MS, **lease)
        try:
            grant = self.locker.acquire(f"judged-{job.lock}", WAIT_MS)
        except Exception as error:
            return self.fail(error)
        if grant is None:
            self.record("refused", reason="held")
            return None
        self.leases += 1
        granted = time.monotonic_ns()
        until = grant.until or asked + (TTL_MS - MARGIN_MS) * 1_000_000
        # Without a fence, the history has the time instead, and the resource accepts every write.
        fence = granted if grant.fence is None else grant.fence
        self.record("granted", granted, lease=self.leases, fence=fence, valid=(until - asked) // 1_000_000)
        lease |= {"lease": self.leases}
        # A lease may have begun at any time since the request, so it may be almost over after a long wait.
        if grant.until is None and granted - asked > RENEW_AT * TTL_MS * 1e6:
            renewed = self.renew(lease, until)
            if renewed is None:
                return None
            until = renewed
        if time.monotonic_ns() >= until:
            return self.release(lease)
        return self.hold(job, lease, until, {"fence": fence, "fenced": grant.fence is not None})

    def hold(self, job: Job, lease: dict[str, int], until: int, fence: dict[str, Any]) -> None:
        if job.kind == "forget":
            self.locker.abandon()
            return None
        if job.kind == "overstay":
            self.locker.abandon()
            self.write(lease, fence)
            time.sleep(max(0, (until - time.monotonic_ns()) / 1e9) + job.hold)
            self.write(lease, fence)
            return self.release(lease)
        end = time.monotonic() + job.hold
        time.sleep(min(job.hold, RENEW_AT * TTL_MS / 1000) / 2)
        # A client that was stopped until after its lease does not notice, and still writes.
        self.write(lease, fence)
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, RENEW_AT * TTL_MS / 1000))
            if job.kind == "renew":
                renewed = self.renew(lease, until)
                if renewed is None:
                    return None
                until = renewed
                self.write(lease, fence)
        self.release(lease)
        return None

    def write(self, lease: dict[str, int], fence: dict[str, Any]) -> None:
        self.resource.ask(client=self.number, **lease, **fence)

    def renew(self, lease: dict[str, int], until: int) -> int | None:
        """Returns the end of the lease, or None if the holder must stop."""
        asked = self.record("renew", sidecar=self.slot, ttl=TTL_MS, **lease)
        try:
            renewed = self.locker.extend()
        except Exception as error:
            self.fail(error)
            return until if time.monotonic_ns() < until else None
        if renewed is False:
            self.record("refused", reason="lost")
            return None
        until = asked + (TTL_MS - MARGIN_MS) * 1_000_000 if renewed is None else int(renewed)
        self.record("renewed", valid=(until - asked) // 1_000_000)
        return until

    def release(self, lease: dict[str, int]) -> None:
        self.record("release", sidecar=self.slot, **lease)
        try:
            was_held = self.locker.release()
        except Exception as error:
            return self.fail(error)
        if was_held:
            self.record("released")
        else:
            self.record("refused", reason="lost")
        return None


if __name__ == "__main__":
    Client(json.loads(pathlib.Path(sys.argv[1]).read_text())).run()
