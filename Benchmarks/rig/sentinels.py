"""A primary, two replicas and three Sentinels, and ways in which the Sentinels lose the primary."""

import signal
import subprocess
from typing import Any

from rig.client import Client
from rig.servers import Rig, free_port, wait_until

NAME = "main"
REPLICAS = 2
SENTINELS = 3
#: Milliseconds without an answer after which a Sentinel considers a server down.
DOWN_AFTER = 600
#: The periods of the Sentinels' INFO and of their announcements, in milliseconds: by default, and while nothing is
#: measured.
DEFAULT_PERIODS, FAST_PERIODS = (10_000, 2_000), (1_000, 500)
#: Ways to lose the primary: SIGKILL, SIGSTOP, or only the Sentinels get no answer.
LOSSES = ("killed", "stopped", "cut off")
#: The Sentinels' user at the servers, and its password.
USER, PASSWORD = "sentinel", "watches"


class SentinelRig(Rig):
    """Real servers on TCP loopback. All of them stop when the context ends."""

    #: More arguments for each Redis server.
    server_options: tuple[str, ...] = ()

    def start_redis(self) -> None:
        self.servers: dict[int, subprocess.Popen[Any]] = {}
        self.sentinels: list[int] = []
        self.lost: tuple[int, str] | None = None
        self.start_server(self.redis_port)
        for _ in range(REPLICAS):
            self.start_server(free_port(), "--replicaof", "127.0.0.1", str(self.redis_port))
        for number in range(SENTINELS):
            self.start_sentinel(number)
        wait_until(self.is_healthy, "the agreement of the Sentinels", 60)

    @property
    def redis_url(self) -> str:
        return f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in self.sentinels)}/{NAME}"

    def start_server(self, port: int, *arguments: str) -> None:
        words = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", self.folder]
        user = ["--user", USER, "on", f">{PASSWORD}", "allchannels", "+@all"]
        self.servers[port] = self.start(
            f"redis-{port}",
            "redis-server",
            *words,
            *user,
            "--repl-diskless-sync-delay",
            0,
            *self.server_options,
            *arguments,
        )
        wait_until(lambda: not is_loading(port), "the start of redis-server")

    def start_sentinel(self, number: int) -> None:
        port = free_port()
        file = self.folder / f"sentinel-{number}.conf"
        lines = (
            f"port {port}",
            "bind 127.0.0.1",
            f"dir {self.folder}",
            f"sentinel monitor {NAME} 127.0.0.1 {self.redis_port} {SENTINELS // 2 + 1}",
            f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER}",
            f"sentinel failover-timeout {NAME} 6000",
            f"sentinel parallel-syncs {NAME} {REPLICAS}",
            f"sentinel auth-user {NAME} {USER}",
            f"sentinel auth-pass {NAME} {PASSWORD}",
        )
        file.write_text("\n".join(lines) + "\n")
        self.start(f"sentinel-{number}", "redis-server", file, "--sentinel")
        wait_until(lambda: Client(port).command("PING"), "the start of a Sentinel")
        self.sentinels.append(port)

    def primary(self) -> int | None:
        """Returns the port of the server that every Sentinel names, or None while they do not agree."""
        ports = {int(Client(port).command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1]) for port in self.sentinels}
        return ports.pop() if len(ports) == 1 else None

    def lose(self, loss: str) -> int:
        """Makes the primary unreachable for the Sentinels. Returns its port."""
        wait_until(self.primary, "the agreement of the Sentinels", 60)
        port = self.primary()
        assert port is not None
        self.lost = (port, loss)
        if loss == "killed":
            process = self.servers[port]
            process.kill()
            process.wait()
            self.processes.remove(process)
        elif loss == "stopped":
            self.servers[port].send_signal(signal.SIGSTOP)
        else:
            # A Sentinel does not count a refusal as an answer.
            Client(port).command("ACL", "SETUSER", USER, "nocommands")
        return port

    def restore(self, quickly: bool = False) -> None:
        """Makes the lost primary reachable again, and waits until it is a replica.

        `quickly`: shortens the Sentinels' periods meanwhile.
        """
        assert self.lost is not None
        port, loss = self.lost
        self.lost = None
        if loss == "killed":
            self.start_server(port)
        elif loss == "stopped":
            self.servers[port].send_signal(signal.SIGCONT)
        else:
            Client(port).command("ACL", "SETUSER", USER, "allcommands")
        if quickly:
            self.set_periods(FAST_PERIODS)
        wait_until(self.is_healthy_again, "the return of the former primary as a replica", 60)
        if quickly:
            self.set_periods(DEFAULT_PERIODS)

    def set_periods(self, periods: tuple[int, int]) -> None:
        """Sets the periods of the Sentinels' INFO and announcements."""
        for port in self.sentinels:
            Client(port).command("SENTINEL", "DEBUG", "INFO-PERIOD", periods[0], "PUBLISH-PERIOD", periods[1])

    def is_healthy_again(self) -> bool:
        try:
            return self.is_healthy()
        except ConnectionError:
            # A Sentinel disconnects the clients of a server when it makes it a replica.
            return False

    def is_healthy(self) -> bool:
        primary = self.primary()
        if any(is_loading(port) for port in self.servers):
            return False
        for port in self.sentinels:
            words = Client(port).command("SENTINEL", "MASTER", NAME)
            fields = dict(zip(words[::2], words[1::2], strict=True))
            known = (fields[b"num-slaves"], fields[b"num-other-sentinels"], fields[b"flags"])
            if known != (b"%d" % REPLICAS, b"%d" % (SENTINELS - 1), b"master"):
                return False
        return primary is not None and all(
            follows(Client(port).info("replication"), primary) for port in self.servers if port != primary
        )

    def __exit__(self, *words: object) -> None:
        if self.lost and self.lost[1] == "stopped":
            self.servers[self.lost[0]].send_signal(signal.SIGCONT)
        super().__exit__(*words)


def is_loading(port: int) -> bool:
    """Returns whether a server is loading its data, or copying it as a replica."""
    try:
        Client(port).command("PING")
    except RuntimeError as error:
        if not str(error).startswith(("LOADING", "MASTERDOWN")):
            raise
        return True
    return False


def follows(replication: dict[str, str], primary: int) -> bool:
    return replication.get("master_port") == str(primary) and replication.get("master_link_status") == "up"
