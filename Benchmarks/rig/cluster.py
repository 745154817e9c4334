"""A Redis Cluster of primaries without replicas."""

import subprocess
from typing import Any

from rig.client import Client, scripts_run
from rig.servers import CLUSTER_BUS, Rig, free_port, processor_seconds, wait_until

SLOTS = 16_384


class ClusterRig(Rig):
    """Real servers on TCP loopback, which share the slots evenly. All of them stop when the context ends."""

    def __init__(self, configuration: str, primaries: int) -> None:
        super().__init__(configuration)
        self.primaries = primaries
        self.servers: dict[int, subprocess.Popen[Any]] = {}

    def start_redis(self) -> None:
        for _ in range(self.primaries):
            self.start_server(free_port(distance=CLUSTER_BUS))
        self.join()

    @property
    def redis_url(self) -> str:
        return f"redis+cluster://{','.join(f'127.0.0.1:{port}' for port in self.servers)}"

    def start_server(self, port: int) -> None:
        folder = self.folder / str(port)
        folder.mkdir()
        words = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
        self.servers[port] = self.start(f"redis-{port}", "redis-server", *words, "--cluster-enabled", "yes")
        wait_until(lambda: Client(port).command("PING"), "the start of redis-server")

    def join(self) -> None:
        ports = list(self.servers)
        for index, port in enumerate(ports):
            first, last = SLOTS * index // len(ports), SLOTS * (index + 1) // len(ports) - 1
            Client(port).command("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            Client(port).command("CLUSTER", "ADDSLOTSRANGE", first, last)
            if index > 0:
                Client(port).command("CLUSTER", "MEET", "127.0.0.1", ports[0])
        wait_until(lambda: all(self.is_healthy(port) for port in ports), "the agreement of the cluster", 60)

    def is_healthy(self, port: int) -> bool:
        lines = Client(port).command("CLUSTER", "INFO").decode().splitlines()
        return "cluster_state:ok" in lines and f"cluster_known_nodes:{len(self.servers)}" in lines

    def owner(self, key: str) -> int:
        """Returns the port of the server that has a key."""
        ports = list(self.servers)
        slot = int(Client(ports[0]).command("CLUSTER", "KEYSLOT", key))
        return next(port for index, port in enumerate(ports) if slot < SLOTS * (index + 1) // len(ports))

    def scripts_run(self) -> dict[int, int]:
        """Returns the number of scripts by server port."""
        return {port: scripts_run(Client(port)) for port in self.servers}

    def processor_seconds(self) -> list[float]:
        return [processor_seconds(process) for process in self.servers.values()]
