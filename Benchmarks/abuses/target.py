"""The abused sidecar: its configuration and addresses."""

import pathlib
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rig.client import encode
from rig.servers import Rig, Sidecar, free_port, wait_until
from rig.witness import Port, ask

#: Keys of the witnesses, of the abuser, and of an operator.
WITNESS, ABUSER, OPERATOR = "key-of-a-witness", "key-of-an-abuser", "key-of-an-operator"
SERVICES = 400
#: Limits that the abuses exceed.
CONNECTIONS = 300
SUBJECTS = 1_000
WAITING = 50
#: The service whose limit the witness uses.
TAKEN = "taken"
#: The maximum number of file descriptors of the sidecar that runs out of them.
FEW_FILES = 128


class Setup(NamedTuple):
    """The configuration of a case's sidecar."""

    listen: str = ""
    more: str = ""
    is_encrypted: bool = False
    #: The file descriptors that it may open; 0 means as many as this process.
    files: int = 0


DEFAULT = Setup()
ENCRYPTED = Setup(is_encrypted=True)
CROWDED = Setup(listen=f"max_connections: {CONNECTIONS}")


class Target(NamedTuple):
    process: subprocess.Popen[Any]
    sidecar: Sidecar
    grpc_port: int
    configuration: pathlib.Path
    setup: Setup

    @property
    def port(self) -> int:
        return self.sidecar.port

    @property
    def http_port(self) -> int:
        return self.sidecar.http_port

    @property
    def witness(self) -> Port:
        return Port(self.port, WITNESS, self.setup.is_encrypted)

    @property
    def web(self) -> Port:
        return Port(self.http_port, "", self.setup.is_encrypted)


Abuse = Callable[[Target], Iterator[None]]


class Case(NamedTuple):
    #: The name for the command line.
    name: str
    label: str
    abuse: Abuse
    setup: Setup = DEFAULT


#: The first bytes of an abuser's connection.
LOGIN = encode("AUTH", ABUSER)


def configuration(
    setup: Setup, folder: pathlib.Path, resp: int, http: int, grpc: int, limit: int = 1_000_000_000
) -> str:
    """Returns the YAML of a sidecar. `limit` applies to each service: a reload with another one changes them all."""
    tls = f"tls: {{ certificate: {folder}/certificate.pem, key: {folder}/key.pem }}" if setup.is_encrypted else ""
    more = "".join(f", {part}" for part in (tls, setup.listen) if part)
    keys = "\n".join(
        f"    - {{ name: {name}, key: {key}, role: {role} }}"
        for name, key, role in (("witness", WITNESS, "use"), ("abuser", ABUSER, "use"), ("operator", OPERATOR, "admin"))
    )
    services = "\n".join(
        f"  service-{number:03}: {{ limits: [ {{ limit: {limit}, per: 1s }} ] }}" for number in range(SERVICES)
    )
    return f"""
listen: {{ resp: "127.0.0.1:{resp}", http: "127.0.0.1:{http}", grpc: "127.0.0.1:{grpc}"{more} }}
auth:
  keys:
{keys}
{setup.more}
services:
  {TAKEN}: {{ limits: [ {{ limit: 1000000000, per: 1s }} ] }}
  each: {{ max_subjects: {SUBJECTS}, limits: [ {{ limit: 2, per: 60s, per_subject: true }} ] }}
  line: {{ limits: [ {{ limit: 1, per: 30s }} ], on_limit: {{ max_waiting: {WAITING} }} }}
  calls: {{ limits: [ {{ limit: 1000000000, per: 1s }} ] }}
{services}
"""


def certify(folder: pathlib.Path) -> None:
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*request, *names], check=True, capture_output=True)
    key.chmod(0o600)


def start(rig: Rig, binary: pathlib.Path, setup: Setup, before: Sequence[object] = (), **options: Any) -> Target:
    """Starts a sidecar and waits until it is ready.

    before: words in front of the command, such as those of taskset
    options: for Popen
    """
    rig.started += 1
    resp, http, grpc = free_port(), free_port(), free_port()
    if setup.is_encrypted:
        certify(rig.folder)
    file = rig.folder / f"sidecar-{rig.started}.yaml"
    file.write_text(configuration(setup, rig.folder, resp, http, grpc))
    file.chmod(0o600)
    limits = ("prlimit", f"--nofile={setup.files}", "--") if setup.files else ()
    words = [*before, *limits, binary, "serve", "--config", file, "--redis", rig.redis_url]
    begin = time.monotonic()
    process = rig.start(f"sidecar-{rig.started}", *words, **options)
    port = Port(http, "", setup.is_encrypted)
    wait_until(lambda: ask(port, "/readyz", 5) == 200, "the start of the sidecar", 30)
    return Target(process, Sidecar(process, resp, http, time.monotonic() - begin), grpc, file, setup)
