"""What it costs a sidecar to keep many leases alive for as long as their connections live."""

import json
import subprocess
import sys
import time

import load
from rig import say

LEASES = 10_000
#: Milliseconds.
TTL = 10_000


def measure(rig, table, scale):
    # At least so long that every lease would have ended by itself.
    seconds = max(1.5 * TTL / 1000, 60 * scale / 100)
    [sidecar] = rig.start_fleet(1)
    time.sleep(1)
    before = sidecar.resident_kilobytes()
    say(f"linked leases: taking {LEASES:,} …")
    holder = rig.start(
        "linked", load.GENERATOR, "linked", "--sidecar", sidecar.address, "--leases", LEASES, "--ttl", TTL,
        "--seconds", seconds, stdout=subprocess.PIPE, text=True)
    answer(rig, holder, "held")
    begin, busy, commands = time.monotonic(), sidecar.processor_seconds(), sidecar.redis_commands()
    # A second less, so that the look for the leases is not measured with them.
    watch(seconds - 1)
    length = time.monotonic() - begin
    share = (sidecar.processor_seconds() - busy) / length
    rate = (sidecar.redis_commands() - commands) / length
    each = (sidecar.resident_kilobytes() - before) / LEASES
    lost = answer(rig, holder, "lost")
    rig.stop(holder)
    rig.stop(sidecar.process)
    what = f"{LEASES:,} linked leases of {TTL / 1000:.0f} s"
    table.add(f"{what}: lost within {seconds:.0f} s", str(lost), "–", str(lost), "0", lost == 0)
    table.add(f"{what}: resident memory for each", f"{each:.2f} KB", "–", f"{each:.2f} KB", "≤ 1 KB", each <= 1)
    table.add(f"{what}: share of a core", f"{share:.1%}", "–", f"{share:.1%}")
    table.add(f"{what}: commands to Redis", f"{rate:,.0f}/s", "–", f"{rate:,.0f}/s")


def answer(rig, holder, key):
    """A value from the next line that the holder of the leases prints."""
    line = holder.stdout.readline()
    if not line:
        sys.exit(f"benchmark: linked leases: {(rig.folder / 'linked.log').read_text()[-1000:]}")
    return json.loads(line)[key]


def watch(seconds):
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        say(f"linked leases: held, {left:.0f} s to go …")
        time.sleep(min(10, left))
