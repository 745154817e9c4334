"""The servers of the demo (a private Redis, two sidecars, an upstream), and ways to watch them."""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import string
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import upstream as upstreams
from narrator import Narrator

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: The default program.
BINARY = ROOT / ".build" / "release" / "interlock"
SERVICES = pathlib.Path(__file__).resolve().parent / "services.yaml"
BREAKER = "interlock:breaker:{catalog}"
HISTORY = f"{BREAKER}:history"
#: Response headers that are shown.
NOTABLE = ("retry-after", "interlock-state", "interlock-waited")
#: Default timeout for an expectation, in seconds.
PATIENCE = 5


Entry = dict[str, str]
"""An entry of the breaker's history: `id`, `from`, `to`, `cause` and `by`."""
T = TypeVar("T")


class NotSeen(Exception):
    """An expectation that was not met."""


class Process(subprocess.Popen[str]):
    """A process of the demo, with the lines that it has printed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.lines: list[str] = []


class Sidecar:
    def __init__(self, name: str, process: Process, resp_port: int, http_port: int) -> None:
        self.name = name
        self.process = process
        self.resp_port = resp_port
        self.http_port = http_port
        #: Its ID in the fleet, once it is known.
        self.id = ""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.resp_port}"


class Answer:
    """A response that curl printed."""

    def __init__(self, output: str) -> None:
        head, _, rest = output.partition("\r\n\r\n")
        self.body, _, seconds = rest.rpartition("\n")
        self.seconds = float(seconds)
        status, *lines = head.split("\r\n")
        self.status = int(status.split()[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    @property
    def is_refusal(self) -> bool:
        """Returns whether the sidecar refused the call, rather than the upstream."""
        return self.headers.get("content-type", "").startswith("application/problem+json")

    def __str__(self) -> str:
        text = json.loads(self.body).get("detail", "") if self.is_refusal else self.body.strip()
        notable = [f"{name.title()}: {self.headers[name]}" for name in NOTABLE if name in self.headers]
        return "  ".join([f'{self.status} "{text}" after {self.seconds:.3f} s', *notable])


class Stage:
    def __init__(self, binary: pathlib.Path = BINARY) -> None:
        self.binary = binary
        self.narrator = Narrator()
        self.processes: list[Process] = []
        self.sidecars: dict[str, Sidecar] = {}
        self.follower: Process | None = None
        #: The sidecar that probed last, and the times of each sidecar's probes, by its name.
        self.prober: Sidecar | None = None
        self.probes: dict[str, list[float]] = {}
        self.last_look: tuple[str, str] | None = None
        #: ID of the last history entry that was seen.
        self.mark = "0-0"
        # The path of a Unix socket must be short.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="interlock-demo-", dir="/tmp"))
        self.socket = self.folder / "redis.sock"
        # Settings for other sidecars on this machine must not reach these.
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
        self.upstream = upstreams.Upstream(self.probed)

    # ---- the players

    def open(self) -> None:
        self.redis_server = self.start(
            "redis",
            "redis-server",
            "--port",
            0,
            "--unixsocket",
            self.socket,
            "--unixsocketperm",
            700,
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            self.folder,
            "--logfile",
            self.folder / "redis.log",
        )
        self.until("Redis answers", lambda: self.ask("PING") == ["PONG"])
        template = string.Template(SERVICES.read_text())
        (self.folder / "services.yaml").write_text(template.substitute(upstream=self.upstream.port))
        for name in ("a", "b"):
            self.start_sidecar(name)
        self.follow(self.sidecars["a"])

    def start(self, speaker: str, *command: object) -> Process:
        """Starts a process whose output is printed under the name `speaker`."""
        # Its own session: Ctrl-C goes only to this program, which stops the others in order.
        process = Process(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=self.environment,
            start_new_session=True,
        )
        self.processes.append(process)
        threading.Thread(target=self.relay, args=(speaker, process), daemon=True).start()
        return process

    def relay(self, speaker: str, process: Process) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            process.lines.append(line)
            # The narrator prints its own time.
            self.narrator.say(speaker, re.sub(r"^(time=)?\d{4}-\d\d-\d\dT[\d:.]+Z +", "", line.rstrip()))

    def start_sidecar(self, name: str) -> None:
        process = self.start(
            f"sidecar {name}",
            self.binary,
            "serve",
            "--config",
            self.folder / "services.yaml",
            "--redis",
            f"unix://{self.socket}",
            "--resp",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
        )
        ports = [r"redis-cli -p (\d+) PING", r"localhost:(\d+)/readyz"]

        def found() -> list[str]:
            text = "".join(process.lines)
            return [match[1] for match in (re.search(port, text) for port in ports) if match]

        self.until(
            f"sidecar {name} is ready", lambda: self.running(process, f"sidecar {name}") and len(found()) == 2, 10
        )
        sidecar = self.sidecars[name] = Sidecar(name, process, *map(int, found()))
        sidecar.id = self.info(sidecar)["id"]
        self.say("you", f"sidecar {name} is process {process.pid}, ID {sidecar.id}")

    def running(self, process: Process, what: str) -> bool:
        if process.poll() is not None:
            raise NotSeen(f"{what} runs: it ended with exit code {process.returncode}")
        return True

    def follow(self, sidecar: Sidecar) -> None:
        """Shows the events of this sidecar from now on."""
        before = self.follower
        follower = self.start("event", self.binary, "events", "--sidecar", sidecar.address)
        self.until(
            "the events are followed",
            lambda: self.running(follower, "interlock events") and any("following" in line for line in follower.lines),
        )
        self.follower = follower
        if before:
            self.stop(before)

    def stop(self, process: Process) -> None:
        # A stopped process does not get SIGTERM before SIGCONT.
        for number in (signal.SIGCONT, signal.SIGTERM):
            process.send_signal(number)
        try:
            process.wait(12)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.processes.remove(process)

    def close(self) -> None:
        for process in reversed(list(self.processes)):
            self.stop(process)
        self.upstream.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- speech and expectations

    def say(self, speaker: str, text: str) -> None:
        self.narrator.say(speaker, text)

    def pause(self, seconds: float) -> None:
        """Gives a reader time, or keeps calls below a limit."""
        time.sleep(seconds)

    def until(self, what: str, condition: Callable[[], T], seconds: float = PATIENCE) -> T:
        deadline = time.monotonic() + seconds
        while not (seen := condition()):
            if time.monotonic() > deadline:
                raise NotSeen(f"{what}, within {seconds} s")
            time.sleep(0.03)
        return seen

    def expect(self, what: str, condition: Callable[[], T], seconds: float = PATIENCE) -> T:
        """Waits for the condition and prints that it was seen."""
        seen = self.until(what, condition, seconds)
        self.say("seen", what)
        return seen

    # ---- the callers

    def call(self, sidecar: Sidecar, path: str = "catalog/books") -> Answer:
        """Makes one call through the proxy."""
        url, answer = self.curl(sidecar, path)
        self.say("you", f"$ curl -i {url}  →  {answer}")
        return answer

    def call_at_once(
        self, sidecar: Sidecar, count: int, path: str = "catalog/books", subject: str | None = None
    ) -> list[Answer]:
        """Makes `count` calls at the same time, for a subject. Returns the responses, the fastest first."""
        with concurrent.futures.ThreadPoolExecutor(count) as callers:
            done = list(callers.map(lambda _: self.curl(sidecar, path, subject), range(count)))
        answers = sorted((answer for _, answer in done), key=lambda answer: answer.seconds)
        statuses = " and ".join(sorted({str(answer.status) for answer in answers}))
        times = ", ".join(f"{answer.seconds:.3f}" for answer in answers)
        header = f"-H 'Interlock-Subject: {subject}' " if subject else ""
        self.say("you", f"$ curl -i {header}{done[0][0]}, {count} times at once  →  {statuses}, after {times} s")
        return answers

    def curl(self, sidecar: Sidecar, path: str, subject: str | None = None) -> tuple[str, Answer]:
        header = ["--header", f"Interlock-Subject: {subject}"] if subject else []
        url = f"127.0.0.1:{sidecar.http_port}/proxy/{path}"
        done = subprocess.run(
            [
                "curl",
                "--disable",
                "--silent",
                "--show-error",
                "--include",
                "--noproxy",
                "*",
                "--max-time",
                "15",
                "--write-out",
                r"\n%{time_total}",
                *header,
                f"http://{url}",
            ],
            capture_output=True,
            env=self.environment,
        )
        if done.returncode != 0:
            raise NotSeen(f"an answer to curl -i {url}: {done.stderr.decode().strip()}")
        return url, Answer(done.stdout.decode(errors="replace"))

    def interlock(self, sidecar: Sidecar, *words: str) -> None:
        """Runs the command line, as an operator would."""
        self.say("you", f"$ interlock {shlex.join(words)}")
        done = subprocess.run(
            [self.binary, *words],
            capture_output=True,
            text=True,
            timeout=20,
            env={**self.environment, "INTERLOCK_SIDECAR": sidecar.address},
        )
        self.say("", (done.stdout + done.stderr).rstrip())
        if done.returncode != 0:
            raise NotSeen(f"interlock {' '.join(words)} succeeds: it ended with exit code {done.returncode}")

    def run(self, host: str, sidecar: Sidecar, *words: str) -> Process:
        """Starts `interlock run` on a host."""
        self.say("you", f"{host}$ interlock run {shlex.join(words)}")
        return self.start(host, self.binary, "run", "--sidecar", sidecar.address, *words)

    def info(self, sidecar: Sidecar) -> dict[str, str]:
        """The fields of INFO."""
        lines = self.ask_sidecar(sidecar, "INFO")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def ask_sidecar(self, sidecar: Sidecar, *words: str) -> list[str]:
        return self.redis_cli("-p", sidecar.resp_port, *words)

    def waiters(self, sidecar: Sidecar, lock: str) -> int:
        """Returns the number of waiters for a lock."""
        lines = self.ask_sidecar(sidecar, "LOCK.INFO", lock)
        return int(lines[lines.index("waiters") + 1])

    def breaker_at(self, sidecar: Sidecar) -> dict[str, str]:
        """Returns the breaker's state at this sidecar."""
        lines = self.ask_sidecar(sidecar, "BREAKER.STATE", "catalog")
        return dict(zip(lines[::2], lines[1::2], strict=False))

    def until_all_have(self, state: str) -> None:
        self.until(
            f"every sidecar has the breaker as {state}",
            lambda: all(self.breaker_at(sidecar)["state"] == state for sidecar in self.sidecars.values()),
        )

    # ---- Redis

    def redis_cli(self, *words: object) -> list[str]:
        try:
            done = subprocess.run(
                ["redis-cli", "--raw", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            raise NotSeen(f"an answer to redis-cli {shlex.join(map(str, words))}, within {PATIENCE} s") from None
        return done.stdout.removesuffix("\n").split("\n")

    def ask(self, *words: object) -> list[str]:
        return self.redis_cli("-s", self.socket, *words)

    def show(self, *words: str) -> None:
        """Prints the reply of redis-cli, with the pairs of a hash and the entries of a stream on one line each."""
        lines = self.ask(*words)
        self.say("redis", f"$ redis-cli {shlex.join(words)}")
        if words[0] == "HGETALL":
            self.say("", "  ".join(f"{field}={value}" for field, value in zip(lines[::2], lines[1::2], strict=False)))
        elif words[0] == "XRANGE":
            self.say(
                "",
                "\n".join("  ".join(f"{field}={value}" for field, value in entry.items()) for entry in entries(lines))
                or "(nothing)",
            )
        else:
            self.say("", "\n".join(sorted(lines)) or "(nothing)")

    def show_breaker(self) -> None:
        self.show("HGETALL", BREAKER)

    def breaker(self) -> dict[str, str]:
        """The breaker's hash in Redis, with defaults for missing fields."""
        lines = self.ask("HGETALL", BREAKER)
        return {
            "state": "closed",
            "cause": "",
            "forced": "",
            "reason": "",
            "generation": "0",
            # A missing hash is one empty line.
            **dict(zip(lines[::2], lines[1::2], strict=False)),
        }

    def remember(self) -> None:
        """Expects later history entries only."""
        if last := entries(self.ask("XREVRANGE", HISTORY, "+", "-", "COUNT", "1")):
            self.mark = last[0]["id"]

    def expect_change(self, to: str, *causes: str, seconds: float = PATIENCE) -> Entry:
        """Waits for the next entry of the breaker's history, which must have this state and one of these causes."""

        def next_entry() -> list[Entry]:
            return entries(self.ask("XRANGE", HISTORY, f"({self.mark}", "+", "COUNT", "1"))

        wanted = f"the breaker of catalog goes {to}, cause {' or '.join(causes)}"
        [entry] = self.until(wanted, next_entry, seconds)
        self.mark = entry["id"]
        found = f"{entry['to']}, cause {entry['cause']}"
        if entry["to"] != to or entry["cause"] not in causes:
            raise NotSeen(f"{wanted}: it went {found}")
        self.say("seen", f"the breaker of catalog went {found}")
        return entry

    # ---- probes

    def probed(self, client_port: int, page: str) -> None:
        """Notes which sidecar probed. The upstream's threads call this."""
        sidecar = next((s for s in list(self.sidecars.values()) if has_connection(s.process.pid, client_port)), None)
        if sidecar is None:
            return
        self.prober = sidecar
        self.probes.setdefault(sidecar.name, []).append(time.monotonic())
        if (look := (sidecar.name, page)) != self.last_look:
            self.last_look = look
            self.say(
                "upstream", f'sidecar {sidecar.name} probes /status, which says "{page}"; from now on twice a second'
            )


def entries(lines: Sequence[str]) -> list[Entry]:
    """The entries of a stream in redis-cli's raw output: each is an ID, followed by its fields and values."""
    found = []
    for index, line in enumerate(lines):
        if re.fullmatch(r"\d{10,}-\d+", line):
            found.append((index, line))
    # Without an entry there is one line end too many.
    ends = [index for index, _ in found[1:]] + [len(lines)]
    return [
        {"id": identity, **dict(zip(lines[start + 1 : end : 2], lines[start + 2 : end : 2], strict=False))}
        for (start, identity), end in zip(found, ends, strict=False)
    ]


def has_connection(pid: int, port: int) -> bool:
    """Returns whether the process has a connection from this local TCP port."""
    table = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
    inodes = {fields[9] for fields in map(str.split, table) if int(fields[1].rpartition(":")[2], 16) == port}
    try:
        return any(
            str(file.readlink()) in {f"socket:[{inode}]" for inode in inodes}
            for file in pathlib.Path(f"/proc/{pid}/fd").iterdir()
        )
    except OSError:
        # The process has just ended or closed a file.
        return False
