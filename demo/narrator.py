"""What a person reads: a line at a time from whoever speaks, with the seconds since the beginning."""

import os
import sys
import textwrap
import threading
import time

#: Columns of a line: the seconds, who speaks, and what is said.
SPEAKER = 10
WIDTH = 150
COLOURS = {"you": "1", "upstream": "35", "sidecar a": "36", "sidecar b": "34", "event": "33", "redis": "32", "seen": "1;32",
           "NOT SEEN": "1;31", "headline": "1;7"}


class Narrator:
    def __init__(self):
        self.begin = time.monotonic()
        # Logs and events come from threads of their own.
        self.lock = threading.Lock()
        self.is_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    @property
    def seconds(self):
        return time.monotonic() - self.begin

    def say(self, speaker, text):
        lines = [piece for line in text.splitlines() for piece in textwrap.wrap(line, WIDTH) or [""]] or [""]
        first, rest = f"{self.seconds:6.2f}  {speaker:<{SPEAKER}}", " " * (SPEAKER + 8)
        self.show([(first if index == 0 else rest) + line for index, line in enumerate(lines)], COLOURS.get(speaker))

    def headline(self, title):
        clock = time.strftime("%H:%M:%S")
        self.show(["", f" {clock}  {title} ", ""], COLOURS["headline"])

    def show(self, lines, colour=None):
        with self.lock:
            for line in lines:
                print(f"\033[{colour}m{line}\033[0m" if colour and line and self.is_coloured else line, flush=True)
