"""A part of `make interop`: one piece of other software, tried against a sidecar, or skipped with a reason."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests/Documents"))

from servers import HTTP, REDIS, RESP, Failure, World, is_open  # noqa: E402

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
    "found",
    "output",
    "sidecar",
]

#: The sidecar's only key.
KEY = "a-key-of-this-run"
#: Seconds until another program has to be done.
PATIENCE = 60


class Skipped(Exception):
    """The reason why a part cannot be tried here."""


class Part(NamedTuple):
    name: str
    check: Callable[[Path], None]
    """Raises Failure or Skipped. The argument is the sidecar's binary."""
    is_provided: bool = True
    """Debian or PyPI has the software: `.ci/run` fails if it is skipped."""


def found(program: str, package: str) -> str:
    """Returns the path of a program. Raises Skipped if it is not installed."""
    path = shutil.which(program, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin") or shutil.which(program)
    if not path:
        raise Skipped(f"{program} is not installed; Debian has it in {package}")
    return path


def expect(condition: object, what: str) -> None:
    if not condition:
        raise Failure(what)


def output(world: World, *words: object, patience: float = PATIENCE, **variables: str) -> str:
    """Returns the output of a program. Raises Failure if it fails."""
    command = [str(word) for word in words]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience,
            cwd=world.folder,
            env={**world.environment, **variables},
        )
    except subprocess.TimeoutExpired as overtime:
        raise Failure(f"{command[0]} did not end within {patience:.0f} s") from overtime
    if done.returncode:
        raise Failure(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def certify(world: World) -> None:
    """Makes a certificate for localhost in the world's folder: certificate.pem and key.pem."""
    key, certificate = world.folder / "key.pem", world.folder / "certificate.pem"
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate]
    output(world, *request, *names)


@contextmanager
def sidecar(binary: Path, services: str = "", has_key: bool = False, is_encrypted: bool = False) -> Iterator[World]:
    """A Redis and a ready sidecar, for as long as the context lasts.

    services: YAML below `services:`, indented by two, with the ports that the pages show. `catalog` is there already
    """
    world = World(binary, Path(tempfile.mkdtemp(prefix="interlock-interop-")))
    keys = f"auth: {{ keys: [ {{ name: interop, key: {KEY}, role: admin }} ] }}\n" if has_key else ""
    try:
        file = world.folder / "interop.yaml"
        file.write_text(
            f"{keys}services:\n  catalog: {{ limits: [ {{ limit: 3, per: 1h }} ] }}\n{world.here(services)}"
        )
        if is_encrypted:
            certify(world)
            tls = f"tls: {{ certificate: {world.folder}/certificate.pem, key: {world.folder}/key.pem }}"
            file.write_text(f"listen: {{ {tls} }}\n{file.read_text()}")
            # The helper's probe of readiness does not encrypt.
            addresses = ["--resp", f"127.0.0.1:{world.ports[RESP]}", "--http", f"127.0.0.1:{world.ports[HTTP]}"]
            redis = f"redis://127.0.0.1:{world.ports[REDIS]}"
            words = ["serve", "--config", str(file), "--redis", redis, *addresses]
            world.sidecar = world.start(str(binary), *words)
            world.until("the sidecar listens", lambda: is_open(world.ports[HTTP]))
        else:
            world.start_sidecar(file)
        yield world
    except Failure as failure:
        log = (world.folder / "log").read_text(errors="replace")
        raise Failure(f"{failure}\nThe end of the log of its servers:\n{log[-2000:]}") from failure
    finally:
        world.close()
