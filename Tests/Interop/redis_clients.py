"""Redis clients in other languages: each logs in, acquires a lock, takes from a limit, and receives an error.

Each has a program in `programs` that takes a port and a key, and prints the same lines as the others.
"""

from collections.abc import Callable
from pathlib import Path

from parts import KEY, RESP, ROOT, Part, Skipped, expect, find_program, output, sidecar
from servers import Servers

PROGRAMS = Path(__file__).parent / "programs"
#: The output of each program: the reply to PING, the parts of a lease, whether it is nil when another holds the lock,
#: the reply to a release, whether a call is limited, and the first word of an error.
EXPECTED = "PONG\n3\nnil\n1\n0\nERR\n"
VENV_PYTHON = ROOT / ".venv/interop/bin/python"


def check(start: Callable[[Servers], list[object]]) -> Callable[[Path], None]:
    """Returns the check of a client. `start` returns its command, without the port and the key, or raises Skipped."""

    def run(binary: Path) -> None:
        with sidecar(binary, has_key=True) as servers:
            printed = output(servers, *start(servers), servers.ports[RESP], KEY)
        expect(printed == EXPECTED, f"expected {EXPECTED!r}, got {printed!r}")

    return run


def require(path: str, package: str) -> None:
    if not any(Path("/usr").glob(path)):
        raise Skipped(f"/usr/{path} is missing; Debian has it in {package}")


def erlang(_: Servers) -> list[object]:
    escript = find_program("escript", "erlang-base")
    require("lib/erlang/lib/redis_client-*/ebin/eredis.beam", "erlang-redis-client")
    return [escript, PROGRAMS / "eredis.escript"]


def phpredis(_: Servers) -> list[object]:
    require("lib/php/*/redis.so", "php-redis")
    return [find_program("php", "php-cli"), PROGRAMS / "phpredis.php"]


def predis(_: Servers) -> list[object]:
    require("share/php/Predis/autoload.php", "php-predis")
    return [find_program("php", "php-cli"), PROGRAMS / "predis.php"]


def ruby(_: Servers) -> list[object]:
    require("share/rubygems-integration/*/gems/redis-4*", "ruby-redis")
    return [find_program("ruby", "ruby"), PROGRAMS / "redis.rb"]


def perl(_: Servers) -> list[object]:
    require("share/perl5/Redis.pm", "libredis-perl")
    return [find_program("perl", "perl"), PROGRAMS / "redis.pl"]


def redigo(servers: Servers) -> list[object]:
    go = find_program("go", "golang-go")
    require("share/gocode/src/github.com/gomodule/redigo/redis", "golang-github-gomodule-redigo-dev")
    program = servers.folder / "redigo"
    # Debian packages Go libraries as sources in a GOPATH, without modules.
    settings = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(ROOT / ".build-interop/go-cache")}
    output(servers, go, "build", "-o", program, PROGRAMS / "redigo.go", timeout=240, **settings)
    return [program]


def glide(_: Servers) -> list[object]:
    if not any(VENV_PYTHON.parent.parent.glob("lib/*/site-packages/glide")):
        raise Skipped(
            "valkey-glide is not installed in .venv/interop; `make test-interop` installs it where PyPI has it"
        )
    return [VENV_PYTHON, PROGRAMS / "valkey_glide.py"]


PARTS = [
    Part("valkey-glide", check(glide)),
    Part("Erlang's eredis", check(erlang)),
    Part("PHP's phpredis", check(phpredis)),
    Part("PHP's Predis", check(predis)),
    Part("Ruby's redis", check(ruby)),
    Part("Perl's Redis", check(perl)),
    Part("Go's redigo", check(redigo)),
]
