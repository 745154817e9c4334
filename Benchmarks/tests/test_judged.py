import contextlib
import io
import json
import pathlib
import tempfile
import unittest
from typing import Any

from judged import history, plan
from judged.relay import Resources
from judged.results import Key, Results, keys, markdown, ranking, totals
from judged.settings import PEERS, TOPOLOGIES, settings_lines, unsupported
from rig.servers import ROOT

SECOND = 1_000_000_000


class PlanTest(unittest.TestCase):
    def test_a_seed_and_a_number_decide_the_faults(self) -> None:
        self.assertEqual(plan.plan(7, 3), plan.plan(7, 3))
        self.assertNotEqual(plan.plan(7, 3), plan.plan(8, 3))

    def test_a_server_is_lost_in_each_way_in_turn(self) -> None:
        self.assertEqual([plan.plan(1, number).loss for number in range(4)], [*plan.LOSSES, "killed"])

    def test_a_client_is_stopped_for_longer_than_a_lease(self) -> None:
        for number in range(50):
            stops = [fault.length for fault in plan.plan(1, number).clients if fault.length]
            self.assertEqual(len(stops), 1)
            self.assertGreater(stops[0], plan.TTL_MS / 1000)

    def test_faults_hit_different_clients_before_the_end(self) -> None:
        for number in range(50):
            faults = plan.plan(1, number)
            end = faults.restored_at + plan.AFTERWARDS
            self.assertEqual(len({fault.client for fault in faults.clients}), len(faults.clients))
            self.assertTrue(all(fault.at > 0 and fault.at + fault.length < end for fault in faults.clients))

    def test_a_client_has_the_same_jobs_in_each_run(self) -> None:
        first, second = plan.jobs(1, 2, 3), plan.jobs(1, 2, 3)
        jobs = [first.next() for _ in range(5000)]
        self.assertEqual(jobs, [second.next() for _ in range(5000)])
        self.assertEqual({job.kind for job in jobs}, {"release", "renew", "overstay", "forget"})

    def test_no_two_clients_share_their_own_lock(self) -> None:
        locks = [plan.jobs(1, 2, client) for client in range(plan.CLIENTS)]
        self.assertEqual(len({jobs.own_lock for jobs in locks}), plan.CLIENTS)
        self.assertEqual(plan.jobs(1, 2, 3).own_lock, plan.jobs(1, 2, 3 + plan.CLIENTS).own_lock)


class HistoryTest(unittest.TestCase):
    def test_half_a_line_of_a_killed_client_is_dropped(self) -> None:
        self.assertEqual(history.parse('{"at": 1}\n{"at": '), [{"at": 1}])

    def test_the_open_call_of_a_killed_client_has_no_answer(self) -> None:
        events = [{"at": 1, "what": "acquire", "client": 4}]
        self.assertEqual(history.vanished(events, 9)[0]["what"], "unknown")
        self.assertEqual(history.vanished([*events, {"at": 2, "what": "granted", "client": 4}], 9), [])

    def test_the_history_is_ordered_by_time(self) -> None:
        parts = [[{"at": 1}, {"at": 4}], [{"at": 2}]]
        self.assertEqual([event["at"] for event in history.merged(parts)], [1, 2, 4])

    def test_a_file_ends_with_the_number_of_its_events(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "history.jsonl"
            history.write(path, [{"at": 1, "what": "mended", "fault": 0}], 5)
            lines = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertTrue(lines[0]["rules"]["keepsLocks"])
        self.assertEqual(lines[-1], {"at": 5, "what": "end", "events": 1})

    def test_the_longest_wait_is_that_of_a_grant(self) -> None:
        events = [*wait(1, 0, 3), *wait(2, 1, 2), {"at": 4, "what": "acquire", "client": 3}]
        self.assertEqual(history.longest_wait(in_order(events)), 3000)

    def test_the_wait_of_a_stopped_client_does_not_count(self) -> None:
        stop = [
            {"at": SECOND, "what": "fault", "fault": 1, "reason": "pause", "sidecar": 1},
            {"at": 3 * SECOND, "what": "mended", "fault": 1},
        ]
        self.assertEqual(history.longest_wait(in_order([*wait(1, 0, 4), *wait(2, 0, 2), *stop])), 2000)

    def test_the_time_without_a_grant_begins_with_the_loss(self) -> None:
        # The second grant was requested before the loss and read late.
        events = [*wait(1, 0, 1), *wait(2, 1, 6), *wait(3, 7, 9), *wait(1, 9, 10)]
        self.assertEqual(history.without_grant(in_order(events), 2 * SECOND, 11 * SECOND), 7000)
        self.assertIsNone(history.without_grant(in_order(events), 20 * SECOND, 30 * SECOND))

    def test_the_time_without_a_grant_ends_with_the_part(self) -> None:
        self.assertEqual(history.without_grant(in_order(wait(1, 3, 4)), 2 * SECOND, 20 * SECOND), 16000)

    def test_a_holder_is_notified_of_a_loss_by_a_refused_renewal_or_release(self) -> None:
        events = [
            {"at": 1, "what": "renew", "client": 1, "lease": 5},
            {"at": 2, "what": "refused", "client": 1, "reason": "lost"},
            {"at": 3, "what": "release", "client": 2, "lease": 6},
            {"at": 4, "what": "released", "client": 2},
        ]
        self.assertEqual(history.notified_of_loss(events), {5})

    def test_figures_count_violations_by_invariant(self) -> None:
        findings = [
            ("exclusion", "lock 1: lease 8 of client 2 begins while lease 5 of client 1 has 3.0 ms left"),
            ("exclusion", "lock 1: lease 9 of client 2 begins while lease 7 of client 1 has 3.0 ms left"),
            ("fenced-writes", "lock 1: a stale write of lease 5 of client 1 with fence 3 was accepted after one of"),
            ("fenced-writes", "lock 1: a write of lease 5 of client 1 with fence 3 was refused, although"),
            ("recovery", "sidecar 1 does not serve"),
        ]
        report = {
            "lock_cycles": 10,
            "stale_writes_refused": 0,
            "violation_count": 105,
            "violations": [{"promise": promise, "finding": finding, "at": {}} for promise, finding in findings],
        }
        lost = [
            {"at": 1, "what": "release", "client": 1, "lease": 5},
            {"at": 2, "what": "refused", "client": 1, "reason": "lost"},
        ]
        found = history.figures(report, lost, 0, 0)
        self.assertEqual((found["two_holders"], found["not_notified"], found["stale_writes"]), (2, 1, 1))
        self.assertEqual(found["other_violations"], {"recovery": 1, "fenced-writes": 1})
        self.assertEqual(found["unlisted_violations"], 5)


class ResourceTest(unittest.TestCase):
    def test_a_lower_fence_is_refused_only_if_the_peer_has_fences(self) -> None:
        resources = Resources(1)
        lease: dict[str, Any] = {"client": 1, "lock": 0, "lease": 1}
        self.assertTrue(resources.write({**lease, "fence": 5, "fenced": True}))
        self.assertFalse(resources.write({**lease, "fence": 4, "fenced": True}))
        self.assertTrue(resources.write({**lease, "fence": 4, "fenced": False}))


class ResultsTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = Results(pathlib.Path(folder.name) / "results")

    def test_a_run_takes_every_peer_before_the_next_failover(self) -> None:
        wanted = list(keys(["redis-py", "etcd"], TOPOLOGIES, 2))
        self.assertEqual(wanted, sorted(wanted, key=lambda key: key.number))
        self.assertIn(("redis-py", "sentinel-defaults"), [(key.peer, key.topology) for key in wanted])
        self.assertNotIn(("etcd", "sentinel"), [(key.peer, key.topology) for key in wanted])

    def test_an_interrupted_run_continues_with_the_first_missing_part(self) -> None:
        wanted = list(keys(["redis-py"], ["single"], 3))
        self.results.save(wanted[0], 1, figures(two_holders=0))
        self.results.path(wanted[1]).with_suffix(".unfinished").write_text("{")
        self.assertEqual(self.results.missing(wanted), wanted[1:])
        self.assertEqual(len(self.results.load()), 1)

    def test_results_of_another_seed_are_not_mixed(self) -> None:
        self.results.save(Key(0, "single", "redis-py"), 1, figures(two_holders=0))
        self.assertEqual(self.results.other_seed(2), 1)
        self.assertIsNone(self.results.other_seed(1))

    def test_the_table_adds_up_parts(self) -> None:
        parts = [result("redis-py", 0, two_holders=1, gap=1000.0), result("redis-py", 1, two_holders=2, gap=None)]
        found = totals(parts)["single", "redis-py"]
        self.assertEqual((found["failovers"], found["two_holders"], found["never_granted_again"]), (2, 3, 1))
        self.assertIn("|redis-py `Lock`|no|2|20|3|", markdown(parts))

    def test_a_cell_has_the_figures_of_both_runs_if_they_differ(self) -> None:
        runs = [[result("redis-py", 0, two_holders=holders)] for holders in (1, 2)]
        self.assertIn("|redis-py `Lock`|no|1|10|1 / 2|", markdown(*runs))

    def test_peers_share_a_rank_unless_they_differ_in_kind(self) -> None:
        parts = [
            *(result("redis-py", number, two_holders=3) for number in range(2)),
            *(result("python-redis-lock", number, two_holders=5) for number in range(2)),
            *(result("redsync", number, two_holders=number) for number in range(2)),
            {**result("pottery", 0, two_holders=0), "stale_writes": 1},
            result("etcd", 0, two_holders=0),
            result("interlock", 0, two_holders=0),
        ]
        ranks = [["interlock", "etcd"], ["pottery"], ["redsync"], ["redis-py", "python-redis-lock"]]
        self.assertEqual(ranking(parts, "single"), ranks)

    def test_a_peer_that_granted_nothing_comes_last(self) -> None:
        parts = [{**result("etcd", 0, two_holders=0), "grants": 0}, result("redis-py", 0, two_holders=9)]
        self.assertEqual(ranking(parts, "single"), [["redis-py"], ["etcd"]])

    def test_violations_that_are_not_listed_may_be_pairs_of_holders(self) -> None:
        parts = [{**result("etcd", 0, two_holders=0), "unlisted_violations": 3}, result("redsync", 0, two_holders=0)]
        self.assertEqual(ranking(parts, "single"), [["redsync"], ["etcd"]])

    def test_files_of_another_version_are_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "redis-py.single.000.json").write_text('{"format": 1}')
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as printed:
                Results(pathlib.Path(folder)).load()
        self.assertIn("is not a result of this version", printed.getvalue())

    def test_each_missing_topology_has_a_reason(self) -> None:
        for peer, one in PEERS.items():
            for topology in TOPOLOGIES:
                self.assertEqual(unsupported(peer, topology) is None, topology in one.topologies)


class PageTest(unittest.TestCase):
    def test_the_page_has_the_settings(self) -> None:
        page = " ".join((ROOT / "docs" / "internals" / "peers.md").read_text().split())
        for line in settings_lines():
            self.assertIn(line, page)


def wait(client: int, asked: int, granted: int) -> list[dict[str, Any]]:
    return [
        {"at": asked * SECOND, "what": "acquire", "client": client},
        {"at": granted * SECOND, "what": "granted", "client": client},
    ]


def in_order(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return history.merged([events])


def figures(two_holders: int, gap: float | None = 1.0) -> dict[str, Any]:
    return {
        "grants": 10,
        "two_holders": two_holders,
        "not_notified": 0,
        "lost": 0,
        "stale_writes": 0,
        "stale_writes_refused": 0,
        "never_released": 0,
        "other_violations": {},
        "unlisted_violations": 0,
        "longest_wait_ms": 1.0,
        "without_grant_ms": gap,
    }


def result(peer: str, number: int, two_holders: int, gap: float | None = 1.0) -> dict[str, Any]:
    return {"seed": 1, "number": number, "topology": "single", "peer": peer, **figures(two_holders, gap)}


if __name__ == "__main__":
    unittest.main()
