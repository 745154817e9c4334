#!/usr/bin/env python3
"""Writes the manual pages of programs and of each of their commands, from the programs' own descriptions.

The page of the configuration file, interlock.yaml(5), is made from docs/reference/configuration.md.

Usage: manual.py FOLDER BINARY...

`interlock-bench` calls itself `interlock bench`. After `interlock`, it replaces the page of that command.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Node = dict[str, Any]
HEADING = re.compile(r"[A-Z][A-Z ]+")
# An indented line of a table: a word or a number, a gap, and its meaning.
ROW = re.compile(r"(\S+)\s{2,}(.+)")
REFERENCE = Path(__file__).resolve().parents[1] / "docs/reference/configuration.md"
# The commands whose pages point to that of the configuration file. '' is the program.
READERS = ("", "serve", "check-config", "config")
ROOT_FILES = """\
.SH ENVIRONMENT
.TP
.B INTERLOCK_SIDECAR
Where commands find the sidecar: HOST:PORT, redis://HOST:PORT, rediss://HOST:PORT or unix:PATH.
127.0.0.1:7379 by default.
.TP
.B INTERLOCK_API_KEY
The API key that commands send.
.TP
.B INTERLOCK_CA
The authority that issued the sidecar's certificate, in PEM.
.SH FILES
.TP
.I /etc/interlock/interlock.yaml
The configuration of the system's sidecar, interlock.service.
"""


def escaped(text: str) -> str:
    """Escapes text for roff: hyphens stay hyphens, and no line becomes a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\n".join("\\&" + line if line.startswith(".") else line for line in text.split("\n"))


def prose(text: str) -> str:
    """Escapes text, and sets text in backquotes in bold."""
    parts = re.split(r"`([^`]*)`", text)
    return "".join(f"\\fB{escaped(part)}\\fR" if place % 2 else escaped(part) for place, part in enumerate(parts))


def spelled(name: Node) -> str:
    return ("--" if name["kind"] == "long" else "-") + name["name"]


def shown(argument: Node) -> bool:
    return bool(argument.get("shouldDisplay", True))


def synopsis(words: list[str], command: Node) -> str:
    """Returns the command and its arguments in the form of man pages."""
    parts = [f"\\fB{escaped(' '.join(words))}\\fR"]
    if displayed(command):
        return f"{parts[0]} \\fIcommand\\fR"
    # The arguments after `--` come last.
    terminated = ("postTerminator", "allUnrecognized")
    for argument in sorted(
        filter(shown, command.get("arguments", [])), key=lambda one: one.get("parsingStrategy") in terminated
    ):
        value = f"\\fI{escaped(argument['valueName'])}\\fR" + (" ..." if argument["isRepeating"] else "")
        if argument["kind"] == "positional":
            text = ("\\fB\\-\\-\\fR " if argument.get("parsingStrategy") in terminated else "") + value
        else:
            text = f"\\fB{escaped(spelled(argument['preferredName']))}\\fR"
            text += f" {value}" if argument["kind"] == "option" else ""
        parts.append(f"[{text}]" if argument["isOptional"] else text)
    return "\n".join(parts)


def arguments(command: Node) -> str:
    """Returns one entry for each argument and option."""
    lines: list[str] = []
    for argument in filter(shown, command.get("arguments", [])):
        value = f"\\fI{escaped(argument['valueName'])}\\fR"
        if argument["kind"] == "positional":
            title = value
        else:
            names = sorted(argument["names"], key=lambda name: len(name["name"]))
            title = ", ".join(f"\\fB{escaped(spelled(name))}\\fR" for name in names)
            title += f" {value}" if argument["kind"] == "option" else ""
        text = " ".join(filter(None, [argument.get("abstract"), argument.get("discussion")]))
        if argument.get("defaultValue"):
            text += f" Default: {argument['defaultValue']}."
        lines += [".TP", title, prose(text)]
    return ".SH OPTIONS\n" + "\n".join(lines) + "\n" if lines else ""


def sections(discussion: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the discussion's headings with their lines; first the lines without a heading."""
    heading = ""
    lines: list[str] = []
    for line in discussion.split("\n"):
        if HEADING.fullmatch(line):
            yield heading, lines
            heading, lines = line, []
        else:
            lines.append(line)
    yield heading, lines


def body(lines: list[str], literal: bool = False) -> str:
    """Fills paragraphs. Indented lines are a table of meanings, or examples, which stay unchanged."""
    if literal:
        return ".EX\n" + "\n".join(escaped(line.removeprefix("  ")) for line in lines).rstrip() + "\n.EE\n"
    out: list[str] = []
    for line in lines:
        row = ROW.fullmatch(line.strip()) if line.startswith("  ") else None
        if row is not None:
            out += [".TP", f".B {escaped(row[1])}", prose(row[2])]
        elif line.startswith("  "):
            out += [".PP", prose(line.strip())]
        else:
            out.append(prose(line) if line else ".PP")
    text = "\n".join(out).removeprefix(".PP\n")
    while text.endswith("\n.PP"):
        text = text.removesuffix("\n.PP")
    return text + "\n" if text else ""


def displayed(command: Node) -> list[Node]:
    return [child for child in command.get("subcommands", []) if shown(child) and child["commandName"] != "help"]


def page(words: list[str], command: Node, version: str, date: str) -> str:
    """Returns one manual page."""
    name = "-".join(words)
    abstract = command.get("abstract", "").rstrip(".")
    out = [
        f'.TH "{name.upper()}" 1 "{date}" "Interlock {version}" "Interlock"\n.nh\n.ad l\n',
        f".SH NAME\n{escaped(name)} \\- {escaped(abstract[:1].lower() + abstract[1:])}\n",
        f".SH SYNOPSIS\n{synopsis(words, command)}\n",
    ]
    parts = list(sections(command.get("discussion", "")))
    out.append(".SH DESCRIPTION\n" + (body(parts[0][1]) or prose(command.get("abstract", "")) + "\n"))
    children = displayed(command)
    if children:
        out.append(".SH COMMANDS\n")
        for child in children:
            reference = escaped("-".join([*words, child["commandName"]]))
            out.append(f".TP\n.BR {reference} (1)\n{prose(child.get('abstract', ''))}\n")
    out.append(arguments(command))
    for heading, lines in parts[1:]:
        title = {"EXIT CODES": "EXIT STATUS"}.get(heading, heading)
        out.append(f".SH {title}\n{body(lines, literal=heading == 'EXAMPLES')}")
    if len(words) == 1:
        out.append(ROOT_FILES)
    related = ["-".join(words[:-1])] if len(words) > 1 else []
    related += ["-".join([*words, child["commandName"]]) for child in children]
    references = [f"\\fB{escaped(other)}\\fR(1)" for other in related]
    if "".join(words[1:2]) in READERS:
        references.append("\\fBinterlock.yaml\\fR(5)")
    if references:
        out.append(".SH SEE ALSO\n" + ",\n".join(references) + "\n")
    return "".join(out)


def paragraphs(markdown: str) -> Iterator[str]:
    """The blocks of a page: headings, list items and paragraphs, each on one line, and fenced blocks."""
    text = re.sub(r"<!--.*?-->\n", "", markdown, flags=re.DOTALL)
    text = re.sub(r"\[((?:`[^`]*`|[^\[\]`])+)\]\([^()]*\)", r"\1", text)
    for part in re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE):
        if part.startswith("```"):
            yield part
            continue
        for paragraph in re.split(r"\n\n+|\n(?=- |\|)", part.strip()):
            yield " ".join(paragraph.split())


def reference_page(markdown: str, version: str, date: str) -> str:
    """The manual page of the configuration file, made from its reference."""
    out = [
        f'.TH "INTERLOCK.YAML" 5 "{date}" "Interlock {version}" "Interlock"\n.nh\n.ad l\n',
        ".SH NAME\ninterlock.yaml \\- configuration of the Interlock sidecar\n.SH DESCRIPTION\n",
    ]
    # An item is what it explains, up to the first colon outside of backquotes, and the explanation.
    item = re.compile(r"- ((?:`[^`]*`|[^`:]|:(?! ))+)(?:: (.+))?")
    for block in filter(None, paragraphs(markdown)):
        if block.startswith("# "):
            continue
        if block.startswith("## "):
            out.append(f".SH {escaped(block[3:].replace('`', '').upper())}\n")
        elif block.startswith("```"):
            out.append(".PP\n" + body([f"  {line}" for line in block.splitlines()[1:-1]], literal=True))
        elif found := item.fullmatch(block):
            out.append(f".TP\n{prose(found[1])}\n{prose(found[2] or '')}\n")
        else:
            out.append(f".PP\n{prose(block)}\n")
    commands = ("interlock", "interlock-serve", "interlock-check-config", "interlock-config-schema")
    out.append(".SH SEE ALSO\n" + ",\n".join(f"\\fB{escaped(name)}\\fR(1)" for name in commands) + "\n")
    return "".join(out)


def pages(words: list[str], command: Node) -> Iterator[tuple[list[str], Node]]:
    yield words, command
    for child in displayed(command):
        yield from pages([*words, child["commandName"]], child)


def main() -> None:
    folder, binaries = Path(sys.argv[1]), sys.argv[2:]
    date = time.strftime("%Y-%m-%d", time.gmtime(float(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    folder.mkdir(parents=True, exist_ok=True)
    for binary in binaries:
        program = json.loads(subprocess.check_output([binary, "--experimental-dump-help"]))["command"]
        version = subprocess.check_output([binary, "--version"], text=True).strip()
        for words, command in pages(program["commandName"].split(), program):
            (folder / ("-".join(words) + ".1")).write_text(page(words, command, version, date))
    reference = reference_page(REFERENCE.read_text(encoding="utf-8"), version, date)
    (folder / "interlock.yaml.5").write_text(reference, encoding="utf-8")


if __name__ == "__main__":
    main()
