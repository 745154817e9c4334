"""Redis clients in other languages: each logs in, takes a lock and a limit, and receives an error.

Each has a program in `programs` that takes a port and a key, and prints the same lines as the others.
"""

from collections.abc import Callable
from pathlib import Path

from parts import KEY, RESP, ROOT, Part, Skipped, expect, found, output, sidecar
from servers import World

PROGRAMS = Path(__file__).parent / "programs"
#: The output of each program: the reply to PING, the parts of a lease, whether it is nil when another holds the lock,
#: the reply to a release, whether a call is limited, and the first word of an error.
EXPECTED = "PONG\n3\nnil\n1\n0\nERR\n"
VIRTUAL = ROOT / ".venv/interop/bin/python"


def check(start: Callable[[World], list[object]]) -> Callable[[Path], None]:
    """`start` returns the words in front of the port and the key. It raises Skipped if the client is not installed."""

    def run(binary: Path) -> None:
        with sidecar(binary, has_key=True) as world:
            printed = output(world, *start(world), world.ports[RESP], KEY)
        expect(printed == EXPECTED, f"expected {EXPECTED!r}, got {printed!r}")

    return run


def needs(path: str, package: str) -> None:
    if not any(Path("/usr").glob(path)):
        raise Skipped(f"/usr/{path} is missing; Debian has it in {package}")


def erlang(_: World) -> list[object]:
    escript = found("escript", "erlang-base")
    needs("lib/erlang/lib/redis_client-*/ebin/eredis.beam", "erlang-redis-client")
    return [escript, PROGRAMS / "eredis.escript"]


def phpredis(_: World) -> list[object]:
    needs("lib/php/*/redis.so", "php-redis")
    return [found("php", "php-cli"), PROGRAMS / "phpredis.php"]


def predis(_: World) -> list[object]:
    needs("share/php/Predis/autoload.php", "php-predis")
    return [found("php", "php-cli"), PROGRAMS / "predis.php"]


def ruby(_: World) -> list[object]:
    needs("share/rubygems-integration/*/gems/redis-4*", "ruby-redis")
    return [found("ruby", "ruby"), PROGRAMS / "redis.rb"]


def perl(_: World) -> list[object]:
    needs("share/perl5/Redis.pm", "libredis-perl")
    return [found("perl", "perl"), PROGRAMS / "redis.pl"]


def redigo(world: World) -> list[object]:
    go = found("go", "golang-go")
    needs("share/gocode/src/github.com/gomodule/redigo/redis", "golang-github-gomodule-redigo-dev")
    program = world.folder / "redigo"
    # Debian's packages are sources in a GOPATH, without modules.
    settings = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(ROOT / ".build-interop/go-cache")}
    output(world, go, "build", "-o", program, PROGRAMS / "redigo.go", patience=240, **settings)
    return [program]


def glide(_: World) -> list[object]:
    if not any(VIRTUAL.parent.parent.glob("lib/*/site-packages/glide")):
        raise Skipped("valkey-glide is not installed in .venv/interop; `make interop` installs it where PyPI has it")
    return [VIRTUAL, PROGRAMS / "valkey_glide.py"]


PARTS = [
    Part("valkey-glide", check(glide)),
    Part("Erlang's eredis", check(erlang)),
    Part("PHP's phpredis", check(phpredis)),
    Part("PHP's Predis", check(predis)),
    Part("Ruby's redis", check(ruby)),
    Part("Perl's Redis", check(perl)),
    Part("Go's redigo", check(redigo)),
]
