"""A part of `make test-interop`: other software that is tested with a sidecar, or skipped with a reason."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests/EndToEnd"))

from servers import HTTP, REDIS, RESP, Failure, Servers, is_open  # noqa: E402

__all__ = [
    "HTTP",
    "KEY",
    "RESP",
    "ROOT",
    "Failure",
    "Part",
    "Skipped",
    "certify",
    "expect",
    "find_program",
    "output",
    "sidecar",
]

#: The sidecar's only key.
KEY = "a-key-of-this-run"
#: The timeout of another program, in seconds.
TIMEOUT = 60


class Skipped(Exception):
    """A part cannot be tested here, for the given reason."""


class Part(NamedTuple):
    name: str
    check: Callable[[Path], None]
    """Raises Failure or Skipped. The argument is the sidecar's binary."""
    is_provided: bool = True
    """Whether Debian or PyPI provides the software; `.ci/run` then fails if it is skipped."""


def find_program(program: str, package: str) -> str:
    """Returns the path of a program. Raises Skipped if it is not installed."""
    path = shutil.which(program, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin") or shutil.which(program)
    if not path:
        raise Skipped(f"{program} is not installed; Debian has it in {package}")
    return path


def expect(condition: object, message: str) -> None:
    if not condition:
        raise Failure(message)


def output(servers: Servers, *words: object, timeout: float = TIMEOUT, **variables: str) -> str:
    """Returns the output of a program. Raises Failure if it fails."""
    command = [str(word) for word in words]
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=servers.folder,
            env={**servers.environment, **variables},
        )
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{command[0]} did not end within {timeout:.0f} s") from error
    if result.returncode:
        raise Failure(f"{' '.join(command)} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


def certify(servers: Servers) -> None:
    """Creates certificate.pem and key.pem, for localhost, in the servers' directory."""
    key, certificate = servers.folder / "key.pem", servers.folder / "certificate.pem"
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate]
    output(servers, *request, *names)


@contextmanager
def sidecar(binary: Path, services: str = "", has_key: bool = False, is_encrypted: bool = False) -> Iterator[Servers]:
    """Runs a Redis and a ready sidecar while the context is active.

    services: YAML below `services:`, indented by two, with the ports that the pages show; `catalog` is always included
    """
    servers = Servers(binary, Path(tempfile.mkdtemp(prefix="interlock-interop-")))
    keys = f"auth: {{ keys: [ {{ name: interop, key: {KEY}, role: admin }} ] }}\n" if has_key else ""
    try:
        file = servers.folder / "interop.yaml"
        file.write_text(
            f"{keys}services:\n  catalog: {{ limits: [ {{ limit: 3, per: 1h }} ] }}\n{servers.with_run_ports(services)}"
        )
        if is_encrypted:
            certify(servers)
            tls = f"tls: {{ certificate: {servers.folder}/certificate.pem, key: {servers.folder}/key.pem }}"
            file.write_text(f"listen: {{ {tls} }}\n{file.read_text()}")
            # `start_sidecar` cannot check readiness over TLS.
            addresses = ["--resp", f"127.0.0.1:{servers.ports[RESP]}", "--http", f"127.0.0.1:{servers.ports[HTTP]}"]
            redis = f"redis://127.0.0.1:{servers.ports[REDIS]}"
            words = ["serve", "--config", str(file), "--redis", redis, *addresses]
            servers.sidecar = servers.start(str(binary), *words)
            servers.wait_until("the sidecar listens", lambda: is_open(servers.ports[HTTP]))
        else:
            servers.start_sidecar(file)
        yield servers
    except Failure as failure:
        log = (servers.folder / "log").read_text(errors="replace")
        raise Failure(f"{failure}\nThe end of the log of its servers:\n{log[-2000:]}") from failure
    finally:
        servers.close()
