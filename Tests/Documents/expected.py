"""Compares what was printed with what a page shows.

A page shows real output, of which some things are never the same again: tokens, fences, IDs, times. They match their
own kind. `…` matches anything in its line, and on a line of its own any number of lines.
"""

import re

#: What is different each time, and what it may be. The first that fits at a place counts.
VARIABLE = [
    # A token: a label, a slash, 128 bits.
    (r"[\w.-]+/[0-9a-f]{32}", r"[\w.-]+/[0-9a-f]{32}"),
    # A permit; a sidecar's ID; a fence, or a generation.
    (r"\b[0-9a-f]{32}\b", r"[0-9a-f]{32}"),
    (r"\b(?=[0-9]*[a-f])[0-9a-f]{12}\b", r"[0-9a-f]{12}"),
    (r"\b\d{16}\b", r"\d{16}"),
    (r"\b\d{13}\b", r"\d{13}"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", r"\d{4}-\d\d-\d\dT[\d:.]+Z"),
    (r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT", r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT"),
    # Durations: in JSON, in text, in redis-cli's replies.
    (r"_ms\"?[:=] ?\d+", r"_ms\"?[:=] ?\d+"),
    (r"\b\d+(?:\.\d+)? (?:ms|s)\b", r"\d+(?:\.\d+)? (?:ms|s)"),
    (r"\(integer\) \d{3,}", r"\(integer\) \d{2,}"),
    (r"\bprocess \d+", r"process \d+"),
]
KINDS = re.compile("|".join(f"(?P<k{index}>{shown})" for index, (shown, _) in enumerate(VARIABLE)))


def pattern(line: str) -> str:
    """A regular expression for a line that is shown."""
    parts, end = [], 0
    for found in re.finditer(rf"…|{KINDS.pattern}", line):
        parts.append(re.escape(line[end : found.start()]))
        kind = found.lastgroup
        parts.append(".*" if kind is None else VARIABLE[int(kind[1:])][1])
        end = found.end()
    return "".join(parts) + re.escape(line[end:])


def matches(shown: str, printed: str) -> bool:
    lines = [r"(?:.*\n)*?" if line.strip() == "…" else pattern(line.rstrip()) + r" *\n" for line in shown.splitlines()]
    # curl ends an answer without a newline; a shell's next prompt hides that.
    text = printed.replace("\r", "")
    if text and not text.endswith("\n"):
        text += "\n"
    return re.fullmatch("".join(lines), text) is not None


def difference(shown: str, printed: str) -> str:
    """For people: both, beside a margin."""
    return "".join(
        f"  {title}:\n" + "".join(f"    | {line}\n" for line in text.splitlines() or ["(nothing)"])
        for title, text in (("the page shows", shown), ("it printed", printed.replace("\r", "")))
    )
