"""The settings of each peer, and their sources. docs/internals/peers.md lists them."""

from typing import NamedTuple

from judged.arenas import REDSYNC_VERSION, SIDECARS
from judged.plan import CLIENTS, FORGET, LOCKS, MEMBERS, OVERSTAY, OWN, RENEW, SERVERS, TTL_MS, WAIT_MS
from rig.sentinels import DOWN_AFTER, REPLICAS, SENTINELS

SENTINEL = ("sentinel", "sentinel-defaults")
TOPOLOGIES = ("single", *SENTINEL, "quorum")


class Peer(NamedTuple):
    title: str
    fence: str
    topologies: tuple[str, ...]
    #: The settings by topology; "" for all topologies.
    settings: dict[str, str]


#: In the order of the table.
PEERS = {
    "interlock": Peer(
        "Interlock",
        "yes",
        TOPOLOGIES,
        {
            "": f"{SIDECARS} sidecars, each for half of the clients; redis-py without retries (README.md)",
            "sentinel": f"`locks.wait_replicas: {REPLICAS}` (guarantees.md)",
            "quorum": f"`redis.urls` with {SERVERS} servers (quorum.md)",
        },
    ),
    "interlock-no-wait": Peer(
        "Interlock, `wait_replicas: 0`",
        "yes",
        SENTINEL,
        {"": f"the default `locks.wait_replicas: 0`; {SIDECARS} sidecars, redis-py without retries (README.md)"},
    ),
    "etcd": Peer(
        "etcd 3.4",
        "yes",
        ("single", "quorum"),
        {
            "": "`concurrency.Mutex` with a session per client; `WithRequireLeader`; etcdctl's defaults for dialing "
            "(2 s) and keepalive (2 s, 6 s); the key's create revision is the fence; server defaults",
            "quorum": f"{MEMBERS} members, all endpoints of each client",
        },
    ),
    "redis-py": Peer(
        "redis-py `Lock`",
        "no",
        ("single", *SENTINEL),
        {
            "": "defaults: `sleep=0.1`",
            "single": "no socket timeout (the default)",
            "sentinel": "`master_for` with `socket_timeout=0.1` (redis-py's example for Sentinel)",
        },
    ),
    "python-redis-lock": Peer(
        "python-redis-lock",
        "no",
        ("single", *SENTINEL),
        {
            "": "defaults; `auto_renewal` off, because the load renews",
            "single": "no socket timeout (its README uses `StrictRedis()`)",
            "sentinel": "`socket_timeout=3`, because its waiters block for the whole wait",
        },
    ),
    "pottery": Peer(
        "pottery's Redlock",
        "no",
        TOPOLOGIES,
        {
            "": "defaults (at most three extensions, retries within 0.2 s); `socket_timeout=0.1`, because Redlock "
            "requires a time limit far below the lease",
            "quorum": f"{SERVERS} masters, as its README recommends",
        },
    ),
    "redsync": Peer(
        "redsync",
        "no",
        TOPOLOGIES,
        {
            "": f"{REDSYNC_VERSION}, defaults (32 tries, 50–250 ms apart, drift 1 %); redigo's pool as in its example, "
            "with time limits of 5 % of the lease, as in redsync",
            "sentinel": "the pool asks the Sentinels and checks `ROLE`, because redigo does not support Sentinel",
            "quorum": f"{SERVERS} pools",
        },
    ),
}

SERVER_SETTINGS = {
    "single": "One Redis behind a relay: `appendonly yes`, `appendfsync always`. etcd: one member.",
    "sentinel": f"A primary, {REPLICAS} replicas, {SENTINELS} Sentinels: `down-after-milliseconds {DOWN_AFTER}`, "
    "`min-replicas-to-write 1`, `min-replicas-max-lag 10`. *Partitioned*: the primary is unreachable for the "
    "Sentinels only.",
    "sentinel-defaults": "The same with `min-replicas-to-write 0`.",
    "quorum": f"{SERVERS} Redis servers behind relays: `appendonly yes`, `appendfsync always`; one of them is lost. "
    f"etcd: {MEMBERS} members; the leader is lost; *partitioned* cuts it off from the other members only.",
}

LOAD = (
    f"{CLIENTS} client processes share {LOCKS} locks with leases of {TTL_MS / 1000:g} s, and wait for at most "
    f"{WAIT_MS / 1000:g} s. {OWN:.0%} of the jobs use a lock of the client's own. Of all jobs, {RENEW:.1%} "
    f"renew for 2 to 3.2 s, {OVERSTAY:.1%} write after the lease has ended, {FORGET:.2%} forget to release, and the "
    "others hold for 1 to 31 ms."
)


def unsupported(peer: str, topology: str) -> str | None:
    """Returns why a peer does not have a topology, or None."""
    if topology in PEERS[peer].topologies:
        return None
    if peer == "etcd":
        return "etcd has no primary and replicas"
    if peer == "interlock-no-wait":
        return "`wait_replicas` needs replicas"
    return "the library does not support quorums"


def settings_lines() -> list[str]:
    """Returns the list of settings, in Markdown."""
    lines = [f"- **Load**: {LOAD}"]
    lines += [f"- **{topology.capitalize()}**: {text}" for topology, text in SERVER_SETTINGS.items()]
    for one in PEERS.values():
        words = "; ".join(f"{topology}: {text}" if topology else text for topology, text in one.settings.items())
        lines.append(f"- **{one.title}**: {words}.")
    return lines
