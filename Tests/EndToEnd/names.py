#!/usr/bin/env python3
"""Compares docs/reference/names.md, which lists each name in all interfaces, with the code.

Without --binary the command line is not checked, because the list of subcommands comes from the binary.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/names.md"
CALLS, OPTIONS = "Calls", "Options and fields"
RESP, HTTP, COMMAND_LINE, CONFIGURATION, SWIFT = "RESP", "HTTP", "command line", "configuration", "Swift"
# The sections that describe the options of subcommands.
OPTION_PAGES = ("docs/reference/command-line.md", "docs/reference/run.md", "docs/internals/bench.md")
# The schemas of bodies that clients send.
REQUESTS = ("LockRequest", "RenewRequest", "CallRequest", "OutcomeReport", "Override")


@dataclass
class Table:
    """The code spans of a page, by section and column."""

    names: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> "Table":
        table, section, columns = cls(), "", list[str]()
        for line in text.splitlines():
            if line.startswith("## "):
                section = line[3:]
            elif not line.startswith("|"):
                columns = []
            elif not columns:
                columns = [cell.strip() for cell in line.split("|")]
            else:
                for column, cell in zip(columns, line.split("|"), strict=False):
                    table.names.setdefault((section, column), set()).update(re.findall(r"`([^`]+)`", cell))
        return table

    def of(self, column: str, *sections: str) -> set[str]:
        """Returns the names in a column of the given sections, or of all."""
        found = [
            names
            for (section, name), names in self.names.items()
            if name == column and section in (sections or (section,))
        ]
        return set[str]().union(*found)


def sources(*folders: str) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.swift")):
            yield path, path.read_text()


def source_text(name: str) -> str:
    """Returns the text of the only source file with this name."""
    (path,) = (ROOT / "Sources").rglob(name)
    return path.read_text()


def commands() -> set[str]:
    return set(re.findall(r'entry\(\s*"([A-Z.]+)', source_text("RESPCommandTable.swift")))


def command_options() -> set[str]:
    return set(re.findall(r'case \w+ = "([A-Z]+)"', source_text("RESPOptions.swift")))


def routes(contract: str) -> set[str]:
    found, path = set(), ""
    for line in contract.split("\ncomponents:")[0].splitlines():
        if match := re.match(r"  (/\S*):$", line):
            path = match[1]
        elif match := re.match(r"    (get|put|post|delete|options|head|patch|trace):", line):
            found.add(f"{match[1].upper()} {path}")
    return found


def request_fields(contract: str) -> set[str]:
    """Returns the body fields that clients send, query parameters, and header fields of routes."""
    found = set(re.findall(r"name: ([\w-]+), in: (?:query|header)", contract.split("\ncomponents:")[0]))
    schema = ""
    for line in contract.split("\ncomponents:")[1].splitlines():
        if match := re.match(r"    (\w+):", line):
            schema = match[1]
        elif schema in REQUESTS and (match := re.match(r"        (\w+):", line)):
            found.add(match[1])
    return found


def configuration_keys() -> set[str]:
    reading = re.compile(r'\.(?:read\w*|value|required\w*)\(\s*"([a-z_]+)"')
    return {key for _, text in sources("Sources/SidecarSettings") for key in reading.findall(text)}


def coordinator_calls() -> set[str]:
    """Returns the public functions of each group of calls on a coordinator, such as `locks.acquire`."""
    return {
        f"{group.lower()}.{name}"
        for group in ("Locks", "Limits", "Services", "Breakers")
        for name in re.findall(
            r"^    public func (\w+)", (ROOT / f"Sources/Interlock/{group}.swift").read_text(), flags=re.MULTILINE
        )
    }


def swift_names() -> set[str]:
    """Returns the library's functions, properties, cases and argument labels."""
    declared = re.compile(r"\b(?:func|var|let|case) (\w+)|, (\w+)(?=[,\n(])|\b(\w+)(?: \w+)?: ")
    return {
        name
        for _, text in sources("Sources/Interlock", "Sources/InterlockCore", "Sources/RedisClient")
        for groups in declared.findall(text)
        for name in groups
        if name
    }


def options_by_subcommand(command: dict[str, Any], words: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Yields each executable subcommand with its full name and its long options."""
    options = {
        f"--{name['name']}"
        for argument in command.get("arguments", [])
        if argument["shouldDisplay"]
        for name in argument.get("names", [])
        if name["kind"] == "long"
    }
    subcommands = [
        sub for sub in command.get("subcommands", []) if sub["shouldDisplay"] and sub["commandName"] != "help"
    ]
    if not subcommands:
        yield " ".join(words), options
    for sub in subcommands:
        yield from options_by_subcommand(sub, (*words, sub["commandName"]))


def compare(subject: str, actual: set[str], documented: set[str], minimum: int = 1) -> Iterator[str]:
    """Yields names that only one side has, and a finding if the code has fewer than `minimum` of them."""
    if len(actual) < minimum:
        yield f"{subject}: only {len(actual)} found in the code; update this check if the code's form has changed"
    for name in sorted(actual - documented):
        yield f"{subject}: the table lacks {name}"
    for name in sorted(documented - actual):
        yield f"{subject}: the table has {name}, but the code does not"


def findings(table: Table, binary: str | None) -> Iterator[str]:
    options = command_options()
    yield from compare("commands", commands(), table.of(RESP, CALLS) - options, minimum=20)
    yield from compare("options of commands", options, table.of(RESP, OPTIONS) & options, minimum=10)

    contract = contract_text()
    documented = {name for name in table.of(HTTP, CALLS) if "/" in name}
    # A path without a method includes all its methods.
    actual = {path if (path := route.partition(" ")[2]) in documented else route for route in routes(contract)}
    yield from compare("routes", actual, documented, minimum=20)
    fields = request_fields(contract)
    yield from compare("fields of requests", fields, table.of(HTTP, CALLS, OPTIONS) & fields, minimum=15)

    keys = configuration_keys()
    reference = (ROOT / "docs/reference/configuration.md").read_text()
    yield from compare("keys in configuration.md", keys, keys & set(re.findall(r"[a-z_]+", reference)), minimum=60)
    for name in sorted(table.of(CONFIGURATION)):
        for word in name.replace("[]", "").split("."):
            if word not in keys and word != "NAME":
                yield f"keys: the table has {name}, but the configuration has no {word}"

    calls = coordinator_calls()
    documented = {name.partition("(")[0] for name in table.of(SWIFT, CALLS)}
    yield from compare("calls of a coordinator", calls, documented & calls, minimum=10)
    known = swift_names()
    for name in sorted(table.of(SWIFT)):
        if name.partition("(")[0].rpartition(".")[2] not in known:
            yield f"Swift: the table has {name}, but the library does not"

    if binary:
        yield from command_line_findings(table, binary)


def dump_help(binary: str) -> dict[str, Any]:
    """Returns a program's root command, as the program describes it."""
    dump = subprocess.run([binary, "--experimental-dump-help"], check=True, capture_output=True, text=True).stdout
    command: dict[str, Any] = json.loads(dump)["command"]
    return command


def command_line_findings(table: Table, binary: str) -> Iterator[str]:
    known = dict(options_by_subcommand(dump_help(binary)))
    # `interlock bench` runs another program, which has its own commands.
    del known["bench"]
    known |= dict(options_by_subcommand(dump_help(f"{binary}-bench"), ("bench",)))
    documented = {name for name in table.of(COMMAND_LINE, CALLS) if re.fullmatch(r"[a-z][a-z -]*", name)}
    yield from compare("subcommands", set(known), documented, minimum=15)
    options = set[str]().union(*known.values())
    pages = "".join((ROOT / page).read_text() for page in OPTION_PAGES)
    yield from compare("options in the pages", options, options & set(re.findall(r"--[a-z][a-z-]*", pages)), minimum=30)
    named = {name for name in table.of(COMMAND_LINE) if name.startswith("--")}
    for name in sorted(named - options):
        yield f"command line: the table has {name}, but no subcommand does"


def contract_text() -> str:
    (path,) = (ROOT / "Sources").rglob("openapi.yaml")
    return path.read_text()


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--binary", help="the interlock that describes its command line, with interlock-bench in the same directory"
    )
    binary = arguments.parse_args().binary
    found = list(findings(Table.read(PAGE.read_text()), binary))
    for finding in found:
        print(f"{PAGE.relative_to(ROOT)}: {finding}")
    if not found:
        print("names: the table has every command, route and call" + (", and every subcommand" if binary else ""))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
