#!/usr/bin/env python3
"""A day in the life of two sidecars and an API that fails, limits and recovers.

Starts a private Redis, two sidecars of the release build and a small HTTP server, and plays the acts below: what is done is said
before it happens, what it does is waited for and said when it was seen. Shows the sidecars' logs, the fleet's events and what
redis-cli shows of it. Exits with 0 if everything was seen. Nothing that runs on this machine already is touched, and all that was
started is stopped at the end.
"""

import argparse
import concurrent.futures
import shutil
import signal
import sys
import time

import upstream
from stage import BINARY, HISTORY, NotSeen, Stage

#: What ends the demonstration early.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def normal_calls(stage):
    """Calls through the proxy; meanwhile one sidecar of the two looks at the upstream's status page."""
    a, b = stage.sidecars["a"], stage.sidecars["b"]
    before = len(stage.upstream.calls)
    for sidecar in (a, b, a):
        require("200 from the upstream", stage.call(sidecar), 200)
    stage.expect("all three reached the upstream", lambda: len(stage.upstream.calls) == before + 3)
    stage.expect("one sidecar probes", lambda: stage.prober)
    stage.interlock(a, "status")
    stage.show("KEYS", "interlock:*")


def the_limit(stage):
    """Ten calls a second are allowed. The eleventh trips the breaker and waits; when that half-opens it is sent again."""
    sidecar = stage.sidecars["a"]
    first = stage.call_at_once(sidecar, 10)
    stage.show("KEYS", "interlock:rate:*")
    stage.show("GET", "interlock:rate:{catalog}:1s")
    with concurrent.futures.ThreadPoolExecutor() as callers:
        eleventh = callers.submit(stage.call, sidecar)
        opened = stage.expect_change("open", "limit")
        stage.show_breaker()
        half = stage.expect_change("half_open", "limit")
        closed = stage.expect_change("closed", "limit", "trials")
        last = eleventh.result()
    for answer in [*first, last]:
        require("200 for each of the eleven", answer, 200)
    paused = between(opened, half)
    stage.expect(f"the pause was {paused:.1f} s, and the call that waited through it was answered after {last.seconds:.1f} s",
                 lambda: 1.9 <= paused <= 3.5 and last.seconds >= paused - 0.5)
    stage.show("XRANGE", HISTORY, opened["id"], closed["id"])
    stage.pause(1)
    stage.say("you", "The service quotes takes five calls a second, and lets those beyond wait for their turn.")
    answers = stage.call_at_once(sidecar, 8, "quotes/books")
    for answer in answers:
        require("200 for each of the eight", answer, 200)
    waited = answers[-3].seconds
    stage.expect(f"three of the eight waited, for {waited:.1f} s and more", lambda: waited > 0.3)


def the_outage(stage):
    """The status page says "down for maintenance" with a 200. The monitor sees it; users are answered at once, and the API is left alone."""
    stage.upstream.page = upstream.MAINTENANCE
    stage.expect_change("open", "outage")
    stage.show_breaker()
    stage.until_all_have("open")
    calls, probes = len(stage.upstream.calls), len(stage.upstream.probes)
    for sidecar in stage.sidecars.values():
        require_refusal(stage, stage.call(sidecar))
    stage.expect("none of these calls reached the upstream", lambda: len(stage.upstream.calls) == calls)
    stage.expect("the probes go on", lambda: len(stage.upstream.probes) >= probes + 3)
    if stage.breaker()["state"] != "open":
        raise NotSeen("it is still open")


def the_recovery(stage):
    """The page says "ok" again. Two good probes in a row close the breaker, and no user had to try."""
    stage.upstream.page = upstream.MAINTENANCE
    stage.until("the breaker is open", lambda: stage.breaker()["state"] == "open")
    stage.remember()
    stage.upstream.page = upstream.UP
    stage.expect_change("closed", "probe")
    stage.until_all_have("closed")
    require("200 again", stage.call(stage.sidecars["b"]), 200)
    stage.show_breaker()


def retry_after(stage):
    """The upstream answers 503 and asks for three seconds. It gets them, from both sidecars."""
    a, b = stage.sidecars["a"], stage.sidecars["b"]
    stage.upstream.behaviour = upstream.BUSY
    answer = stage.call(a)
    if answer.is_refusal:
        raise NotSeen("the upstream's own 503 is passed on")
    require("503 from the upstream", answer, 503)
    opened = stage.expect_change("open", "retry_after")
    stage.upstream.behaviour = upstream.GOOD
    stage.show_breaker()
    stage.until_all_have("open")
    calls = len(stage.upstream.calls)
    for sidecar in (a, b):
        require_refusal(stage, stage.call(sidecar))
    half = stage.expect_change("half_open", "retry_after", seconds=8)
    asked = between(opened, half)
    stage.expect(f"it was left alone for {asked:.1f} s", lambda: 2.9 <= asked <= 4.5 and len(stage.upstream.calls) == calls)
    close_by_trials(stage)


def failures(stage):
    """Half and more of the calls fail. The breaker opens for a time, lets a few try, and closes when they succeed."""
    stage.upstream.behaviour = upstream.FAILING
    refused = None
    for index in range(15):
        answer = stage.call(stage.sidecars["ab"[index % 2]])
        if answer.is_refusal:
            refused = answer
            break
        require("500 from the upstream", answer, 500)
        # Fewer than ten a second: it is not the limit that is shown here.
        stage.pause(0.13)
    stage.expect_change("open", "failures")
    stage.upstream.behaviour = upstream.GOOD
    stage.show_breaker()
    stage.until_all_have("open")
    require_refusal(stage, refused or stage.call(stage.sidecars["a"]))
    stage.expect_change("half_open", "failures", seconds=8)
    close_by_trials(stage)


def a_death(stage):
    """The sidecar that probes is killed. The other one takes over, and what it finds counts as much."""
    dead = stage.until("one sidecar probes", lambda: stage.prober)
    survivor = next(sidecar for sidecar in stage.sidecars.values() if sidecar is not dead)
    stage.follow(survivor)
    looks = len(stage.probes.get(survivor.name, []))
    stage.say("you", f"$ kill -9 {dead.process.pid}   # sidecar {dead.name}")
    killed = time.monotonic()
    dead.process.kill()
    stage.until(f"sidecar {survivor.name} probes", lambda: len(stage.probes.get(survivor.name, [])) > looks, 8)
    took = stage.probes[survivor.name][looks] - killed
    stage.expect(f"sidecar {survivor.name} probes, {took:.2f} s after the other's death", lambda: took > 0)
    stage.upstream.page = upstream.MAINTENANCE
    opened = stage.expect_change("open", "outage")
    if not opened["by"].startswith(survivor.id):
        raise NotSeen(f"opened by sidecar {survivor.name}: it was {opened['by']}")
    stage.upstream.page = upstream.UP
    stage.expect_change("closed", "probe")
    stage.until(f"sidecar {survivor.name} acts so", lambda: stage.breaker_at(survivor)["state"] == "closed")
    require("200 from the survivor", stage.call(survivor), 200)
    stage.say("you", "The other one is started again, and joins the fleet under a new ID.")
    stage.start_sidecar(dead.name)
    stage.show("ZRANGE", "interlock:fleet", "0", "-1")


def an_operator(stage):
    """Somebody forces the breaker open, with a reason and an end. After it the breaker acts by itself again."""
    a, b = stage.sidecars["a"], stage.sidecars["b"]
    stage.interlock(a, "breaker", "force", "catalog", "open", "--for", "4s", "--reason", "the catalog is being moved")
    forced = time.monotonic()
    stage.expect_change("open", "forced")
    stage.show_breaker()
    stage.expect("Redis has who forced it, and why",
                 lambda: stage.breaker()["forced"] == "open" and "moved" in stage.breaker()["reason"])
    stage.until_all_have("open")
    require_refusal(stage, stage.call(b))
    stage.interlock(b, "breaker", "show", "catalog")
    stage.expect_change("closed", "auto", seconds=10)
    held = time.monotonic() - forced
    stage.expect(f"it was forced for {held:.1f} s, and by nobody now", lambda: held > 3.5 and stage.breaker()["forced"] == "")
    stage.until_all_have("closed")
    require("200 again", stage.call(b), 200)


def redis_away(stage):
    """Redis is halted for two seconds. The sidecars decide by themselves; then they agree again."""
    sidecars = list(stage.sidecars.values())
    stage.say("you", f"$ kill -STOP {stage.redis_server.pid}   # Redis")
    halted = time.monotonic()
    stage.redis_server.send_signal(signal.SIGSTOP)
    answers = []
    while time.monotonic() - halted < 2:
        answers.append(stage.call(sidecars[len(answers) % 2]))
        stage.pause(0.3)
    for sidecar in sidecars:
        stage.until(f"sidecar {sidecar.name} has noticed", lambda: stage.info(sidecar)["redis_up"] == "0")
    stage.say("seen", "both sidecars have noticed")
    stage.interlock(sidecars[0], "breaker", "show", "catalog")
    stage.say("you", f"$ kill -CONT {stage.redis_server.pid}   # after {time.monotonic() - halted:.1f} s")
    stage.redis_server.send_signal(signal.SIGCONT)
    for answer in answers:
        require("200 while Redis was away", answer, 200)
    slowest = max(answer.seconds for answer in answers)
    stage.expect(f"all {len(answers)} calls were answered, the slowest after {slowest:.2f} s", lambda: slowest < 1.5)
    for sidecar in sidecars:
        stage.until(f"sidecar {sidecar.name} has Redis back", lambda: stage.info(sidecar)["redis_up"] == "1")
    generation = stage.breaker()["generation"]
    stage.expect(f"both sidecars and Redis have the breaker closed, in generation {generation}", lambda: all(
        (state["state"], state["fleet_state"], state["generation"]) == ("closed", "closed", generation)
        for state in map(stage.breaker_at, sidecars)))
    probes = len(stage.upstream.probes)
    stage.expect("the probes go on", lambda: len(stage.upstream.probes) > probes + 1, 10)
    require("200 with Redis", stage.call(sidecars[0]), 200)


ACTS = [
    ("Normal calls", normal_calls),
    ("More than the limit", the_limit),
    ("An outage that answers 200", the_outage),
    ("The recovery", the_recovery),
    ("Please come back in three seconds", retry_after),
    ("Failures", failures),
    ("A sidecar dies", a_death),
    ("An operator steps in", an_operator),
    ("Redis is away", redis_away),
]


def require(what, answer, status):
    if answer.status != status:
        raise NotSeen(f"{what}: it was {answer}")


def require_refusal(stage, answer):
    """At once, by the sidecar, and with the time when to come back."""
    require("503 by the sidecar", answer, 503)
    if not answer.is_refusal or int(answer.headers.get("retry-after", 0)) < 1 or answer.seconds > 0.5:
        raise NotSeen(f"a refusal at once, with Retry-After: it was {answer}")
    stage.say("seen", "refused at once, with Retry-After")


def between(earlier, later):
    """Seconds of Redis' clock between two entries of the history."""
    first, second = (int(entry["id"].partition("-")[0]) for entry in (earlier, later))
    return (second - first) / 1000


def close_by_trials(stage):
    for _ in range(2):
        require("200 for a trial", stage.call(stage.sidecars["a"]), 200)
    stage.expect_change("closed", "trials")


def calm(stage):
    """The upstream is well, the breaker closed, and the last calls' windows are over: an act begins with a clean slate."""
    stage.upstream.behaviour, stage.upstream.page = upstream.GOOD, upstream.UP
    for sidecar in list(stage.sidecars.values()):
        if sidecar.process.poll() is not None:
            stage.start_sidecar(sidecar.name)

    def is_calm():
        breaker = stage.breaker()
        if breaker["state"] == "half_open":
            stage.pause(0.2)
            stage.call(stage.sidecars["a"])
        return breaker["state"] == "closed" and not breaker["forced"] and stage.ask("KEYS", "interlock:rate:*") == [""]

    stage.until("everything is calm before the next act", is_calm, 20)
    stage.remember()


def play(chosen):
    """Whether every expectation of every chosen act was seen."""
    stage = Stage()
    verdicts = {}
    try:
        stage.narrator.headline("A day in the life: a private Redis, two sidecars, and an API that can be told how to behave")
        stage.open()
        for number, (title, act) in enumerate(ACTS, 1):
            if number in chosen:
                stage.pause(1)
                stage.narrator.headline(f"{number}. {title}")
                stage.say("you", act.__doc__)
                stage.pause(2)
                verdicts[f"{number}. {title}"] = perform(stage, act)
        stage.narrator.headline("The end: everything is stopped")
    except NotSeen as failure:
        stage.say("NOT SEEN", str(failure))
        verdicts["before it began"] = False
    finally:
        # A second Ctrl-C would leave some of them running.
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        stage.close()
    stage.narrator.headline(f"{sum(verdicts.values())} of {len(verdicts)} acts were seen as expected")
    for title, seen in verdicts.items():
        stage.say("seen" if seen else "NOT SEEN", title)
    return all(verdicts.values())


def perform(stage, act):
    try:
        # The recovery is from the outage before it.
        if act is not the_recovery:
            calm(stage)
        act(stage)
        # The last lines of the log and the last events are still on their way.
        stage.pause(0.3)
        return True
    except NotSeen as failure:
        stage.say("NOT SEEN", str(failure))
        return False
    finally:
        stage.redis_server.send_signal(signal.SIGCONT)


def interrupted(*_):
    raise KeyboardInterrupt


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--act", type=int, action="append", choices=range(1, len(ACTS) + 1), metavar="N",
                         help="only this act; may be given several times")
    options = options.parse_args()
    if not BINARY.exists():
        sys.exit("demo: build first: make build")
    if missing := [tool for tool in ("redis-server", "redis-cli", "curl") if not shutil.which(tool)]:
        sys.exit(f"demo: {', '.join(missing)} not found; `make setup` installs what is missing")
    for number in ENDING:
        signal.signal(number, interrupted)
    try:
        return 0 if play(options.act or range(1, len(ACTS) + 1)) else 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
