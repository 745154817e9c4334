"""How much one sidecar holds, what that costs another client, and what happens one step beyond."""

import resource
import socket
import time
from typing import NamedTuple

from rig.bystander import CALLS, PACE, Bystander
from rig.client import Client, encode
from rig.crowd import PING, Crowd
from rig.servers import say, wait_until

CONNECTIONS = 5_000
NAMES = 100_000
WAITERS = 10_000
#: The most leases of linked connections that a sidecar looks after.
LINKED = 100_000
#: The most commands of a connection that are under way.
PIPELINE = 1_024
#: Connections that a sidecar takes besides: the bystander's, and those that look on.
SPARE = 10
#: Files that a sidecar may open which runs out of them, and how many connect to it.
FILES, TOO_MANY = 200, 400
#: Of a core, while it is out of files.
FILES_BOUND = 0.1
#: Milliseconds; longer than anything takes here.
TTL = 600_000
WAIT = 60_000
#: Seconds for which the bystander is watched.
WATCH = 3
CONFIGURATION = """
listen: {{ max_connections: {connections} }}
services: {{}}
"""
EXPLANATION = f"""\
**Capacity**: measured once, not in rounds, on a sidecar each: {CONNECTIONS:,} connections; {NAMES:,} locks of as many names held at
once; {WAITERS:,} connections that wait for one lock. Meanwhile another client, in a process of its own, sends a `PING` and takes and
gives back a lock {1 / PACE:,.0f} times a second at most, and renews a lease that it keeps: its times stand beside those before there was
any burden. One step beyond is the first connection that `max_connections` leaves no place for, the first linked lease too many
({LINKED:,} are looked after), and a connection that asks for a lock {2 * PIPELINE:,} times before it reads: a sidecar takes up
{PIPELINE:,} commands of a connection, and the others once those are answered. Waiters have no other bound, and names have none. A
sidecar *out of files* may open {FILES} of them, and {TOO_MANY} connect. Memory is that of the sidecar's whole process, resident."""


class Span(NamedTuple):
    """Nanoseconds of the monotonic clock."""

    begin: int
    end: int


class Trial:
    """A sidecar of its own, with a bystander."""

    def __init__(self, rig, connections):
        file = rig.folder / f"capacity-{connections}.yaml"
        file.write_text(CONFIGURATION.format(connections=connections))
        self.sidecar = rig.start_sidecar(file)
        self.client = Client(self.sidecar.port)
        self.client.socket.settimeout(30)
        # What comes with the first calls is no burden.
        for number in range(200):
            [token, *_] = self.client.command("LOCK.ACQUIRE", f"warm-{number}", 1000)
            self.client.command("LOCK.RELEASE", f"warm-{number}", token)
        self.idle = self.sidecar.resident_kilobytes()
        self.bystander = Bystander(self.sidecar.port)
        self.calm = watch("before there is any burden")

    def megabytes(self):
        return self.sidecar.resident_kilobytes() / 1024

    def info(self, key):
        return int(self.client.info()[key])

    def error(self, *words):
        """What answers a command that is refused; None: it was not."""
        try:
            self.client.command(*words)
        except RuntimeError as error:
            return str(error)
        return None

    def refusal(self):
        """What the next connection is told; None: it was taken."""
        try:
            door = Client(self.sidecar.port)
            door.command("PING")
            door.close()
        except (RuntimeError, OSError) as error:
            return str(error)
        return None

    def report(self, table, what, burdened, spans):
        """`burdened` is the span that the bystander's figures are of; errors count whenever they came."""
        self.bystander.stop()
        for call in CALLS:
            calm, under = (self.bystander.figures(call, *span) for span in (self.calm, burdened))
            table.add(f"{what}: another client's {call}, p50 and p99", under.text, f"before that {calm.text}",
                      f"{under.p99:,.0f} µs")
        for name, span in spans.items():
            longest = max(self.bystander.figures(call, *span).most for call in CALLS) / 1000
            table.add(f"{what}, {name}: another client's longest call", f"{longest:,.1f} ms", "–", f"{longest:,.1f} ms")
        wrong = len(self.bystander.errors) + self.bystander.lost
        first = f", first {self.bystander.errors[0]}" if self.bystander.errors else ""
        table.add(f"{what}: another client's errors, and leases that it lost", f"{wrong} of {len(self.bystander.turns):,} calls{first}",
                  "–", str(wrong), "0", wrong == 0)


def watch(state):
    say(f"capacity: another client {state}, {WATCH} s …")
    begin = time.monotonic_ns()
    time.sleep(WATCH)
    return Span(begin, time.monotonic_ns())


def measure(rig, table):
    needed = WAITERS + 10 * SPARE
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < needed:
        table.missing("capacity", f"at most {most:,} open files are allowed here, and {needed:,} are needed")
        return
    # The sidecars inherit it.
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    measure_connections(rig, table)
    measure_names(rig, table)
    measure_waiters(rig, table)
    measure_files(rig, table)


def measure_connections(rig, table):
    say(f"capacity: opening {CONNECTIONS:,} connections …")
    trial = Trial(rig, CONNECTIONS + SPARE)
    crowd = Crowd(trial.sidecar.port, CONNECTIONS)
    held = trial.megabytes()
    quiet = watch(f"beside {CONNECTIONS:,} connections")
    say(f"capacity: {CONNECTIONS:,} calls at once …")
    begin = time.monotonic_ns()
    leases = crowd.ask(lambda place: encode("LOCK.ACQUIRE", f"c-{place}", TTL))
    taken = time.monotonic_ns()
    crowd.ask(lambda place: encode("LOCK.RELEASE", f"c-{place}", leases[place][0]))
    stormy, busy = Span(begin, time.monotonic_ns()), trial.megabytes()
    say("capacity: one connection beyond …")
    begin = time.monotonic_ns()
    crowd.join(CONNECTIONS + SPARE - trial.info("connected_clients"))
    told = trial.refusal()
    beyond = Span(begin, time.monotonic_ns())
    alive = sum(reply == b"PONG" for reply in crowd.ask(PING))
    what = f"capacity, {CONNECTIONS:,} connections"
    each = (held * 1024 - trial.idle) / CONNECTIONS
    table.add(f"{what}: resident memory", f"{held:.1f} MB; {busy:.1f} MB after a call of each", f"idle {trial.idle / 1024:.1f} MB",
              f"{each:.1f} KB each")
    length = (taken - stormy.begin) / 1e6
    table.add(f"{what}: LOCK.ACQUIRE of each at once, the last one answered", f"{length:,.0f} ms", "–", f"{length:,.0f} ms")
    trial.report(table, what, quiet, {"calls of all at once": stormy, "one beyond": beyond})
    table.add(f"{what}, one beyond max_connections: it is told", told or "nothing: it was taken", "–",
              "refused" if told else "taken", "refused", bool(told and "max number of clients" in told))
    table.add(f"{what}, one beyond max_connections: of the others, still answered", f"{alive:,} of {len(crowd.sockets):,}", "–",
              f"{alive:,}", "all", alive == len(crowd.sockets))
    crowd.close()
    rig.stop(trial.sidecar.process)


def take_many(crowd, count, prefix, *options):
    """Takes so many locks over the connections, in pipelines; how many it got."""
    connections = len(crowd.sockets)
    share, got = count // connections, 0
    for connection in range(connections):
        words = (encode("LOCK.ACQUIRE", f"{prefix}-{connection}-{number}", TTL, *options) for number in range(share))
        crowd.sockets[connection].sendall(b"".join(words))
        got += sum(reply is not None for _, reply in crowd.answers(share, 30))
    return got


def measure_names(rig, table):
    say(f"capacity: taking {NAMES:,} locks, and as many linked ones …")
    trial = Trial(rig, 10 * SPARE + NAMES // 1000)
    crowd = Crowd(trial.sidecar.port, NAMES // 1000)
    before, redis = trial.sidecar.resident_kilobytes(), redis_memory(rig)
    got = take_many(crowd, NAMES, "plain")
    plain, in_redis = trial.sidecar.resident_kilobytes(), redis_memory(rig)
    quiet = watch(f"while {NAMES:,} locks are held")
    begin = time.monotonic_ns()
    linked = take_many(crowd, LINKED, "linked", "LINKED")
    loaded = trial.sidecar.resident_kilobytes()
    told = trial.error("LOCK.ACQUIRE", "one-more", TTL, "LINKED")
    # The same name: what was refused left nothing behind.
    unlinked = trial.client.command("LOCK.ACQUIRE", "one-more", TTL)
    beyond = Span(begin, time.monotonic_ns())
    what = f"capacity, {NAMES:,} names"
    table.add(f"{what}: locks held at once", f"{got:,}", "–", f"{got:,}", f"{NAMES:,}", got == NAMES)
    table.add(f"{what}: resident memory", f"{plain / 1024:.1f} MB; {loaded / 1024:.1f} MB with {linked:,} linked leases besides",
              f"idle {before / 1024:.1f} MB; Redis {(in_redis - redis) / NAMES:.2f} KB each", f"{(plain - before) / NAMES:.2f} KB each")
    trial.report(table, what, quiet, {"linked ones taken": beyond})
    table.add(f"capacity, {LINKED:,} linked leases, one beyond: it is told", told or "nothing: it was granted", "–",
              "refused" if told else "granted", "refused", bool(told and told.startswith("UNAVAILABLE")))
    table.add(f"capacity, {LINKED:,} linked leases, one beyond: the same lock without LINKED", "granted" if unlinked else "held", "–",
              "granted" if unlinked else "held", "granted", bool(unlinked))
    crowd.close()
    rig.stop(trial.sidecar.process)


def redis_memory(rig):
    """Kilobytes."""
    return int(Client(rig.redis_port).info("memory")["used_memory"]) / 1024


def measure_waiters(rig, table):
    say(f"capacity: {WAITERS:,} connections wait for one lock …")
    trial = Trial(rig, WAITERS + SPARE)
    [token, *_] = trial.client.command("LOCK.ACQUIRE", "crowd", TTL)
    crowd = Crowd(trial.sidecar.port, WAITERS)
    connected = trial.megabytes()
    wish = encode("LOCK.ACQUIRE", "crowd", TTL, "WAIT", WAIT)
    for connection in crowd.sockets:
        connection.sendall(wish)
    wait_until(lambda: trial.info("locks_waiting") == WAITERS, f"the waiting of {WAITERS:,}")
    waiting = trial.megabytes()
    quiet = watch(f"while {WAITERS:,} wait")
    say(f"capacity: one that asks {2 * PIPELINE:,} times beyond them …")
    begin = time.monotonic_ns()
    greedy = Client(trial.sidecar.port)
    greedy.socket.sendall(wish * (2 * PIPELINE))
    time.sleep(0.5)
    taken_up = trial.info("locks_waiting") - WAITERS
    greedy.close()
    wait_until(lambda: trial.info("locks_waiting") == WAITERS, "the end of those whose client left")
    idlers = [Client(trial.sidecar.port) for _ in range(WAITERS + SPARE - trial.info("connected_clients"))]
    told = trial.refusal()
    beyond = Span(begin, time.monotonic_ns())
    say(f"capacity: the lock goes through {WAITERS:,} hands …")
    begin = time.monotonic_ns()
    trial.client.command("LOCK.RELEASE", "crowd", token)
    fences, times = pass_on(crowd)
    drain = Span(begin, time.monotonic_ns())
    what = f"capacity, {WAITERS:,} waiters"
    table.add(f"{what}: resident memory", f"{waiting:.1f} MB", f"idle {trial.idle / 1024:.1f} MB, connected {connected:.1f} MB",
              f"{(waiting - connected) * 1024 / WAITERS:.2f} KB each")
    ordered = [fences[connection.fileno()] for connection in crowd.sockets if connection.fileno() in fences]
    table.add(f"{what}: had the lock in the end", f"{len(ordered):,}", "–", f"{len(ordered):,}", f"{WAITERS:,}", len(ordered) == WAITERS)
    early = sum(left > right for left, right in zip(ordered, ordered[1:]))
    table.add(f"{what}: before one that had asked earlier", f"{early:,}", "–", f"{early:,}", "0", early == 0)
    times.sort()
    middle, late = (times[len(times) * share // 100] / 1e6 for share in (50, 99))
    table.add(f"{what}: release to next grant, p50 and p99", f"{middle:.2f} and {late:.2f} ms",
              f"all within {(drain.end - drain.begin) / 1e9:.1f} s", f"{late:.2f} ms")
    trial.report(table, what, quiet, {"beyond": beyond, "lock going round": drain})
    table.add(f"{what}, one connection that asks {2 * PIPELINE:,} times: taken up", f"{taken_up:,}", "–", f"{taken_up:,}",
              f"≤ {PIPELINE:,}", 0 < taken_up <= PIPELINE)
    table.add(f"{what}, one connection beyond max_connections: it is told", told or "nothing: it was taken", "–",
              "refused" if told else "taken", "refused", bool(told and "max number of clients" in told))
    for client in idlers:
        client.close()
    crowd.close()
    rig.stop(trial.sidecar.process)


def pass_on(crowd):
    """Each waiter gives the lock back as soon as it has it: their fences, and nanoseconds from a release to the next grant."""
    fences, times, released = {}, [], None
    for number, reply in crowd.answers(2 * WAITERS, WAIT // 1000):
        if not isinstance(reply, list):
            # Of a release; or nil, for one that waited in vain.
            continue
        now = time.monotonic_ns()
        if released:
            times.append(now - released)
        fences[number] = reply[1]
        crowd.members[number][0].sendall(encode("LOCK.RELEASE", "crowd", reply[0]))
        released = time.monotonic_ns()
    return fences, times


def measure_files(rig, table):
    say(f"capacity: {TOO_MANY} connections to a sidecar that may open {FILES} files …")
    sidecar = rig.start_sidecar()
    client = Client(sidecar.port)
    resource.prlimit(sidecar.process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
    callers = [socket.create_connection(("127.0.0.1", sidecar.port), timeout=5) for _ in range(TOO_MANY)]
    time.sleep(0.5)
    before, begin = sidecar.processor_seconds(), time.monotonic()
    time.sleep(1.5)
    share = (sidecar.processor_seconds() - before) / (time.monotonic() - begin)
    lease = client.command("LOCK.ACQUIRE", "out-of-files", TTL)
    for caller in callers:
        caller.close()
    wait_until(lambda: Client(sidecar.port).command("PING"), "an answer to a new connection, once there are files again")
    rig.stop(sidecar.process)
    what = "capacity, out of files"
    table.add(f"{what}: share of a core", f"{share:.0%}", "–", f"{share:.0%}", f"≤ {FILES_BOUND:.0%}", share <= FILES_BOUND)
    table.add(f"{what}: a client that was there before", "served" if lease else "refused", "–", "served" if lease else "refused",
              "served", bool(lease))
