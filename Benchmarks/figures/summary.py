"""The summary at the top of the page: where Interlock is ahead, where it is behind, and the missed targets."""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

UNKNOWN = "We do not know why yet."
SCRIPT = "An acquire is a script, which Redis runs more slowly."
THREADS = "The call changes threads. On the coordinator's event loop, the target holds."
#: The ratios of the summary: the part, the row's label, and a sentence with the ratio. Above 1, Interlock is faster.
#: In a list, the first "{it}" becomes "Interlock".
HEADLINES = (
    (
        "locks",
        "hand-over, 16+16 waiters: cycles per second ÷ python-redis-lock, the fastest fair peer",
        "Under contention, {it} grants a lock {ratio} times as often as python-redis-lock.",
    ),
    (
        "peers",
        "lock and unlock ÷ etcd: 1 caller, HTTP",
        "Over HTTP, {it} locks {ratio} times as fast as etcd.",
    ),
    (
        "proxy",
        "32 connections: requests ÷ Envoy's",
        "As a proxy, {it} is {ratio} times as fast as Envoy.",
    ),
    (
        "limits",
        "one key: LIMIT.TAKE ÷ INCRBY, per second",
        "Pipelined takes reach {ratio} times `INCRBY`'s rate.",
    ),
    (
        "sidecar",
        "LIMIT.TAKE ÷ INCRBY, 50 clients",
        "Without pipelines, takes reach {ratio} times `INCRBY`'s rate.",
    ),
    (
        "limits",
        "1,000 keys: LIMIT.TAKE ÷ INCRBY, per second",
        "Pipelined takes of 1,000 limits reach {ratio} times `INCRBY`'s rate.",
    ),
    (
        "peers",
        "LIMIT.TAKE, fixed ÷ limits, fixed window: one caller",
        "For one caller, {it} decides {ratio} times as fast as `limits`.",
    ),
    (
        "peers",
        "PERMIT.ACQUIRE and PERMIT.REPORT ÷ pybreaker: 8 callers",
        "For 8 callers, {it} guards {ratio} times as many calls as pybreaker.",
    ),
)
#: Sentences for rows whose targets are missed, and the known reasons, by part and label.
MISSED = {
    ("sidecar", "LOCK.ACQUIRE ÷ SET NX PX, 50 clients"): ("`LOCK.ACQUIRE` reaches {} times `SET`'s rate.", SCRIPT),
    ("sidecar", "LOCK.ACQUIRE ÷ EVALSHA of its script, 50 clients"): (
        "`LOCK.ACQUIRE` reaches {} times its script's rate.",
        UNKNOWN,
    ),
    ("sidecar", "HTTP API, LIMIT.TAKE, 32 connections ÷ RESP API"): (
        "Takes over HTTP reach {} times RESP's rate.",
        UNKNOWN,
    ),
    ("locks", "hand-over, 16+16 waiters: longest wait"): ("The longest wait is {} laps.", UNKNOWN),
    ("locks", "library, acquire and release: 64 callers ÷ SET NX PX, 50 clients"): (
        "The Swift library reaches {} times `SET`'s rate.",
        SCRIPT,
    ),
    ("locks", "library, acquire and release: one caller ÷ redis-py"): (
        "The Swift library is {} times as fast as redis-py.",
        THREADS,
    ),
    ("limits", "1,000 keys: LIMIT.TAKE ÷ INCRBY, per second"): (
        "Pipelined takes of 1,000 limits reach {} times `INCRBY`'s rate.",
        UNKNOWN,
    ),
}
#: Stands in for a row that was not measured.
MISSING = ("", "", "", "missing", "", "–")
WIDTH = 150


def text(measured: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """Returns the summary of the parts' rows as Markdown."""
    rows = {(part, row[0]): row for part, entry in measured for row in entry["rows"]}
    # A missed target is not listed twice.
    compared = [(sentence, rows.get((part, label), MISSING)) for part, label, sentence in HEADLINES]
    ratios = [(sentence, row[3]) for sentence, row in compared if row[-1] != "NO"]
    known = [(sentence, ratio) for sentence, ratio in ratios if is_number(ratio)]
    missed: dict[str, list[str]] = {}
    for (part, label), row in rows.items():
        if row[-1] == "NO":
            sentence, reason = MISSED.get((part, label), (f"In {part.capitalize()}, “{label}” is {{}}.", UNKNOWN))
            missed.setdefault(reason, []).append(sentence.format(row[3]))
    # Targets without a known reason are last.
    reasons = sorted(missed.items(), key=lambda item: item[0] == UNKNOWN)
    return "\n".join(
        [
            comparison("Ahead", [(sentence, ratio) for sentence, ratio in known if float(ratio) >= 1]),
            comparison("Behind", [(sentence, ratio) for sentence, ratio in known if float(ratio) < 1]),
            f"- **Missed targets**: {sum(map(len, missed.values())) or 'none'}.",
            *(filled(f"  - {' '.join([*sentences, reason])}", "    ") for reason, sentences in reasons),
        ]
    )


def is_number(figure: str) -> bool:
    return figure.replace(".", "", 1).isdigit()


def comparison(title: str, ratios: list[tuple[str, str]]) -> str:
    sentences: list[str] = []
    it = "Interlock"
    for sentence, ratio in ratios:
        sentences.append(sentence.format(it=it, ratio=ratio))
        it = "it" if "{it}" in sentence else it
    return filled(f"- **{title}**: {' '.join(sentences) or 'none.'}", "  ")


def filled(line: str, indent: str) -> str:
    return textwrap.fill(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
