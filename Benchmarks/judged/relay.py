"""Relays that can block all traffic, and the resources that the locks guard. Both run in one thread."""

import asyncio
import contextlib
import json
import pathlib
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Self

CHUNK = 1 << 16
Origin = Callable[[int, int], str | None]


class Network:
    """An event loop in a thread, with relays and one server for resources."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        #: By server, an event that is set while its traffic passes.
        self.gates: dict[str, asyncio.Event] = {}

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()

    async def stop(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def gate(self, server: str) -> asyncio.Event:
        """Returns the gate of a server. Call this in the loop."""
        if server not in self.gates:
            self.gates[server] = asyncio.Event()
            self.gates[server].set()
        return self.gates[server]

    def set_reachable(self, server: str, is_reachable: bool) -> None:
        async def change() -> None:
            gate = self.gate(server)
            if is_reachable:
                gate.set()
            else:
                gate.clear()

        self.run(change())

    def relay(self, port: int, target: int, server: str, origin: Origin | None = None) -> None:
        """Relays connections from `port` to `target`, which belongs to a server.

        `origin` returns the server that opened a connection from one port to another, if it has a gate, too.
        """

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            caller = origin(writer.get_extra_info("peername")[1], port) if origin else None
            gates = [self.gate(name) for name in (server, caller) if name]
            # asyncio logs the end of a connection by cancellation as an error.
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await all_open(gates)
                to_reader, to_writer = await asyncio.open_connection("127.0.0.1", target)
                await asyncio.gather(pump(reader, to_writer, gates), pump(to_reader, writer, gates))
            writer.close()

        self.run(asyncio.start_server(connected, "127.0.0.1", port))

    def serve_resources(self, path: pathlib.Path, resources: "Resources") -> None:
        self.run(asyncio.start_unix_server(resources.connected, path))


async def all_open(gates: list[asyncio.Event]) -> None:
    while not all(gate.is_set() for gate in gates):
        for gate in gates:
            await gate.wait()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gates: list[asyncio.Event]) -> None:
    """Copies bytes until either side closes. A closed gate blocks the bytes, and also the close."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            await all_open(gates)
            writer.write(data)
            await writer.drain()
    await all_open(gates)
    writer.close()


class Resources:
    """The resources that the locks guard. Each accepts a write unless it has accepted one with a higher fence."""

    def __init__(self, clients: int) -> None:
        self.missing = clients
        self.deadline = 0.0
        #: Set once every client is ready, by the thread that starts the part.
        self.begun = asyncio.Event()
        self.all_ready = threading.Event()
        self.ready: set[int] = set()
        self.fences: dict[int, int] = {}
        self.lines: list[str] = []

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while line := await reader.readline():
                words = json.loads(line)
                answer = await self.begin(words["ready"]) if "ready" in words else self.write(words)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        writer.close()

    async def begin(self, client: int) -> float:
        """Waits for the other clients. Returns the end of the part."""
        self.ready.add(client)
        if len(self.ready) >= self.missing:
            self.all_ready.set()
        await self.begun.wait()
        return self.deadline

    def write(self, words: dict[str, Any]) -> bool:
        is_fenced, lock, fence = words.pop("fenced"), words["lock"], words["fence"]
        is_accepted = not is_fenced or fence >= self.fences.get(lock, fence)
        if is_accepted:
            self.fences[lock] = fence
        self.lines.append(json.dumps({"at": time.monotonic_ns(), "what": "wrote", **words, "ok": is_accepted}))
        return is_accepted
