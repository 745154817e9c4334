"""Drives `interlock top` in a real terminal, tmux, as a user would.

`make console` runs it: every view, a search, sorting, opening a lock, a window that is resized, and the state of
the terminal after q, Ctrl-C and SIGTERM. `--once` and `--json` are read as scripts do.
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

from servers import PATIENCE, RESP, Failure, World

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

    def __init__(self, world: World) -> None:
        self.world = world
        self.server = f"interlock-{os.getpid()}"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "30", "env", "PS1=$ ", "sh")

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self.server, *words]
        environment = {**self.world.environment, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            raise Failure(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def run(self, command: str) -> None:
        self.tmux("send-keys", "-l", command)
        self.press("Enter")

    @property
    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def state(self) -> str:
        """Returns whether another screen is shown, and the cursor."""
        return self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").strip()

    def shows(self, text: str | re.Pattern[str]) -> str:
        return self.until(f"the terminal shows {text!r}", lambda screen: bool(re.search(text, screen)))

    def until(self, what: str, condition: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + PATIENCE
        while True:
            screen = self.screen
            if condition(screen):
                return screen
            if time.monotonic() > deadline:
                raise Failure(f"{what}: not within {PATIENCE:.0f} s; the screen is\n{screen}")
            time.sleep(0.05)

    def close(self) -> None:
        self.tmux("kill-server")


class Check:
    def __init__(self, world: World, terminal: Terminal) -> None:
        self.world = world
        self.terminal = terminal

    def lock(self, name: str, label: str) -> None:
        subprocess.run(
            ["redis-cli", "-p", str(self.world.ports[RESP]), "LOCK.ACQUIRE", name, "60000", "LABEL", label],
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def run(self) -> None:
        for number in range(40):
            self.lock(f"cart/{number:02}", f"web-{number % 3}")
        self.lock("orders/7", "worker-3")
        self.views()
        self.sizes()
        for way in ("q", "Ctrl-C", "SIGTERM"):
            self.leaves(way)
        self.scripts()

    def enter(self) -> None:
        self.terminal.run("clear; echo before; stty -g > before; interlock top; stty -g > after; echo left $?")
        self.terminal.shows(r"\[1 overview\]")

    def leave(self, key: str) -> None:
        self.terminal.press(key)
        self.terminal.shows("left 0")

    def views(self) -> None:
        terminal = self.terminal
        self.enter()
        terminal.shows("Fleet, as of")
        terminal.press("2")
        terminal.shows(r"cart/00")
        terminal.press("End")
        terminal.shows("orders/7")
        terminal.press("Home", "s", "s", "r")
        first = terminal.shows(r"HOLDER\^")
        if "worker-3" not in first.split("HOLDER^")[1].splitlines()[1]:
            raise Failure(f"the table is not sorted by holder in reverse:\n{first}")
        terminal.press("/")
        terminal.run("orders")
        terminal.until("the search leaves one", lambda screen: "orders/7" in screen and "cart/" not in screen)
        terminal.press("Enter")
        terminal.shows("Lock orders/7")
        terminal.shows("Nobody is waiting")
        self.lock("elsewhere", "<b>")
        terminal.press("Escape")
        terminal.shows(r"\[2 locks\]")
        terminal.press("3")
        terminal.shows("LIMITED/MIN")
        terminal.press("Down", "Enter")
        terminal.shows("Service search")
        terminal.press("4")
        terminal.shows("still held")
        terminal.press("5")
        terminal.shows("fleet.joined|Recent events")
        terminal.press("?")
        terminal.shows("open the lock or service")
        terminal.press("x", "Tab")
        terminal.shows(r"\[6 domains\]")
        terminal.press("Tab")
        terminal.shows(r"\[1 overview\]")
        self.leave("q")

    def sizes(self) -> None:
        """Each line fits, and the last one is at the bottom of the terminal."""
        terminal = self.terminal
        self.enter()
        terminal.press("2")
        for columns, rows in ((60, 12), (140, 45), (20, 5), (110, 30)):
            terminal.tmux("resize-window", "-x", str(columns), "-y", str(rows))
            terminal.until(f"the window is redrawn for {columns} x {rows}", functools.partial(self.fills, rows))
        self.leave("q")

    @staticmethod
    def fills(rows: int, screen: str) -> bool:
        lines = screen.splitlines()
        return len(lines) == rows and lines[-1].startswith("q quit")

    def leaves(self, way: str) -> None:
        terminal = self.terminal
        self.enter()
        if terminal.state() != "1 0":
            raise Failure("interlock top does not use the alternate screen")
        match way:
            case "q":
                terminal.press("q")
            case "Ctrl-C":
                terminal.press("C-c")
            case _:
                pane = int(terminal.tmux("display-message", "-p", "#{pane_pid}"))
                children = Path(f"/proc/{pane}/task/{pane}/children").read_text().split()
                os.kill(int(children[0]), signal.SIGTERM)
        screen = terminal.shows("left 0")
        before, after = ((self.world.folder / name).read_text() for name in ("before", "after"))
        if "before" not in screen or "overview" in screen or terminal.state() != "0 1" or before != after:
            raise Failure(f"after {way} the terminal is not restored: {terminal.state()}\n{before}{after}{screen}")

    def scripts(self) -> None:
        binary = str(self.world.binary)
        frame = self.text(binary, "top", "locks", "--once", "--search", "orders")
        if "orders/7" not in frame or "\x1b" in frame:
            raise Failure(f"--once does not print one plain frame:\n{frame}")
        part = json.loads(self.text(binary, "top", "service", "search", "--once", "--json"))
        if part["service"]["state"] != "closed":
            raise Failure("--json does not print the frame")
        away = subprocess.run([binary, "top", "--once", "--sidecar", "127.0.0.1:1"], capture_output=True, check=False)
        if away.returncode != 69:
            raise Failure(f"without a sidecar, interlock top exits with {away.returncode}")

    def text(self, *command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, env=self.world.environment, check=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, required=True, help="the interlock program")
    arguments = parser.parse_args()
    if shutil.which("tmux") is None:
        sys.exit("top: tmux is missing; install it with Tools/setup.sh console")
    world = World(arguments.binary.resolve(), Path(tempfile.mkdtemp(prefix="interlock-top-")))
    os.chdir(world.folder)
    try:
        configuration = world.folder / "top.yaml"
        configuration.write_text(CONFIGURATION)
        world.start_sidecar(configuration)
        terminal = Terminal(world)
        try:
            Check(world, terminal).run()
        finally:
            terminal.close()
    except Failure as failure:
        sys.exit(f"top: {failure}")
    finally:
        os.chdir("/")
        world.close()
    print("top: views, search, sorting, sizes, three ways to quit and --once work")


if __name__ == "__main__":
    main()
