"""Drives `interlock top` in a real terminal, tmux, as a user would.

`make test-console` runs it: every view, a search, sorting, opening a lock, a window that is resized, and the state of
the terminal after q, Ctrl-C and SIGTERM. It also parses the output of `--once` and `--json`.
"""

import argparse
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from servers import RESP, TIMEOUT, Failure, Servers

CONFIGURATION = """
services:
  search:
    limits:
      - { limit: 20, per: 1s }
  mail:
    limits:
      - { limit: 5, per: 1m }
"""


class Terminal:
    """A window of tmux with a shell in it."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.server = f"interlock-{os.getpid()}"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "30", "env", "PS1=$ ", "sh")

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self.server, *words]
        environment = {**self.servers.environment, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if result.returncode:
            raise Failure(f"{' '.join(command)}: {result.stderr.strip()}")
        return result.stdout

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def run(self, command: str) -> None:
        self.tmux("send-keys", "-l", command)
        self.press("Enter")

    @property
    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def state(self) -> str:
        """Returns whether the alternate screen and the cursor are shown."""
        return self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").strip()

    def expect_text(self, text: str | re.Pattern[str]) -> str:
        return self.until(f"the terminal shows {text!r}", lambda screen: bool(re.search(text, screen)))

    def until(self, expectation: str, condition: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + TIMEOUT
        while True:
            screen = self.screen
            if condition(screen):
                return screen
            if time.monotonic() > deadline:
                raise Failure(f"{expectation}: not within {TIMEOUT:.0f} s; the screen is\n{screen}")
            time.sleep(0.05)

    def close(self) -> None:
        self.tmux("kill-server")


class Check:
    def __init__(self, servers: Servers, terminal: Terminal) -> None:
        self.servers = servers
        self.terminal = terminal

    def lock(self, name: str, label: str) -> None:
        subprocess.run(
            ["redis-cli", "-p", str(self.servers.ports[RESP]), "LOCK.ACQUIRE", name, "60000", "LABEL", label],
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def run(self) -> None:
        for number in range(40):
            self.lock(f"cart/{number:02}", f"web-{number % 3}")
        self.lock("orders/7", "worker-3")
        self.views()
        self.resize()
        for method in ("q", "Ctrl-C", "SIGTERM"):
            self.quit_by(method)
        self.scripts()

    def start_top(self) -> None:
        self.terminal.run("clear; echo before; stty -g > before; interlock top; stty -g > after; echo left $?")
        self.terminal.expect_text(r"\[1 overview\]")

    def quit_with(self, key: str) -> None:
        self.terminal.press(key)
        self.terminal.expect_text("left 0")

    def views(self) -> None:
        terminal = self.terminal
        self.start_top()
        terminal.expect_text("Fleet, as of")
        terminal.press("2")
        terminal.expect_text(r"cart/00")
        terminal.press("End")
        terminal.expect_text("orders/7")
        terminal.press("Home", "s", "s", "r")
        first = terminal.expect_text(r"HOLDER\^")
        if "worker-3" not in first.split("HOLDER^")[1].splitlines()[1]:
            raise Failure(f"the table is not sorted by holder in reverse:\n{first}")
        terminal.press("/")
        terminal.run("orders")
        terminal.until("the search leaves one", lambda screen: "orders/7" in screen and "cart/" not in screen)
        terminal.press("Enter")
        terminal.expect_text("Lock orders/7")
        terminal.expect_text("Nobody is waiting")
        self.lock("elsewhere", "<b>")
        terminal.press("Escape")
        terminal.expect_text(r"\[2 locks\]")
        terminal.press("3")
        terminal.expect_text("LIMITED/MIN")
        terminal.press("Down", "Enter")
        terminal.expect_text("Service search")
        terminal.press("4")
        terminal.expect_text("still held")
        terminal.press("5")
        terminal.expect_text("fleet.joined|Recent events")
        terminal.press("?")
        terminal.expect_text("open the lock or service")
        terminal.press("x", "Tab")
        terminal.expect_text(r"\[6 domains\]")
        terminal.press("Tab")
        terminal.expect_text(r"\[1 overview\]")
        self.quit_with("q")

    def resize(self) -> None:
        """Checks that each line fits, and that the last one is at the bottom of the terminal."""
        terminal = self.terminal
        self.start_top()
        terminal.press("2")
        for columns, rows in ((60, 12), (140, 45), (20, 5), (110, 30)):
            terminal.tmux("resize-window", "-x", str(columns), "-y", str(rows))
            terminal.until(f"the window is redrawn for {columns} x {rows}", functools.partial(self.is_redrawn, rows))
        self.quit_with("q")

    @staticmethod
    def is_redrawn(rows: int, screen: str) -> bool:
        lines = screen.splitlines()
        return len(lines) == rows and lines[-1].startswith("q quit")

    def quit_by(self, method: str) -> None:
        terminal = self.terminal
        self.start_top()
        if terminal.state() != "1 0":
            raise Failure("interlock top does not use the alternate screen")
        match method:
            case "q":
                terminal.press("q")
            case "Ctrl-C":
                terminal.press("C-c")
            case _:
                pane = int(terminal.tmux("display-message", "-p", "#{pane_pid}"))
                children = Path(f"/proc/{pane}/task/{pane}/children").read_text().split()
                os.kill(int(children[0]), signal.SIGTERM)
        screen = terminal.expect_text("left 0")
        before, after = ((self.servers.folder / name).read_text() for name in ("before", "after"))
        if "before" not in screen or "overview" in screen or terminal.state() != "0 1" or before != after:
            raise Failure(f"after {method} the terminal is not restored: {terminal.state()}\n{before}{after}{screen}")

    def scripts(self) -> None:
        binary = str(self.servers.binary)
        frame = self.text(binary, "top", "locks", "--once", "--search", "orders")
        if "orders/7" not in frame or "\x1b" in frame:
            raise Failure(f"--once does not print one plain frame:\n{frame}")
        part = json.loads(self.text(binary, "top", "service", "search", "--once", "--json"))
        if part["service"]["state"] != "closed":
            raise Failure("--json does not print the frame")
        unreachable = subprocess.run(
            [binary, "top", "--once", "--sidecar", "127.0.0.1:1"], capture_output=True, check=False
        )
        if unreachable.returncode != 69:
            raise Failure(f"without a sidecar, interlock top exits with {unreachable.returncode}")

    def text(self, *command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, env=self.servers.environment, check=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, required=True, help="the interlock program")
    arguments = parser.parse_args()
    if shutil.which("tmux") is None:
        sys.exit("top: tmux is missing; install it with Tools/setup.sh console")
    servers = Servers(arguments.binary.resolve(), Path(tempfile.mkdtemp(prefix="interlock-top-")))
    os.chdir(servers.folder)
    try:
        configuration = servers.folder / "top.yaml"
        configuration.write_text(CONFIGURATION)
        servers.start_sidecar(configuration)
        terminal = Terminal(servers)
        try:
            Check(servers, terminal).run()
        finally:
            terminal.close()
    except Failure as failure:
        sys.exit(f"top: {failure}")
    finally:
        os.chdir("/")
        servers.close()
    print("top: views, search, sorting, sizes, three ways to quit and --once work")


if __name__ == "__main__":
    main()
