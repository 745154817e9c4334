"""Tests the judge with histories made by hand. Times are in milliseconds."""

import contextlib
import io
import json
import pathlib
import random
import tempfile
import unittest
import unittest.mock
from collections.abc import Callable
from typing import Any

import histories
import lies
import locks
import run
import search
from search import Operation, Search

Line = dict[str, Any]


def acquire(client: int, at: int, ttl: int = 1000, wait: int = 0, lock: int = 0, ok: bool = False) -> Line:
    joint = {"ok": True} if ok else {}
    mode = {"what": "acquire", "mode": "exclusive", "ttl": ttl, "wait": wait}
    return {"at": at, "client": client, "sidecar": 0, "lock": lock} | mode | joint


def granted(client: int, at: int, lease: int, fence: int, valid: int = 980) -> Line:
    return {"at": at, "what": "granted", "client": client, "lease": lease, "fence": fence, "valid": valid}


def use(what: str, client: int, at: int, lease: int, ttl: int | None = None) -> Line:
    length = {} if ttl is None else {"ttl": ttl}
    return {"at": at, "what": what, "client": client, "sidecar": 0, "lock": 0, "lease": lease} | length


def ended(what: str, client: int, at: int, **fields: object) -> Line:
    return {"at": at, "what": what, "client": client} | fields


def refused(client: int, at: int, reason: str = "held") -> Line:
    return ended("refused", client, at, reason=reason)


def fault(number: int, begin: int, end: int, kind: str, sidecar: int | None = None) -> list[Line]:
    where = {} if sidecar is None else {"sidecar": sidecar}
    return [
        {"at": begin, "what": "fault", "fault": number, "reason": kind} | where,
        {"at": end, "what": "mended", "fault": number},
    ]


def forced(at: int, state: str | None = None, until: int | None = None) -> Line:
    line: Line = {"at": at, "what": "forced", "service": 0}
    if state:
        line["state"] = state
    return line if until is None else line | {"until": until * locks.MILLISECOND}


def breaker(at: int, state: str, generation: int, until: int | None = None) -> Line:
    line = {"at": at, "what": "breaker", "sidecar": 0, "service": 0, "state": state, "generation": generation}
    return line if until is None else line | {"until": until * locks.MILLISECOND}


def permit(client: int, at: int) -> Line:
    return {"at": at, "what": "permit", "client": client, "sidecar": 0, "service": 0, "wait": 0}


def verdict(*lines: Line, late: float | None = None) -> run.Verdict:
    history = histories.History("test", 0, ["payments"])
    ordered = sorted(lines, key=lambda line: line["at"])
    histories.collect(history, [line | {"at": line["at"] * locks.MILLISECOND} for line in ordered])
    return run.judge(history, None if late is None else int(late * 1e9))


class Case(unittest.TestCase):
    def fits(self, *lines: Line, late: float | None = None) -> run.Verdict:
        found = verdict(*lines, late=late)
        self.assertEqual(found.problems, [])
        return found

    def contradicts(self, words: str, *lines: Line, late: float | None = None) -> None:
        problems = verdict(*lines, late=late).problems
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(words, problems[0])


FIRST = [acquire(1, 0), granted(1, 10, lease=1, fence=5)]
RELEASE = [use("release", 1, 100, 1), ended("released", 1, 110)]


class Exclusion(Case):
    def test_one_holder_after_the_other_fits(self) -> None:
        found = self.fits(*FIRST, *RELEASE, acquire(2, 120), granted(2, 130, lease=2, fence=6))
        self.assertEqual((found.judged, found.lock_calls), (3, 3))

    def test_two_holders_at_once_do_not_fit(self) -> None:
        self.contradicts("lease 2 fence 6", *FIRST, acquire(2, 50), granted(2, 60, lease=2, fence=6), *RELEASE)

    def test_a_grant_during_the_release_fits(self) -> None:
        self.fits(*FIRST, *RELEASE, acquire(2, 90), granted(2, 105, lease=2, fence=6))

    def test_the_end_of_a_lease_frees_the_lock(self) -> None:
        self.fits(*FIRST, acquire(2, 990), granted(2, 999, lease=2, fence=6))
        self.contradicts("lease 1 with fence 5", *FIRST, acquire(2, 985), granted(2, 995, lease=2, fence=6))

    def test_a_renewal_moves_the_end(self) -> None:
        renewal = [use("renew", 1, 500, 1, ttl=1000), ended("renewed", 1, 510, valid=980)]
        self.contradicts("lease 2", *FIRST, *renewal, acquire(2, 1100), granted(2, 1110, lease=2, fence=6))
        self.fits(*FIRST, *renewal, acquire(2, 1500), granted(2, 1510, lease=2, fence=6))

    def test_a_shorter_renewal_without_an_answer_may_end_the_lease(self) -> None:
        renewal = [use("renew", 1, 100, 1, ttl=200), ended("unknown", 1, 110, reason="reset")]
        self.fits(*FIRST, *renewal, acquire(2, 310), granted(2, 320, lease=2, fence=6))

    def test_a_release_without_an_answer_may_take_effect_later(self) -> None:
        release = [use("release", 1, 100, 1), ended("unknown", 1, 110, reason="reset")]
        self.fits(*FIRST, *release, acquire(2, 300), granted(2, 310, lease=2, fence=6))
        self.contradicts("lease 2", *FIRST, *release, acquire(2, 50), granted(2, 60, lease=2, fence=6))

    def test_a_promised_validity_counts(self) -> None:
        first = [acquire(1, 0), granted(1, 10, lease=1, fence=5, valid=3000)]
        self.contradicts("lease 2", *first, acquire(2, 1500), granted(2, 1510, lease=2, fence=6))


class Fences(Case):
    def test_a_fence_that_falls_does_not_fit(self) -> None:
        self.contradicts("fence 4", *FIRST, *RELEASE, acquire(2, 120), granted(2, 130, lease=2, fence=4))

    def test_an_equal_fence_does_not_fit(self) -> None:
        self.contradicts("fence 5", *FIRST, *RELEASE, acquire(2, 120), granted(2, 130, lease=2, fence=5))

    def test_a_repeated_call_of_an_owner_keeps_its_fence(self) -> None:
        self.fits(*FIRST, acquire(1, 50), granted(1, 60, lease=1, fence=5))

    def test_two_clients_cannot_hold_the_same_lease(self) -> None:
        self.contradicts("client 2", *FIRST, acquire(2, 50), granted(2, 60, lease=1, fence=5))

    def test_a_fence_of_zero_is_a_fence(self) -> None:
        first = [acquire(1, 0), granted(1, 10, lease=1, fence=0)]
        renewal = [use("renew", 1, 20, 1, ttl=1000), ended("renewed", 1, 30, valid=980)]
        self.fits(*first, *renewal, acquire(1, 50), granted(1, 60, lease=1, fence=0))

    def test_concurrent_grants_are_ordered_by_their_fences(self) -> None:
        waiting = [acquire(2, 50, wait=900), acquire(3, 51, wait=900), granted(2, 400, lease=2, fence=9)]
        middle = [use("release", 3, 200, 3), ended("released", 3, 210)]
        self.fits(*FIRST, *RELEASE, *waiting, granted(3, 150, lease=3, fence=8), *middle)
        self.contradicts("lease 2", *FIRST, *RELEASE, *waiting, granted(3, 150, lease=3, fence=10), *middle)


class Releases(Case):
    def test_another_clients_release_that_takes_effect_does_not_fit(self) -> None:
        second = [acquire(2, 1100), granted(2, 1110, lease=2, fence=6)]
        self.contradicts("lease 1", *FIRST, *second, use("release", 1, 1200, 1), ended("released", 1, 1210))
        self.fits(*FIRST, *second, use("release", 1, 1200, 1), refused(1, 1210, "lost"))

    def test_a_lease_that_was_never_granted_cannot_be_released(self) -> None:
        release = [use("release", 2, 100, 7), ended("released", 2, 110)]
        self.contradicts("lease 7", *release)
        self.fits(acquire(2, 0), ended("unknown", 2, 50, reason="reset"), *release)

    def test_a_valid_lease_is_not_lost(self) -> None:
        self.contradicts("reason lost", *FIRST, use("renew", 1, 100, 1, ttl=1000), refused(1, 110, "lost"))

    def test_a_linked_lease_ends_once_its_client_has_left(self) -> None:
        linked = {"what": "linked", "client": 1, "lock": 0, "lease": 1, "ttl": 1000}
        links = [linked | {"at": 20, "reason": "began"}, linked | {"at": 3000, "reason": "left"}]
        lost = [use("release", 1, 2990, 1), refused(1, 3000, "lost")]
        self.contradicts(
            "reason lost",
            *FIRST,
            links[0],
            linked | {"at": 900, "reason": "left"},
            *[use("release", 1, 890, 1), refused(1, 900, "lost")],
        )
        self.fits(*FIRST, *links, *lost)
        self.fits(*FIRST, *links, acquire(2, 2000), refused(2, 2010), acquire(2, 3001), granted(2, 3005, 2, 6))


class Refusals(Case):
    def test_a_held_lock_is_refused(self) -> None:
        self.assertEqual(self.fits(*FIRST, acquire(2, 50), refused(2, 60), *RELEASE).judged, 3)

    def test_a_free_lock_is_not_refused(self) -> None:
        self.contradicts("reason held", *FIRST, *RELEASE, acquire(2, 200), refused(2, 210))

    def test_an_ended_lease_explains_no_refusal(self) -> None:
        self.contradicts("reason held", *FIRST, acquire(2, 1020), refused(2, 1030))

    def test_an_unanswered_acquire_explains_a_later_refusal(self) -> None:
        unanswered = [acquire(3, 150), ended("unknown", 3, 160, reason="reset")]
        self.fits(*FIRST, *RELEASE, *unanswered, acquire(2, 200), refused(2, 210))

    def test_an_unanswered_acquire_explains_only_one_stay(self) -> None:
        unanswered = [acquire(3, 150), ended("unknown", 3, 160, reason="reset")]
        refusal = [*FIRST, *RELEASE, *unanswered, acquire(2, 200), refused(2, 210)]
        stay = [acquire(4, 220), granted(4, 230, 2, 6), use("release", 4, 240, 2), ended("released", 4, 250)]
        self.contradicts("reason held", *refusal, *stay, acquire(2, 300), refused(2, 310))

    def test_an_unanswered_acquire_explains_nothing_before_its_request(self) -> None:
        later = [acquire(3, 220), ended("unknown", 3, 230, reason="reset")]
        self.contradicts("reason held", *FIRST, *RELEASE, acquire(2, 200), refused(2, 210), *later)

    def test_late_limits_what_an_unanswered_acquire_explains(self) -> None:
        unanswered = [acquire(3, 150), ended("unknown", 3, 160, reason="reset")]
        refusal = [acquire(2, 4000), refused(2, 4010)]
        self.fits(*unanswered, *refusal)
        self.contradicts("reason held", *unanswered, *refusal, late=2)
        self.fits(*unanswered, *fault(1, 155, 1000, "pause", 0), *refusal, late=2)

    def test_a_waiting_client_explains_a_refusal(self) -> None:
        waiter = [acquire(3, 50, wait=20), refused(3, 70)]
        found = self.fits(*FIRST, *RELEASE, *waiter, acquire(2, 200), refused(2, 210))
        self.assertEqual(found.skipped["refusals that a waiting client or another lock explains"], 1)


class Losses(Case):
    def test_a_loss_of_data_excuses_two_holders(self) -> None:
        wipe = fault(1, 20, 30, "redis-wipe")
        found = self.fits(*FIRST, *wipe, acquire(2, 50), granted(2, 60, lease=2, fence=6))
        self.assertEqual(found.judged, 2)

    def test_fences_rise_across_a_loss_unless_the_clock_jumps_too(self) -> None:
        lower = [*FIRST, *fault(1, 20, 30, "redis-wipe"), acquire(2, 50), granted(2, 60, lease=2, fence=4)]
        self.contradicts("fence 4", *lower)
        self.fits(*lower, *fault(2, 40, 45, "clock"))

    def test_leases_after_a_loss_are_judged(self) -> None:
        wipe = fault(1, 20, 30, "redis-wipe")
        pair = [acquire(2, 50), granted(2, 60, lease=2, fence=6), acquire(3, 70), granted(3, 80, lease=3, fence=7)]
        self.contradicts("lease 3", *FIRST, *wipe, *pair)

    FAILOVER = fault(1, 500, 600, "failover")

    def test_an_unknown_lease_explains_refusals_until_the_longest_ttl_is_over(self) -> None:
        found = self.fits(*FIRST, *self.FAILOVER, acquire(2, 1500), refused(2, 1510))
        self.assertEqual((found.judged, found.skipped[locks.SURVIVED]), (1, 1))
        self.contradicts("reason held", *FIRST, *self.FAILOVER, acquire(2, 1620), refused(2, 1630))

    def test_a_clock_or_other_software_may_keep_an_unknown_lease(self) -> None:
        for kind in ("clock", "foreign-lock"):
            found = self.fits(*FIRST, *fault(1, 500, 600, kind), acquire(2, 9000), refused(2, 9010))
            self.assertEqual((found.judged, found.skipped[locks.SURVIVED]), (1, 1), kind)

    def test_renewals_and_links_may_keep_a_lease_across_a_failover(self) -> None:
        refusal = [acquire(2, 2500), refused(2, 2510)]
        renewal = [use("renew", 1, 1500, 1, ttl=2000), ended("renewed", 1, 1510, valid=1900)]
        self.fits(
            *FIRST,
            use("renew", 1, 400, 1, ttl=1000),
            ended("renewed", 1, 410, valid=980),
            *self.FAILOVER,
            *renewal,
            *refusal,
        )
        self.contradicts("lease 2", *FIRST, *self.FAILOVER, *renewal, acquire(2, 1600), granted(2, 1610, 2, 6))
        unanswered = [use("renew", 1, 490, 1, ttl=1000), ended("unknown", 1, 510, reason="reset")]
        self.fits(*FIRST, *unanswered, *self.FAILOVER, *refusal)
        linked = {"what": "linked", "client": 1, "lock": 0, "lease": 1, "ttl": 1000, "reason": "began", "at": 20}
        self.fits(*FIRST, linked, *self.FAILOVER, *refusal)

    def test_a_repeated_grant_keeps_its_fence_across_a_failover(self) -> None:
        later = [acquire(2, 200), granted(2, 210, 2, 7), use("release", 2, 220, 2), ended("released", 2, 230)]
        again = [acquire(1, 650), granted(1, 660, lease=1, fence=5)]
        self.fits(*FIRST, *RELEASE, *later, *self.FAILOVER, *again)
        other = [acquire(3, 650), granted(3, 660, lease=1, fence=5)]
        self.contradicts("fence 5", *FIRST, *RELEASE, *later, *self.FAILOVER, *other)

    def test_a_release_that_a_failover_interrupts_may_be_undone(self) -> None:
        release = [use("release", 1, 490, 1), ended("released", 1, 610)]
        self.fits(*FIRST, *release, *self.FAILOVER, acquire(2, 900), refused(2, 910))

    def test_dozens_of_waiters_across_a_failover_are_decided(self) -> None:
        waiters = [acquire(client, client, wait=9000, ttl=100) for client in range(10, 50)]
        grants = [granted(client, 700 + client, client, client, valid=90) for client in range(10, 50)]
        later = [acquire(1, 30_000), granted(1, 30_010, lease=1, fence=100)]
        found = self.fits(*waiters, *self.FAILOVER, *grants, *later)
        self.assertEqual((found.judged, found.skipped["during a loss of data or a clock jump"]), (1, 40))
        self.assertLess(found.most, 100)
        self.contradicts(
            "lease 2",
            *waiters,
            *self.FAILOVER,
            *grants,
            *later,
            acquire(2, 30_020),
            granted(2, 30_030, lease=2, fence=101),
        )

    def test_a_refusal_of_an_unnamed_lease_is_not_judged(self) -> None:
        found = self.fits(*FIRST, use("release", 2, 50, 9), refused(2, 60, "lost"))
        self.assertEqual((found.judged, found.skipped[locks.UNNAMED]), (1, 1))

    def test_several_primaries_are_skipped_visibly(self) -> None:
        found = self.fits(*FIRST, *fault(1, 20, 30, "reshard"), acquire(2, 50), granted(2, 60, lease=2, fence=4))
        self.assertIn("not judged: 2 lock operations and all forced states: several primaries", list(found.lines()))


class ForcedStates(Case):
    OPEN = (forced(0), forced(10, "open", until=5000), breaker(12, "open", 7, until=5001))
    CLOSED = (forced(0), forced(10, "closed"), breaker(12, "closed", 7))

    def test_a_followed_state_fits(self) -> None:
        found = self.fits(*self.OPEN, permit(1, 100), ended("refused", 1, 101, reason="open", retry=5))
        self.assertEqual(found.bound, 1)

    def test_an_ignored_state_does_not_fit(self) -> None:
        passed = ended("permitted", 1, 101, permit=1, state="closed")
        self.contradicts("payments at sidecar 0", *self.OPEN, permit(1, 100), passed)
        self.contradicts("was refused", *self.CLOSED, permit(1, 100), ended("refused", 1, 101, reason="open", retry=5))

    def test_only_decisions_are_counted(self) -> None:
        found = self.fits(*self.OPEN, permit(1, 100), ended("refused", 1, 101, reason="open"), breaker(200, "open", 8))
        self.assertEqual((found.decisions, found.bound), (1, 1))

    def test_a_call_before_the_report_may_see_either_state(self) -> None:
        self.fits(*self.OPEN, permit(1, 5), ended("permitted", 1, 20, permit=1, state="closed"))

    def test_a_report_of_another_state_does_not_fit(self) -> None:
        self.contradicts("generation 8", *self.OPEN, breaker(3000, "closed", 8))
        self.fits(*self.OPEN, breaker(3000, "closed", 6))

    def test_an_end_a_request_and_a_death_free_the_breaker(self) -> None:
        later = [permit(1, 4900), ended("permitted", 1, 4901, permit=1, state="closed")]
        self.fits(*self.OPEN, *later)
        early = [permit(1, 100), ended("permitted", 1, 101, permit=1, state="closed")]
        self.fits(*self.OPEN, forced(50), *early)
        self.fits(*self.OPEN, *fault(1, 50, 60, "kill", 0), *early)


class Searching(unittest.TestCase):
    def test_many_concurrent_calls_need_few_configurations(self) -> None:
        calls = [acquire(client, client, wait=9000, ttl=100) for client in range(30)]
        answers = [granted(client, 100 + 110 * client, client, client + 1, valid=90) for client in range(30)]
        self.assertEqual(verdict(*calls, *answers).problems, [])
        self.assertLess(verdict(*calls, *answers).most, 100)

    def test_a_history_with_too_many_orders_is_undecided(self) -> None:
        model = locks.LockModel((locks.FREE, 0, frozenset()))
        model.terms = [locks.Term(each, 1, 0, (0, 0), (0, 0), 0, 9, may_repeat=True) for each in range(6)]
        operations = [Operation("granted", each, (0, each), (5, each), each, False) for each in range(6)]
        self.assertIsNone(Search(model, operations).run())
        with unittest.mock.patch.object(search, "MAXIMUM", 20), self.assertRaises(search.Undecided):
            Search(model, operations).run()

    def test_undecided_calls_are_counted_once(self) -> None:
        lines = [*FIRST, acquire(2, 50), refused(2, 60), *fault(1, 500, 600, "failover"), acquire(3, 1700)]
        with unittest.mock.patch.object(Search, "run", side_effect=search.Undecided):
            found = verdict(*lines)
        self.assertEqual((found.judged, found.skipped.total(), found.lock_calls), (0, 3, 3))
        self.assertEqual(found.skipped["on a lock with too many possible orders"], 2)


class Program(unittest.TestCase):
    def run_program(self, *arguments: str, main: Callable[[list[str]], int] = run.main) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(list(arguments))
            except SystemExit as stop:
                code = int(str(stop.code))
        return code, out.getvalue(), err.getvalue()

    def write(self, folder: str, lines: list[Line], events: int | None = None) -> str:
        header = {"history": 1, "rules": {"services": [], "sidecars": 1}}
        end = {"at": 10**12, "what": "end", "events": len(lines) if events is None else events}
        path = pathlib.Path(folder) / "history.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in [header, *lines, end]))
        return str(path)

    def test_exit_codes_tell_what_happened(self) -> None:
        scaled = [
            line | {"at": line["at"] * locks.MILLISECOND} for line in [*FIRST, acquire(2, 50), granted(2, 60, 2, 6)]
        ]
        with tempfile.TemporaryDirectory() as folder:
            code, out, _ = self.run_program(self.write(folder, scaled[:2]))
            self.assertEqual((code, "no contradiction in 1 histories" in out), (0, True))
            code, out, _ = self.run_program(self.write(folder, scaled))
            self.assertEqual((code, "not linearizable" in out), (1, True))
            code, _, err = self.run_program(self.write(folder, scaled, events=9))
            self.assertEqual((code, "cut off" in err), (1, True))
            self.assertEqual(self.run_program("--seeds", "0")[0], 64)
            code, _, err = self.run_program("--simulate", folder + "/simulate")
            self.assertEqual((code, "is missing" in err), (69, True))

    def test_a_history_without_judged_calls_fails(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            code, out, _ = self.run_program(self.write(folder, []))
            self.assertEqual((code, "nothing judged in 1 histories" in out), (1, True))

    def test_damaged_lines_are_reported(self) -> None:
        damaged: list[Line] = [
            {key: value for key, value in line.items() if key != name}
            for line, name in [
                (acquire(1, 0), "ttl"),
                (acquire(1, 0), "lock"),
                (use("release", 1, 0, 1), "lock"),
                (granted(1, 0, 1, 1), "fence"),
                (acquire(1, 0), "what"),
                (acquire(1, 0), "at"),
            ]
        ]
        damaged += [acquire(1, 0) | {"ttl": "1000"}, permit(1, 0)]
        with tempfile.TemporaryDirectory() as folder:
            for line in damaged:
                path = self.write(folder, [line])
                bench = pathlib.Path(path)
                for arguments, main in [((path,), run.main), ((path, "--bench", str(bench)), lies.main)]:
                    code, _, err = self.run_program(*arguments, main=main)
                    self.assertEqual((code, "history.jsonl:2: " in err), (1, True), (line, err))
            for rules in ("", ',"rules":{}', ',"rules":[]', ',"rules":{"services":[1]}'):
                path = self.write(folder, [])
                end = pathlib.Path(path).read_text(encoding="utf-8").split("\n")[1]
                pathlib.Path(path).write_text('{"history":1' + rules + "}\n" + end, encoding="utf-8")
                code, _, err = self.run_program(path)
                self.assertEqual((code, "history.jsonl:1: " in err), (1, True), err)

    def test_only_newlines_separate_lines(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(self.write(folder, [{"at": 0, "what": "note", "reason": "one"}]))
            text = path.read_text(encoding="utf-8").replace("one", "a\u2028b\u0085c")
            path.write_text(text, encoding="utf-8")
            self.assertEqual(histories.read(path).events[0].line["reason"], "a\u2028b\u0085c")

    def test_programs_may_be_named_without_a_slash(self) -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            history = self.write(folder, [])
            for name, text in (("simulate", f'cat {history} > "$6"'), ("bench", "echo no violations")):
                pathlib.Path(name).write_text("#!/bin/sh\n" + text + "\n", encoding="utf-8")
                pathlib.Path(name).chmod(0o755)
            code, out, _ = self.run_program("--seeds", "1", "--simulate", "simulate")
            self.assertEqual((code, "nothing judged" in out), (1, True))
            code, out, err = self.run_program(history, "--bench", "bench", main=lies.main)
            self.assertEqual((code, "not planted: second_holder" in err), (1, True), err)

    def test_lies_about_a_plain_history_are_noticed(self) -> None:
        lines = [*FIRST, *RELEASE, acquire(2, 120), granted(2, 130, 2, 6), acquire(3, 1300), granted(3, 1310, 3, 7)]
        lines += [acquire(4, 1320), refused(4, 1330), use("release", 3, 1400, 3), ended("released", 3, 1410)]
        self.assertEqual(verdict(*lines).problems, [])
        scaled = [line | {"at": line["at"] * locks.MILLISECOND} for line in lines]
        planted = 0
        for lie in lies.LIES:
            for changed in lie(scaled, lies.Calls(scaled, random.Random(1))):
                history = histories.History("test", 0, [])
                histories.collect(history, changed)
                self.assertNotEqual(run.judge(history).problems, [], lie.__name__)
                planted += 1
        self.assertGreaterEqual(planted, 10)


if __name__ == "__main__":
    unittest.main()
