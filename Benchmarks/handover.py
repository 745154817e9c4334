"""How fast a lock goes from hand to hand: through two sidecars, and through other libraries' locks."""

import statistics

import load
from rig import Client, say, scripts_run

#: Clients at each of the two sidecars.
SIZES = (1, 16, 200)
#: The size that the peers are measured at.
BESIDE_PEERS = 16


def measure(rig, table, rounds, scale):
    sidecars = rig.start_fleet(2)
    seconds = max(1, 5 * scale / 100)
    ours = {size: [] for size in SIZES}
    peers = {library: [] for library in load.PEERS}
    for number in range(1, rounds + 1):
        for size in SIZES:
            say(f"hand-over, {size}+{size} waiters, round {number} of {rounds}, {seconds:.0f} s …")
            ours[size].append(run(rig, sidecars, size, f"handover-{size}-{number}", seconds))
        for library in load.PEERS:
            say(f"hand-over, {library}, {2 * BESIDE_PEERS} processes, round {number} of {rounds}, {seconds:.0f} s …")
            peers[library].append(load.peer(library, rig.redis_port, 2 * BESIDE_PEERS, seconds))
    for sidecar in sidecars:
        rig.stop(sidecar.process)
    report_speed(table, ours[BESIDE_PEERS], peers)
    report_times(table, ours, peers)
    report_commands(table, ours)
    report_safety(table, [figures for runs in ours.values() for figures in runs])


def run(rig, sidecars, size, lock, seconds):
    """The figures of one run, with the requests that Redis had for each cycle."""
    redis = Client(rig.redis_port)
    counted, seen = commands_of(sidecars), scripts_run(redis)
    addresses = [word for sidecar in sidecars for word in ("--sidecar", sidecar.address)]
    figures = load.own("handover", *addresses, "--waiters", size, "--lock", lock, seconds=seconds)
    figures["commands_per_cycle"] = (commands_of(sidecars) - counted) / figures["all_cycles"]
    figures["scripts_per_cycle"] = (scripts_run(redis) - seen) / figures["all_cycles"]
    figures["longest_wait_share"] = figures["longest_wait_ms"] / (2 * size * figures["mean_cycle_ms"])
    return figures


def commands_of(sidecars):
    return sum(sidecar.redis_commands() for sidecar in sidecars)


def median(runs, key):
    return statistics.median(figures[key] for figures in runs)


def per_second(runs, key="cycles"):
    return [figures[key] / figures["seconds"] for figures in runs]


def report_speed(table, ours, peers):
    for key, what, bound in (("cycles", "cycles", 4), ("to_another", "cycles that went to another client", None)):
        rates = {library: per_second(runs, key) for library, runs in peers.items()}
        best = [max(of_round) for of_round in zip(*rates.values())]
        ratio = statistics.median(a / b for a, b in zip(per_second(ours, key), best))
        table.add(
            f"hand-over, {BESIDE_PEERS}+{BESIDE_PEERS} waiters: {what} ÷ the better of the others",
            f"{statistics.median(per_second(ours, key)):,.0f}/s",
            "; ".join(f"{library} {statistics.median(rate):,.0f}/s" for library, rate in rates.items()),
            f"{ratio:.2f}", *([f"≥ {bound}", ratio >= bound] if bound else []))


def report_times(table, ours, peers):
    for size in SIZES[1:]:
        runs, beside = ours[size], peers if size == BESIDE_PEERS else {}
        what = f"hand-over, {size}+{size} waiters"
        if not beside:
            rate = statistics.median(per_second(runs))
            table.add(f"{what}: cycles", f"{rate:,.0f}/s", "–", f"{rate:,.0f}/s")
        late = median(runs, "p99_ms")
        table.add(
            f"{what}: release to next grant, p50 and p99", f"{median(runs, 'p50_ms'):.2f} and {late:.2f} ms",
            others(beside, lambda peer: f"{median(peer, 'p50_ms'):.2f} and {median(peer, 'p99_ms'):.2f} ms"),
            f"{late:.2f} ms", "≤ 5 ms", late <= 5)
        share = median(runs, "longest_wait_share")
        table.add(
            f"{what}: longest wait ÷ (waiters × mean cycle)", f"{median(runs, 'longest_wait_ms'):,.0f} ms",
            others(beside, lambda peer: f"{median(peer, 'longest_wait_ms'):,.0f} ms"),
            f"{share:.2f}", "≤ 2", share <= 2)


def others(peers, text):
    return "; ".join(f"{library} {text(runs)}" for library, runs in peers.items()) or "–"


def report_commands(table, ours):
    for size in SIZES:
        commands, scripts = median(ours[size], "commands_per_cycle"), median(ours[size], "scripts_per_cycle")
        table.add(
            f"hand-over, {size}+{size} waiters: commands to Redis for each cycle", f"{commands:.2f}",
            f"scripts that Redis counted {scripts:.2f}", f"{commands:.2f}", "≤ 3", max(commands, scripts) <= 3)


def report_safety(table, runs):
    wrong = sum(figures["violations"] + (not figures["fences_in_order"]) for figures in runs)
    cycles = sum(figures["all_cycles"] for figures in runs)
    table.add("hand-over: two holders at once, or fences out of order", f"{wrong} in {cycles:,} cycles", "–", str(wrong),
              "0", wrong == 0)
    errors = sum(figures["errors"] for figures in runs)
    first = next((figures["first_error"] for figures in runs if figures["errors"]), "")
    table.add("hand-over: clients refused, cut off or forgotten", f"{errors} {first}".strip(), "–", str(errors),
              "0", errors == 0)
