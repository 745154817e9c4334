"""Parses a page's instructions: its fenced blocks, and the HTML comments before them, in order.

A comment on its own line describes the block below it:

    <!-- file: NAME -->         written to NAME in the page's folder. `interlock.yaml` starts a sidecar with it
    <!-- run -->                run by the program of its language, and must exit with 0
    <!-- run: exits 75 -->      … with 75
    <!-- run: needs redis -->   … skipped, with a message, unless that program, or package for Node, is installed
    <!-- prints -->             the expected output of the last block that ran
    <!-- checked -->            a configuration, or a part of one, that `interlock check-config` must accept
    <!-- not run: REASON -->    not run; `make documents` lists it with its reason

`console` blocks are shell sessions: lines that begin with `$ ` are commands, `> ` continues a command, and the lines
below are its output. They are run unless a comment says otherwise. A session in another kind of block is an error.
A comment with no block below it changes the servers:

    <!-- redis: away -->  <!-- redis: back -->  <!-- upstream: down -->  <!-- upstream: up -->
    <!-- sidecar: FILE -->      starts a sidecar with this file of the repository
    <!-- make: run -->          starts a sidecar as `make run` does, with its private Redis
    <!-- page not run: REASON -->   no block of this page is run; its blocks need no comments
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

COMMENT = re.compile(r"<!-- (file|run|prints|checked|not run|page not run|redis|upstream|sidecar|make)(?:: (.+?))? -->")
FENCE = re.compile(r"(```+)(\w*)")
#: Languages whose blocks need a comment.
CODE = {"python", "js", "go", "sh", "yaml", "toml"}
EVENTS = {"redis": {"away", "back"}, "upstream": {"down", "up"}, "make": {"run"}}


class PageError(Exception):
    """A page that breaks the rules above."""


@dataclass
class File:
    """Text that is written to a file."""

    line: int
    name: str
    text: str


@dataclass
class Check:
    """A configuration that must be valid."""

    line: int
    text: str


@dataclass
class Shown:
    """A block that is not run, with its reason."""

    line: int
    reason: str


@dataclass
class Event:
    """A change to a server."""

    line: int
    server: str
    state: str


@dataclass
class Program:
    """A block that is run, and its expected output; None if the page does not show it."""

    line: int
    language: str
    text: str
    status: int = 0
    needs: str | None = None
    prints: str | None = None


@dataclass
class Session:
    """Commands for a shell, each with its expected output."""

    line: int
    commands: list[tuple[str, str]] = field(default_factory=list)


Step = File | Event | Program | Session | Check | Shown


@dataclass
class Page:
    path: Path
    steps: list[Step]


def read(path: Path) -> Page:
    text = path.read_text()
    for number, line in enumerate(text.splitlines(), 1):
        if (found := COMMENT.fullmatch(line)) and found[1] == "page not run":
            if not found[2]:
                raise PageError(f"line {number}: say why this page is not run")
            return Page(path, [Shown(number, found[2])])
    return Page(path, list(steps(text)))


def steps(text: str) -> Iterator[Step]:
    program: Program | None = None
    comment: re.Match[str] | None = None
    lines = enumerate(text.splitlines(), 1)
    for number, line in lines:
        if fence := FENCE.fullmatch(line):
            body = block(lines, fence[1], number)
            step = parse_block(number, fence[2], comment, body, program)
            comment = None
            if isinstance(step, Program):
                program = step
            if step is not None:
                yield step
        elif found := COMMENT.fullmatch(line):
            if comment:
                raise PageError(f"line {number}: the comment before has no block")
            if found[1] in EVENTS or found[1] == "sidecar":
                if found[1] in EVENTS and found[2] not in EVENTS[found[1]]:
                    raise PageError(f"line {number}: {line}: unknown comment")
                yield Event(number, found[1], found[2])
            else:
                comment = found
        elif line.strip() and comment:
            raise PageError(f"line {number}: the comment before has no block")


def block(lines: Iterator[tuple[int, str]], fence: str, begin: int) -> str:
    """Returns the text up to the closing fence."""
    body: list[str] = []
    for _, line in lines:
        if line == fence:
            return "".join(line + "\n" for line in body)
        body.append(line)
    raise PageError(f"line {begin}: the block has no end")


def parse_block(
    line: int, language: str, comment: re.Match[str] | None, body: str, previous: Program | None
) -> Step | None:
    """Returns the step of a block, or None if it needs none."""
    kind, words = (comment[1], comment[2] or "") if comment else ("", "")
    if kind == "not run":
        if not words:
            raise PageError(f"line {line}: say why this block is not run")
        return Shown(line, words)
    if kind == "checked":
        return Check(line, body)
    if kind == "file":
        return File(line, words, body)
    if kind == "prints":
        if previous is None or previous.prints is not None:
            raise PageError(f"line {line}: no block before this one was run")
        previous.prints = body
        return None
    if kind == "run":
        program = Program(line, language, body)
        match words.split():
            case []:
                pass
            case ["exits", status]:
                program.status = int(status)
            case ["needs", package]:
                program.needs = package
            case _:
                raise PageError(f"line {line}: run: {words}: unknown words")
        return program
    if language == "console":
        return session(line, body)
    if language in CODE:
        raise PageError(f"line {line}: add a comment to this block: file, run, checked or not run")
    if any(text.startswith("$ ") for text in body.splitlines()):
        raise PageError(f"line {line}: use a `console` block for a session, or state why it is not run")
    return None


def session(line: int, body: str) -> Session:
    found = Session(line)
    for text in body.splitlines():
        if text.startswith("$ "):
            found.commands.append((text[2:], ""))
        elif not found.commands:
            raise PageError(f"line {line}: a session begins with a command")
        else:
            command, printed = found.commands[-1]
            if text.startswith("> ") and not printed:
                found.commands[-1] = (f"{command}\n{text[2:]}", "")
            else:
                found.commands[-1] = (command, f"{printed}{text}\n")
    return found
