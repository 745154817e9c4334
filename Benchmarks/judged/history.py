"""Merges the records of a part into one history, which `interlock bench check` judges."""

import itertools
import json
import pathlib
import re
import sys
from collections.abc import Iterable
from typing import Any

from judged.plan import CLIENTS, RECOVERY
from rig import load
from rig.servers import BENCH

#: Milliseconds. A call may take this long beyond its wait, and a requested lock may stay free this long.
PATIENCE, HAND_OVER = 10_000, 3_000
RULES = {
    "services": [],
    "sidecars": CLIENTS,
    "patience": PATIENCE,
    "recovery": int(RECOVERY * 1000),
    "handOver": HAND_OVER,
    "clockDrift": 0,
    # Otherwise the judge would excuse every failover.
    "keepsLocks": True,
}
#: The events that end a call.
ENDINGS = {"granted", "renewed", "released", "refused", "failed", "unknown"}
#: The events that begin a call.
CALLS = {"acquire", "renew", "release"}
#: The maximum number of violations that the judge lists.
LISTED = 100
CONFLICT = re.compile(r"begins while lease (\d+)")

Event = dict[str, Any]


def parse(text: str) -> list[Event]:
    """Returns the events of a client. A client that was killed may have left half a line."""
    lines = text.splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def vanished(events: list[Event], at: int) -> list[Event]:
    """Returns the end of the call that a client was making when it was killed."""
    if not events or events[-1]["what"] not in CALLS:
        return []
    return [{"at": at, "what": "unknown", "client": events[-1]["client"], "reason": "vanished"}]


def merged(parts: Iterable[list[Event]]) -> list[Event]:
    # The sort keeps the order of one client's events with equal times.
    return sorted((event for part in parts for event in part), key=lambda event: event["at"])


def write(path: pathlib.Path, events: list[Event], end: int) -> None:
    header = {"history": 1, "source": "run", "rules": RULES}
    last = {"at": end, "what": "end", "events": len(events)}
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, *events, last)))


def judge(path: pathlib.Path) -> dict[str, Any]:
    """Returns the report of `interlock bench check`."""
    return json.loads(load.output(BENCH, "check", "--json", path, seconds=120, accepted=(0, 1)))


def figures(report: dict[str, Any], events: list[Event], lost_at: int, end: int) -> dict[str, Any]:
    """Returns the figures of a part: what the judge found, and times.

    lost_at, end: when the server was lost, and when clients began no more jobs.
    """
    found: dict[str, int] = {}
    for violation in report["violations"]:
        found[violation["promise"]] = found.get(violation["promise"], 0) + 1
    conflicts = [match[1] for one in report["violations"] if (match := CONFLICT.search(one["finding"]))]
    notified = notified_of_loss(events)
    stale = [one for one in report["violations"] if one["promise"] == "fenced-writes" and "stale" in one["finding"]]
    return {
        "grants": report["lock_cycles"],
        "two_holders": found.pop("exclusion", 0),
        "not_notified": len({int(lease) for lease in conflicts} - notified),
        "lost": found.pop("kept-leases", 0),
        "stale_writes": len(stale),
        "stale_writes_refused": report["stale_writes_refused"],
        "never_released": found.pop("free-locks", 0),
        "other_violations": {**found, "fenced-writes": found.get("fenced-writes", 0) - len(stale)},
        "unlisted_violations": max(0, report["violation_count"] - LISTED),
        "longest_wait_ms": longest_wait(events),
        "without_grant_ms": without_grant(events, lost_at, end),
    }


def notified_of_loss(events: list[Event]) -> set[int]:
    """Returns the leases whose holder learned from the library that it no longer held the lock."""
    open_leases: dict[int, int] = {}
    notified = set()
    for event in events:
        if event["what"] in CALLS:
            open_leases[event["client"]] = event.get("lease", 0)
        elif event["what"] == "refused" and event["reason"] == "lost":
            notified.add(open_leases[event["client"]])
    return notified


def longest_wait(events: list[Event]) -> float:
    """Returns the longest time from a request to its grant, in milliseconds. Calls of a client that was stopped
    meanwhile do not count."""
    asked: dict[int, int] = {}
    stopped: dict[int, int] = {}
    stopped_at: dict[int, int] = {}
    longest = 0
    for event in events:
        if event["what"] == "fault" and event["reason"] == "pause":
            stopped[event["fault"]] = event["sidecar"]
            stopped_at[event["sidecar"]] = sys.maxsize
        elif event["what"] == "mended" and event["fault"] in stopped:
            stopped_at[stopped[event["fault"]]] = event["at"]
        elif event["what"] == "acquire":
            asked[event["client"]] = event["at"]
        elif event["what"] == "granted":
            begin = asked[event["client"]]
            if stopped_at.get(event["client"] % CLIENTS, -1) < begin:
                longest = max(longest, event["at"] - begin)
    return longest / 1e6


def without_grant(events: list[Event], lost_at: int, end: int) -> float | None:
    """Returns the longest time without a grant between the loss of the server and the end, in milliseconds. Only grants
    count that were requested after the loss, because a stopped client may read an older one late. None if there was
    none."""
    asked: dict[int, int] = {}
    times = []
    for event in events:
        if event["what"] == "acquire":
            asked[event["client"]] = event["at"]
        elif event["what"] == "granted" and asked[event["client"]] >= lost_at:
            times.append(event["at"])
    if not times:
        return None
    return max(later - earlier for earlier, later in itertools.pairwise([lost_at, *times, max(end, times[-1])])) / 1e6
