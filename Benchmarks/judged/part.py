"""One part of the comparison: one peer loses one server, on fresh servers, and the judge checks its history."""

import concurrent.futures
import gzip
import json
import os
import pathlib
import signal
import subprocess
import threading
import time
from typing import Any

from judged import history
from judged.arenas import Arena, arena_of
from judged.history import Event
from judged.plan import AFTERWARDS, CLIENTS, ClientFault, plan
from judged.relay import Network, Resources
from rig.load import PACKAGES, PYTHON
from rig.servers import Rig

#: The time within which all clients must be ready, in seconds.
START = 60
#: The time after the end within which each client must finish its last call, in seconds.
END = 15
#: The fault number of the server's loss. The faults of clients follow.
SERVER_FAULT = 0


class Part:
    """A running part."""

    def __init__(self, rig: Rig, arena: Arena, network: Network, peer: str, seed: int, number: int) -> None:
        self.rig, self.arena, self.network = rig, arena, network
        self.peer, self.seed, self.number = peer, seed, number
        self.plan = plan(seed, number)
        self.resources = Resources(CLIENTS)
        self.socket = rig.folder / "resource.sock"
        #: The number and process of each client, by slot. A replacement takes over the slot.
        self.clients: dict[int, tuple[int, subprocess.Popen[Any]]] = {}
        self.files: dict[int, pathlib.Path] = {}
        self.killed_at: dict[int, int] = {}
        self.events: list[Event] = []
        self.stopping = threading.Event()
        self.begin = self.lost_at = 0
        self.log = threading.Lock()

    def run(self) -> list[Event]:
        """Returns the history."""
        self.network.serve_resources(self.socket, self.resources)
        self.arena.start()
        for slot in range(CLIENTS):
            self.start_client(slot, slot)
        if not self.resources.all_ready.wait(START):
            raise SystemExit(f"peers: a client of {self.peer} was not ready within {START} s: {self.errors()}")
        self.begin = time.monotonic_ns()
        length = self.plan.restored_at + AFTERWARDS
        self.resources.deadline = self.begin / 1e9 + length
        self.network.loop.call_soon_threadsafe(self.resources.begun.set)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            faults = [pool.submit(self.lose_server)]
            faults += [pool.submit(self.fault_client, one, fault) for one, fault in enumerate(self.plan.clients, 1)]
            try:
                for fault in faults:
                    fault.result()
            finally:
                self.stopping.set()
        self.end_clients()
        return self.history()

    def wait(self, at: float) -> None:
        """Waits until this many seconds have passed since the first request."""
        if self.stopping.wait(max(0, self.begin / 1e9 + at - time.monotonic())):
            raise SystemExit("peers: the part was stopped")

    def record(self, what: str, **fields: object) -> int:
        at = time.monotonic_ns()
        with self.log:
            self.events.append({"at": at, "what": what, **fields})
        return at

    def start_client(self, slot: int, number: int) -> None:
        path = self.rig.folder / f"client-{number}.jsonl"
        options = {
            "client": number,
            "slot": slot,
            "seed": self.seed,
            "number": self.number,
            "peer": self.peer,
            "target": self.arena.target(slot),
            "resource": str(self.socket),
            "file": str(path),
        }
        file = self.rig.folder / f"client-{number}.json"
        file.write_text(json.dumps(options))
        self.files[number] = path
        # A process group, so that signals also reach the client's Go program.
        process = self.rig.start(f"client-{number}", PYTHON, "-m", "judged.client", file, cwd=PACKAGES, process_group=0)
        self.clients[slot] = (number, process)

    def fault_client(self, fault_number: int, fault: ClientFault) -> None:
        self.wait(fault.at)
        number, process = self.clients[fault.client]
        kind = "pause" if fault.length else "kill"
        self.record("fault", fault=fault_number, reason=kind, sidecar=fault.client)
        if fault.length:
            os.killpg(process.pid, signal.SIGSTOP)
            try:
                self.wait(fault.at + fault.length)
            finally:
                os.killpg(process.pid, signal.SIGCONT)
        else:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.rig.processes.remove(process)
            self.killed_at[number] = time.monotonic_ns()
            self.start_client(fault.client, number + CLIENTS)
        self.record("mended", fault=fault_number)

    def lose_server(self) -> None:
        self.wait(self.plan.lost_at)
        self.lost_at = self.record("fault", fault=SERVER_FAULT, reason=self.arena.fault(self.plan))
        self.arena.lose(self.plan)
        self.wait(self.plan.restored_at)
        self.arena.restore()
        self.record("mended", fault=SERVER_FAULT)

    def end_clients(self) -> None:
        until = self.resources.deadline + END
        for _, process in self.clients.values():
            failed = False
            try:
                failed = process.wait(max(0, until - time.monotonic())) != 0
            except subprocess.TimeoutExpired:
                # The judge reports the unfinished call.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self.rig.processes.remove(process)
            if failed:
                raise SystemExit(f"peers: a client of {self.peer} failed: {self.errors()}")

    def errors(self) -> str:
        """Returns the last line of the first client log that has one."""
        logs = [log.read_text().strip() for log in sorted(self.rig.folder.glob("client-*.log"))]
        return next((log.splitlines()[-1] for log in logs if log), "no client wrote to its log")

    def history(self) -> list[Event]:
        parts = [self.events, [json.loads(line) for line in self.resources.lines]]
        for number, file in self.files.items():
            events = history.parse(file.read_text() if file.exists() else "")
            if number in self.killed_at:
                events += history.vanished(events, self.killed_at[number])
            parts.append(events)
        return history.merged(parts)


def run(peer: str, topology: str, seed: int, number: int, histories: pathlib.Path, name: str) -> dict[str, Any]:
    """Runs a part, and returns its figures. The history stays in `histories`."""
    rig_type, arena_type = arena_of(peer, topology)
    rig: Any = rig_type()
    with Network() as network:
        rig.network = network
        with rig:
            part = Part(rig, arena_type(rig, network, peer), network, peer, seed, number)
            try:
                events = part.run()
            finally:
                resume(rig)
            file = rig.folder / "history.jsonl"
            history.write(file, events, time.monotonic_ns())
            end = int(part.resources.deadline * 1e9)
            figures = history.figures(history.judge(file), events, part.lost_at, end)
            histories.mkdir(parents=True, exist_ok=True)
            with gzip.open(histories / f"{name}.jsonl.gz", "wb") as kept:
                kept.write(file.read_bytes())
    return {"loss": part.plan.loss, **figures}


def resume(rig: Rig) -> None:
    """Resumes stopped processes, so that they can handle the signal to exit."""
    for process in rig.processes:
        process.send_signal(signal.SIGCONT)
