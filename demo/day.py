#!/usr/bin/env python3
"""A day in the life of two sidecars and an API that fails, limits and recovers.

Starts a private Redis, two sidecars of the release build and a small HTTP server, and plays the acts below. It prints
each step before it happens, waits for the expected effect, and prints that it was seen, together with the sidecars'
logs, the fleet's events and the output of redis-cli. Exits with 0 if everything was seen. It touches nothing else on
this machine, and stops everything that it started.
"""

import argparse
import concurrent.futures
import pathlib
import shutil
import signal
import sys
import time
from collections.abc import Callable, Collection

import upstream
from stage import BINARY, HISTORY, Answer, Entry, NotSeen, Process, Sidecar, Stage

Act = Callable[[Stage], None]

#: Signals that end the demo early.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def normal_calls(stage: Stage) -> None:
    """Calls go through the proxy. One of the two sidecars probes the upstream's status page."""
    a, b = stage.sidecars["a"], stage.sidecars["b"]
    before = len(stage.upstream.calls)
    for sidecar in (a, b, a):
        require("200 from the upstream", stage.call(sidecar), 200)
    stage.expect("all three reached the upstream", lambda: len(stage.upstream.calls) == before + 3)
    stage.expect("one sidecar probes", lambda: stage.prober)
    stage.interlock(a, "status")
    stage.show("KEYS", "interlock:*")


def the_limit(stage: Stage) -> None:
    """Ten calls a second are allowed. The eleventh trips the breaker and waits until the breaker half-opens."""
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
    stage.expect(
        f"the pause was {paused:.1f} s, and the call that waited through it was answered after {last.seconds:.1f} s",
        lambda: 1.9 <= paused <= 3.5 and last.seconds >= paused - 0.5,
    )
    stage.show("XRANGE", HISTORY, opened["id"], closed["id"])
    stage.pause(1)
    stage.say("you", "The service quotes allows five calls a second, and makes further ones wait for their turn.")
    answers = stage.call_at_once(sidecar, 8, "quotes/books")
    for answer in answers:
        require("200 for each of the eight", answer, 200)
    waited = answers[-3].seconds
    stage.expect(f"three of the eight waited, for at least {waited:.1f} s", lambda: waited > 0.3)


def the_outage(stage: Stage) -> None:
    """The status page says "down for maintenance" with a 200. The monitor sees it. Users get a response at once, and no
    call reaches the API."""
    stage.upstream.page = upstream.MAINTENANCE
    stage.expect_change("open", "outage")
    stage.show_breaker()
    stage.until_all_have("open")
    calls, probes = len(stage.upstream.calls), len(stage.upstream.probes)
    for sidecar in stage.sidecars.values():
        require_refusal(stage, stage.call(sidecar))
    stage.expect("none of these calls reached the upstream", lambda: len(stage.upstream.calls) == calls)
    stage.expect("the probes continue", lambda: len(stage.upstream.probes) >= probes + 3)
    if stage.breaker()["state"] != "open":
        raise NotSeen("it is still open")


def the_recovery(stage: Stage) -> None:
    """The page says "ok" again. Two good probes in a row close the breaker, without a trial call."""
    stage.upstream.page = upstream.MAINTENANCE
    stage.until("the breaker is open", lambda: stage.breaker()["state"] == "open")
    stage.remember()
    stage.upstream.page = upstream.UP
    stage.expect_change("closed", "probe")
    stage.until_all_have("closed")
    require("200 again", stage.call(stage.sidecars["b"]), 200)
    stage.show_breaker()


def retry_after(stage: Stage) -> None:
    """The upstream answers 503 and asks for three seconds. Both sidecars give it that time."""
    a, b = stage.sidecars["a"], stage.sidecars["b"]
    stage.upstream.behavior = upstream.BUSY
    answer = stage.call(a)
    if answer.is_refusal:
        raise NotSeen("the upstream's own 503 is forwarded")
    require("503 from the upstream", answer, 503)
    opened = stage.expect_change("open", "retry_after")
    stage.upstream.behavior = upstream.GOOD
    stage.show_breaker()
    stage.until_all_have("open")
    calls = len(stage.upstream.calls)
    for sidecar in (a, b):
        require_refusal(stage, stage.call(sidecar))
    half = stage.expect_change("half_open", "retry_after", seconds=8)
    asked = between(opened, half)
    stage.expect(
        f"it got no calls for {asked:.1f} s", lambda: 2.9 <= asked <= 4.5 and len(stage.upstream.calls) == calls
    )
    close_by_trials(stage)


def failures(stage: Stage) -> None:
    """At least half of the calls fail. The breaker opens, allows a few trials, and closes when they succeed."""
    stage.upstream.behavior = upstream.FAILING
    refused = None
    for index in range(15):
        answer = stage.call(stage.sidecars["ab"[index % 2]])
        if answer.is_refusal:
            refused = answer
            break
        require("500 from the upstream", answer, 500)
        # Fewer than ten a second, so that the limit is not reached.
        stage.pause(0.13)
    stage.expect_change("open", "failures")
    stage.upstream.behavior = upstream.GOOD
    stage.show_breaker()
    stage.until_all_have("open")
    require_refusal(stage, refused or stage.call(stage.sidecars["a"]))
    stage.expect_change("half_open", "failures", seconds=8)
    close_by_trials(stage)


def a_death(stage: Stage) -> None:
    """The probing sidecar is killed. The other one takes over and decides for the fleet."""
    dead = stage.until("one sidecar probes", lambda: stage.prober)
    assert dead is not None
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


def an_operator(stage: Stage) -> None:
    """An operator forces the breaker open for four seconds, with a reason. Then it is automatic again."""
    a, b = stage.sidecars["a"], stage.sidecars["b"]
    stage.interlock(a, "breaker", "force", "catalog", "open", "--for", "4s", "--reason", "the catalog is being moved")
    forced = time.monotonic()
    stage.expect_change("open", "forced")
    stage.show_breaker()
    stage.expect(
        "Redis has the operator and the reason",
        lambda: stage.breaker()["forced"] == "open" and "moved" in stage.breaker()["reason"],
    )
    stage.until_all_have("open")
    require_refusal(stage, stage.call(b))
    stage.interlock(b, "breaker", "show", "catalog")
    stage.expect_change("closed", "auto", seconds=10)
    held = time.monotonic() - forced
    stage.expect(
        f"it was forced for {held:.1f} s, and no longer is", lambda: held > 3.5 and stage.breaker()["forced"] == ""
    )
    stage.until_all_have("closed")
    require("200 again", stage.call(b), 200)


def redis_away(stage: Stage) -> None:
    """Redis stops for two seconds. Each sidecar decides locally; then they agree again."""
    sidecars = list(stage.sidecars.values())
    stage.say("you", f"$ kill -STOP {stage.redis_server.pid}   # Redis")
    halted = time.monotonic()
    stage.redis_server.send_signal(signal.SIGSTOP)
    answers: list[Answer] = []
    while time.monotonic() - halted < 2:
        answers.append(stage.call(sidecars[len(answers) % 2]))
        stage.pause(0.3)
    for sidecar in sidecars:
        until_redis_is(stage, sidecar, "0", "has noticed")
    stage.say("seen", "both sidecars have noticed")
    stage.interlock(sidecars[0], "breaker", "show", "catalog")
    stage.say("you", f"$ kill -CONT {stage.redis_server.pid}   # after {time.monotonic() - halted:.1f} s")
    stage.redis_server.send_signal(signal.SIGCONT)
    for answer in answers:
        require("200 while Redis was down", answer, 200)
    slowest = max(answer.seconds for answer in answers)
    stage.expect(f"all {len(answers)} calls were answered, the slowest after {slowest:.2f} s", lambda: slowest < 1.5)
    for sidecar in sidecars:
        until_redis_is(stage, sidecar, "1", "has Redis again")
    generation = stage.breaker()["generation"]
    stage.expect(
        f"both sidecars and Redis have the breaker closed, in generation {generation}",
        lambda: all(
            (state["state"], state["fleet_state"], state["generation"]) == ("closed", "closed", generation)
            for state in map(stage.breaker_at, sidecars)
        ),
    )
    probes = len(stage.upstream.probes)
    stage.expect("the probes continue", lambda: len(stage.upstream.probes) > probes + 1, 10)
    require("200 with Redis", stage.call(sidecars[0]), 200)


def two_hosts(stage: Stage) -> None:
    """Two hosts have the same job in their crontab. One of them runs it. When that host dies, the other one does."""
    a, b = stage.sidecars["a"], stage.sidecars["b"]
    lock = ("--lock", "nightly-import", "--ttl", "2s")
    job = ("--", "sh", "-c", 'echo "importing with fence $INTERLOCK_FENCE"; sleep 60')
    first = stage.run("host a", a, *lock, "--label", "host-a", "--no-wait", *job)
    low = fence(stage, first)
    second = stage.run("host b", b, *lock, "--label", "host-b", "--no-wait", *job)
    stage.expect("host b ends with exit code 75, and runs nothing", lambda: second.poll() == 75)
    stage.interlock(b, "lock", "show", "nightly-import")
    stage.show("GET", "interlock:lock:{nightly-import}")
    waiting = stage.run("host b", b, *lock, "--label", "host-b", "--wait", "10s", *job)
    stage.until("host b waits", lambda: stage.waiters(b, "nightly-import") == 1)
    stage.say("you", f"$ kill -9 {first.pid}   # host a is gone")
    killed = time.monotonic()
    first.kill()
    high = fence(stage, waiting)
    took = time.monotonic() - killed
    stage.expect(
        f"host b runs it {took:.1f} s later, with a higher fence", lambda: took < 4 and high > low and first.poll()
    )
    stage.stop(waiting)
    stage.expect("the lock is free again", lambda: stage.ask("GET", "interlock:lock:{nightly-import}") == [""])


def two_tenants(stage: Stage) -> None:
    """A partner's API allows twenty calls a second, four of them by one tenant. Tenant 7 makes ten calls at once.
    Tenant 8 does not notice."""
    a, b = stage.sidecars["a"], stage.sidecars["b"]
    with concurrent.futures.ThreadPoolExecutor() as callers:
        greedy = callers.submit(stage.call_at_once, a, 10, "partner/items", "tenant-7")
        stage.until("tenant 7 calls", lambda: stage.ask("KEYS", "interlock:rate:{partner}:*tenant-7") != [""])
        modest = stage.call_at_once(b, 3, "partner/items", "tenant-8")
        stage.show("KEYS", "interlock:rate:{partner}:*")
        answers = greedy.result()
    for answer in [*answers, *modest]:
        require("200 for each of the thirteen", answer, 200)
    waited = [answer for answer in answers if int(answer.headers["interlock-waited"]) >= 300]
    slowest = max(int(answer.headers["interlock-waited"]) for answer in modest)
    stage.expect(f"{len(waited)} calls of tenant 7 waited for their turn", lambda: len(waited) == 6)
    stage.expect(f"tenant 8 waited for {slowest} ms", lambda: slowest < 300)


def fence(stage: Stage, job: Process) -> int:
    """The fence that the job prints when it starts."""
    lines = stage.until("the job runs", lambda: [line for line in job.lines if line.startswith("importing with")])
    return int(lines[0].split()[-1])


def until_redis_is(stage: Stage, sidecar: Sidecar, up: str, what: str) -> None:
    stage.until(f"sidecar {sidecar.name} {what}", lambda: stage.info(sidecar)["redis_up"] == up)


ACTS: list[tuple[str, Act]] = [
    ("Normal calls", normal_calls),
    ("More than the limit", the_limit),
    ("An outage that answers 200", the_outage),
    ("The recovery", the_recovery),
    ("Please come back in three seconds", retry_after),
    ("Failures", failures),
    ("A sidecar dies", a_death),
    ("An operator steps in", an_operator),
    ("Redis is down", redis_away),
    ("Two hosts, one job", two_hosts),
    ("Two tenants", two_tenants),
]


def require(what: str, answer: Answer, status: int) -> None:
    if answer.status != status:
        raise NotSeen(f"{what}: it was {answer}")


def require_refusal(stage: Stage, answer: Answer) -> None:
    """The sidecar must have refused the call at once, with Retry-After."""
    require("503 by the sidecar", answer, 503)
    if not answer.is_refusal or int(answer.headers.get("retry-after", 0)) < 1 or answer.seconds > 0.5:
        raise NotSeen(f"a refusal at once, with Retry-After: it was {answer}")
    stage.say("seen", "refused at once, with Retry-After")


def between(earlier: Entry, later: Entry) -> float:
    """Seconds between two entries of the history, by the Redis clock."""
    first, second = (int(entry["id"].partition("-")[0]) for entry in (earlier, later))
    return (second - first) / 1000


def close_by_trials(stage: Stage) -> None:
    for _ in range(2):
        require("200 for a trial", stage.call(stage.sidecars["a"]), 200)
    stage.expect_change("closed", "trials")


def calm(stage: Stage) -> None:
    """Waits for the start of an act: the upstream is healthy, the breaker closed and the last window over."""
    stage.upstream.behavior, stage.upstream.page = upstream.GOOD, upstream.UP
    for sidecar in list(stage.sidecars.values()):
        if sidecar.process.poll() is not None:
            stage.start_sidecar(sidecar.name)

    def is_calm() -> bool:
        breaker = stage.breaker()
        if breaker["state"] == "half_open":
            stage.pause(0.2)
            stage.call(stage.sidecars["a"])
        return breaker["state"] == "closed" and not breaker["forced"] and stage.ask("KEYS", "interlock:rate:*") == [""]

    stage.until("everything is calm before the next act", is_calm, 20)
    stage.remember()


def play(chosen: Collection[int], binary: pathlib.Path) -> bool:
    """Plays the chosen acts. Returns whether every expectation was seen."""
    stage = Stage(binary)
    verdicts: dict[str, bool] = {}
    try:
        stage.narrator.headline(
            "A day in the life: a private Redis, two sidecars, and an API whose behavior the demo sets"
        )
        stage.open()
        for number, (title, act) in enumerate(ACTS, 1):
            if number in chosen:
                stage.pause(1)
                stage.narrator.headline(f"{number}. {title}")
                stage.say("you", " ".join((act.__doc__ or "").split()))
                stage.pause(2)
                verdicts[f"{number}. {title}"] = perform(stage, act)
        stage.narrator.headline("The end: everything is stopped")
    except NotSeen as failure:
        stage.say("NOT SEEN", str(failure))
        verdicts["before it began"] = False
    finally:
        # A second Ctrl-C would leave some processes running.
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        stage.close()
    stage.narrator.headline(f"{sum(verdicts.values())} of {len(verdicts)} acts were seen as expected")
    for title, seen in verdicts.items():
        stage.say("seen" if seen else "NOT SEEN", title)
    return all(verdicts.values())


def perform(stage: Stage, act: Act) -> bool:
    try:
        # The recovery follows the outage of the act before it.
        if act is not the_recovery:
            calm(stage)
        act(stage)
        # The last log lines and events are still on their way.
        stage.pause(0.3)
        return True
    except NotSeen as failure:
        stage.say("NOT SEEN", str(failure))
        return False
    finally:
        stage.redis_server.send_signal(signal.SIGCONT)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--act",
        type=int,
        action="append",
        choices=range(1, len(ACTS) + 1),
        metavar="N",
        help="play only this act; may be given several times",
    )
    parser.add_argument("--binary", type=pathlib.Path, default=BINARY, help="the built interlock")
    options = parser.parse_args()
    if not options.binary.exists():
        sys.exit("demo: build first: make build-sidecar")
    if missing := [tool for tool in ("redis-server", "redis-cli", "curl") if not shutil.which(tool)]:
        sys.exit(f"demo: {', '.join(missing)} not found; `make deps` installs what is missing")
    for number in ENDING:
        signal.signal(number, interrupted)
    try:
        return 0 if play(options.act or range(1, len(ACTS) + 1), options.binary.resolve()) else 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
