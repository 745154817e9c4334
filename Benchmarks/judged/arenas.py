"""The servers of each topology, in fresh folders on free ports, and the loss of one of them."""

import json
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import urllib.request
from collections.abc import Callable
from typing import Any

from judged.adapters import Target
from judged.plan import MEMBERS, SERVERS, Plan
from judged.relay import Network
from peers import etcd
from rig.client import Client
from rig.load import ROOT
from rig.sentinels import NAME, REPLICAS, SentinelRig
from rig.servers import Rig, Sidecar, free_port, wait_until

#: The source of the program that calls libraries in Go, and the folder and version of redsync's source.
GO_SOURCES = ROOT / "Benchmarks" / "judged" / "golocks"
REDSYNC_VERSION = "v4.13.0"
REDSYNC = ROOT / ".build" / f"redsync-{REDSYNC_VERSION}"
#: The number of sidecars. Each serves every second client.
SIDECARS = 2
#: The number of replicas that must confirm a lease, by the name of the peer.
WAITING_REPLICAS = {"interlock": REPLICAS, "interlock-no-wait": 0}
#: A server that crashes restarts with every lock, as Redis's page on distributed locks recommends.
DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
#: As Redis's page on Sentinel recommends.
SAFE_PRIMARY = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "10")
#: From linux/netlink.h.
NETLINK_SOCK_DIAG = 4
#: By the loss of an only server: what the judge calls it.
SINGLE_FAULTS = {"killed": "redis-restart", "stopped": "redis-pause", "partitioned": "partition"}


class Arena:
    """The servers of one part for one peer."""

    def __init__(self, rig: Rig, network: Network, peer: str) -> None:
        self.rig = rig
        self.network = network
        self.peer = peer
        self.sidecars: list[Sidecar] = []
        self.undo: Callable[[], object] | None = None

    @property
    def is_interlock(self) -> bool:
        return self.peer in WAITING_REPLICAS

    def configuration(self) -> dict[str, Any]:
        """Returns the configuration of the sidecars."""
        return {"services": {}}

    def start(self) -> None:
        if self.is_interlock:
            # JSON is YAML.
            (self.rig.folder / "services.yaml").write_text(json.dumps(self.configuration()))
            self.sidecars = [self.rig.start_sidecar() for _ in range(SIDECARS)]

    def target(self, slot: int) -> list[Any]:
        """Returns the `Target` of the client in a slot."""
        if self.sidecars:
            return list(Target([self.sidecars[slot % SIDECARS].port], [], "", ""))
        return list(self.peers_target())

    def peers_target(self) -> Target:
        raise NotImplementedError

    def fault(self, plan: Plan) -> str:
        """Returns the judge's name for the fault."""
        raise NotImplementedError

    def lose(self, plan: Plan) -> None:
        raise NotImplementedError

    def take_away(self, loss: str, process: subprocess.Popen[Any], gate: str, restart: Callable[[], object]) -> None:
        """Kills a server, stops it, or closes the gate of its relay."""
        if loss == "killed":
            kill(self.rig, process)
            self.undo = restart
        elif loss == "stopped":
            process.send_signal(signal.SIGSTOP)
            self.undo = lambda: process.send_signal(signal.SIGCONT)
        else:
            self.network.set_reachable(gate, False)
            self.undo = lambda: self.network.set_reachable(gate, True)

    def restore(self) -> None:
        """Makes the lost server reachable, and waits until it has rejoined."""
        undo, self.undo = self.undo, None
        if undo:
            undo()


class SingleRig(Rig):
    """One Redis behind a relay."""

    network: Network

    def start_redis(self) -> None:
        self.server_port = free_port()
        self.start_server()
        self.network.relay(self.redis_port, self.server_port, "redis")

    def start_server(self) -> None:
        self.redis = start_durable(self, "redis", self.server_port)


def start_durable(rig: Rig, name: str, port: int) -> subprocess.Popen[Any]:
    folder = rig.folder / name
    folder.mkdir(exist_ok=True)
    process = rig.start(name, "redis-server", "--port", port, "--bind", "127.0.0.1", *DURABLE, "--dir", folder)
    wait_until(lambda: answers(port), "the start of redis-server")
    return process


def answers(port: int) -> bool:
    try:
        return bool(Client(port).command("PING"))
    except RuntimeError:
        return False


def kill(rig: Rig, process: subprocess.Popen[Any]) -> None:
    process.kill()
    process.wait()
    rig.processes.remove(process)


class Single(Arena):
    rig: SingleRig

    def peers_target(self) -> Target:
        return Target([self.rig.redis_port], [], "", str(go_program(self.peer)))

    def fault(self, plan: Plan) -> str:
        return SINGLE_FAULTS[plan.loss]

    def lose(self, plan: Plan) -> None:
        self.take_away(plan.loss, self.rig.redis, "redis", self.rig.start_server)


class SafeSentinelRig(SentinelRig):
    server_options = SAFE_PRIMARY


class Sentinel(Arena):
    rig: SentinelRig

    def configuration(self) -> dict[str, Any]:
        return {"services": {}, "locks": {"wait_replicas": WAITING_REPLICAS[self.peer]}}

    def peers_target(self) -> Target:
        return Target([], self.rig.sentinels, NAME, str(go_program(self.peer)))

    def fault(self, plan: Plan) -> str:
        return "failover"

    def lose(self, plan: Plan) -> None:
        self.rig.lose("cut off" if plan.loss == "partitioned" else plan.loss)

    def restore(self) -> None:
        if self.rig.lost:
            self.rig.restore(quickly=True)


class QuorumRig(Rig):
    """Independent Redis servers, each behind a relay, and one more as the sidecars' `redis.url`."""

    network: Network

    def start_redis(self) -> None:
        self.ports = [self.redis_port, *(free_port() for _ in range(SERVERS - 1))]
        self.server_ports = [free_port() for _ in self.ports]
        self.servers: dict[int, subprocess.Popen[Any]] = {}
        for number in range(SERVERS):
            self.start_server(number)
        for number, (port, target) in enumerate(zip(self.ports, self.server_ports, strict=True)):
            self.network.relay(port, target, f"redis-{number}")
        # Limits and breakers need a Redis that no fault affects.
        self.main_port = free_port()
        start_durable(self, "redis-main", self.main_port)

    def start_server(self, number: int) -> None:
        self.servers[number] = start_durable(self, f"redis-{number}", self.server_ports[number])

    @property
    def redis_url(self) -> str:
        return f"redis://127.0.0.1:{self.main_port}"


class Quorum(Arena):
    rig: QuorumRig

    def configuration(self) -> dict[str, Any]:
        return {"services": {}, "redis": {"urls": [f"redis://127.0.0.1:{port}" for port in self.rig.ports]}}

    def peers_target(self) -> Target:
        return Target(self.rig.ports, [], "", str(go_program(self.peer)))

    def fault(self, plan: Plan) -> str:
        return "quorum-server"

    def lose(self, plan: Plan) -> None:
        number = plan.server
        self.take_away(plan.loss, self.rig.servers[number], f"redis-{number}", lambda: self.rig.start_server(number))


class EtcdRig(Rig):
    """Members of etcd. Each is behind two relays: one for clients, and one for the other members."""

    network: Network
    count = 1

    def start_redis(self) -> None:
        self.members: dict[int, subprocess.Popen[Any]] = {}
        self.ports = [free_port() for _ in range(self.count)]
        self.client_ports = [free_port() for _ in self.ports]
        self.peer_ports = [free_port() for _ in self.ports]
        self.announced = [free_port() for _ in self.ports]
        for number in range(self.count):
            self.network.relay(self.ports[number], self.client_ports[number], f"clients-{number}")
            self.network.relay(self.announced[number], self.peer_ports[number], f"etcd-{number}", self.member_of)
        for number in range(self.count):
            self.start_member(number)
        wait_until(self.is_healthy, "the start of etcd", 30)

    def start_member(self, number: int) -> None:
        cluster = ",".join(f"member-{one}=http://127.0.0.1:{port}" for one, port in enumerate(self.announced))
        self.members[number] = self.start(
            f"etcd-{number}",
            "etcd",
            "--name",
            f"member-{number}",
            "--data-dir",
            self.folder / f"etcd-{number}",
            "--listen-client-urls",
            f"http://127.0.0.1:{self.client_ports[number]}",
            "--advertise-client-urls",
            f"http://127.0.0.1:{self.ports[number]}",
            "--listen-peer-urls",
            f"http://127.0.0.1:{self.peer_ports[number]}",
            "--initial-advertise-peer-urls",
            f"http://127.0.0.1:{self.announced[number]}",
            "--initial-cluster",
            cluster,
        )

    def is_healthy(self) -> bool:
        return all(etcd.is_healthy(port) for port in self.client_ports)

    def leader(self) -> int:
        """Returns the number of the leader."""
        for number, port in enumerate(self.client_ports):
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v3/maintenance/status", data=b"{}")
            with urllib.request.urlopen(request, timeout=5) as response:
                status = json.load(response)
            if status["header"]["member_id"] == status.get("leader"):
                return number
        raise OSError("no member of etcd is the leader")

    def member_of(self, source: int, destination: int) -> str | None:
        """Returns the name of the member that opened a connection between two ports of this machine."""
        link = pathlib.Path(f"socket:[{inode_of(source, destination)}]")
        for number, process in list(self.members.items()):
            try:
                links = [one.readlink() for one in pathlib.Path(f"/proc/{process.pid}/fd").iterdir()]
            except OSError:
                continue
            if link in links:
                return f"etcd-{number}"
        return None


def inode_of(source: int, destination: int) -> int:
    """Returns the inode of the socket with a connection between two ports, or 0: sock_diag(7). Reading /proc/net/tcp
    instead would take milliseconds, and a lost leader is dialed many times a second."""
    by_family, any_state, no_cookie = 20, 0xFFFFFFFF, (0xFFFFFFFF, 0xFFFFFFFF)
    address = socket.inet_aton("127.0.0.1") + bytes(12)
    ports = struct.pack("!HH", source, destination)
    request = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, any_state) + ports + 2 * address
    request += struct.pack("=III", 0, *no_cookie)
    header = struct.pack("=IHHII", 16 + len(request), by_family, 1, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as kernel:
        kernel.send(header + request)
        reply = kernel.recv(8192)
    kind, inode_at = struct.unpack_from("=H", reply, 4)[0], 84
    return struct.unpack_from("=I", reply, inode_at)[0] if kind == by_family else 0


class EtcdClusterRig(EtcdRig):
    count = MEMBERS


class Etcd(Arena):
    """One member, with the faults of a single Redis, or several, of which the leader is lost."""

    rig: EtcdRig

    def peers_target(self) -> Target:
        return Target(self.rig.ports, [], "", str(go_program(self.peer)))

    def fault(self, plan: Plan) -> str:
        if self.rig.count > 1:
            return "quorum-server"
        return SINGLE_FAULTS[plan.loss]

    def gate(self, number: int) -> str:
        # Clients still reach a leader that is cut off from the other members.
        return f"etcd-{number}" if self.rig.count > 1 else f"clients-{number}"

    def lose(self, plan: Plan) -> None:
        number = self.rig.leader()
        self.take_away(plan.loss, self.rig.members[number], self.gate(number), lambda: self.rig.start_member(number))

    def restore(self) -> None:
        super().restore()
        wait_until(self.rig.is_healthy, "the return of the lost member", 60)


#: The servers and their faults, by topology.
ARENAS: dict[str, tuple[type[Rig], type[Arena]]] = {
    "single": (SingleRig, Single),
    "sentinel": (SafeSentinelRig, Sentinel),
    "sentinel-defaults": (SentinelRig, Sentinel),
    "quorum": (QuorumRig, Quorum),
}
ETCD_ARENAS: dict[str, tuple[type[Rig], type[Arena]]] = {"single": (EtcdRig, Etcd), "quorum": (EtcdClusterRig, Etcd)}


def arena_of(peer: str, topology: str) -> tuple[type[Rig], type[Arena]]:
    return (ETCD_ARENAS if peer == "etcd" else ARENAS)[topology]


def go_program(peer: str) -> pathlib.Path:
    return ROOT / ".build" / f"golocks-{peer}"


def build_go_program(peer: str, redsync: pathlib.Path) -> str | None:
    """Builds the client of a library in Go. Returns why that is impossible, or None."""
    if not shutil.which("go"):
        return "Go is not installed; `make bench-peers` installs it if a package is available"
    program = go_program(peer)
    if peer != "redsync":
        return etcd.go_build(GO_SOURCES, program, etcd.GO_PATH)
    if not (redsync / "redsync.go").exists():
        source = f"git clone --branch {REDSYNC_VERSION} https://github.com/go-redsync/redsync {redsync}"
        return f"redsync's source is missing; run `{source}`"
    path = program.with_suffix(".path")
    link = path / "src" / "github.com" / "go-redsync" / "redsync" / "v4"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(redsync.resolve())
    return etcd.go_build(GO_SOURCES, program, f"{path}:{etcd.GO_PATH}", "-tags", "redsync")
