"""Prints the demo: each line has the seconds since the start, the speaker and the text."""

import os
import sys
import textwrap
import threading
import time
from collections.abc import Sequence

#: Columns for the speaker and for the text.
SPEAKER = 10
WIDTH = 150
COLORS = {
    "you": "1",
    "upstream": "35",
    "sidecar a": "36",
    "sidecar b": "34",
    "host a": "32",
    "host b": "32",
    "event": "33",
    "redis": "32",
    "seen": "1;32",
    "NOT SEEN": "1;31",
    "headline": "1;7",
}


class Narrator:
    def __init__(self) -> None:
        self.begin = time.monotonic()
        # Each process is read by its own thread.
        self.lock = threading.Lock()
        self.is_colored = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begin

    def say(self, speaker: str, text: str) -> None:
        lines = [piece for line in text.splitlines() for piece in textwrap.wrap(line, WIDTH) or [""]] or [""]
        first, rest = f"{self.seconds:6.2f}  {speaker:<{SPEAKER}}", " " * (SPEAKER + 8)
        self.show([(first if index == 0 else rest) + line for index, line in enumerate(lines)], COLORS.get(speaker))

    def headline(self, title: str) -> None:
        clock = time.strftime("%H:%M:%S")
        self.show(["", f" {clock}  {title} ", ""], COLORS["headline"])

    def show(self, lines: Sequence[str], color: str | None = None) -> None:
        with self.lock:
            for line in lines:
                print(f"\033[{color}m{line}\033[0m" if color and line and self.is_colored else line, flush=True)
