"""Tests the layout check with small trees."""

import unittest
from pathlib import PurePosixPath

import check
import swift


def tree(files: dict[str, str], *targets: str) -> check.Tree:
    names = targets or ("House",)
    return check.Tree([check.Target(name, PurePosixPath("Sources", name)) for name in names], files)


class ReadingTests(unittest.TestCase):
    def names(self, text: str) -> list[str]:
        return [mention.name for mention in swift.read(text, frozenset({"House"})).mentions]

    def test_comments_and_literals_name_no_types(self) -> None:
        text = '''// Lock
        /* Lock /* Lock */ Lock */
        let a = "Lock \\" Lock"; let b = #"Lock " Lock"#
        let c = """
            Lock "Lock"
            """
        let d = #/Lock "/#
        let e = Queue()
        '''
        self.assertEqual(self.names(text), ["Queue"])

    def test_interpolated_code_names_types(self) -> None:
        self.assertEqual(self.names('let a = "of \\(Lock(name: "Door").owner) and Wall"'), ["Lock"])
        self.assertEqual(self.names('let a = #"\\(Door) \\#(Lock.first) Wall"#'), ["Lock"])

    def test_members_are_mentions_only_after_a_module_name(self) -> None:
        self.assertEqual(self.names("let a: Lock.State = .Open; let b: House.Queue"), ["Lock", "House", "Queue"])

    def test_imports_are_not_mentions(self) -> None:
        self.assertEqual(self.names("import House\npublic import struct Wall.Door\nlet a: Lock"), ["Lock"])

    def test_line_numbers_match_the_file(self) -> None:
        source = swift.read('/* \n */ let a = """\n \\(1)\n """\nstruct Lock {}\n')
        self.assertEqual([declared.line for declared in source.declarations], [5])
        self.assertEqual(source.lines, 5)

    def test_declarations_are_distinguished_from_nested_and_private_ones(self) -> None:
        source = swift.read(
            """
            @available(*, deprecated) public final class Lock { class func make() {}; enum State { case held } }
            fileprivate struct Hidden {}
            extension Lock { struct Queue {} }
            package typealias Locks = [Lock]
            func f() { struct Local {} }
            """
        )
        self.assertEqual(
            [(declared.name, declared.only_in_file) for declared in source.declarations],
            [("Lock", False), ("Hidden", True), ("Locks", False)],
        )
        self.assertEqual(source.nested["Lock"], {"State", "Queue"})

    def test_a_mention_knows_the_types_around_it(self) -> None:
        source = swift.read("extension Lock.Queue { func f() { if true { State() } } }")
        self.assertEqual(source.mentions[-1], swift.Mention("State", 1, ("Queue",)))


class CycleTests(unittest.TestCase):
    def cycles(self, files: dict[str, str], *targets: str) -> list[tuple[str, ...]]:
        return [(cycle.folder, *cycle.members) for cycle in tree(files, *targets).cycles()]

    def test_folders_may_depend_one_way(self) -> None:
        files = {
            "Sources/House/Locks/Lock.swift": "struct Lock { let clock: Clock }",
            "Sources/House/Time/Clock.swift": "struct Clock {}",
            "Sources/House/House.swift": "struct House { let lock: Lock, clock: Clock }",
        }
        self.assertEqual(self.cycles(files), [])

    def test_two_folders_that_depend_on_each_other_are_a_cycle(self) -> None:
        files = {
            "Sources/House/Locks/Lock.swift": "struct Lock { let clock: Clock }",
            "Sources/House/Time/Clock.swift": "struct Clock {}\nextension Lock {}",
        }
        (cycle,) = tree(files).cycles()
        self.assertEqual(
            cycle.describe(3).splitlines(),
            [
                "Sources/House: Locks → Time → Locks",
                "  Locks → Time, 1 times",
                "    Sources/House/Locks/Lock.swift:1 names Clock",
                "  Time → Locks, 1 times",
                "    Sources/House/Time/Clock.swift:2 names Lock",
            ],
        )

    def test_a_longer_cycle_is_found(self) -> None:
        files = {
            "Sources/House/A/A.swift": "struct A { let b: B }",
            "Sources/House/B/B.swift": "struct B { let c: C }",
            "Sources/House/C/C.swift": "struct C { let a: A }",
        }
        self.assertEqual(self.cycles(files), [("Sources/House", "A", "B", "C")])

    def test_a_folder_may_not_name_a_type_of_the_targets_own_files(self) -> None:
        files = {
            "Sources/House/House.swift": "struct House {}",
            "Sources/House/Locks/Lock.swift": "struct Lock { let house: House }",
        }
        self.assertEqual(self.cycles(files), [("Sources/House", "Locks", check.LOOSE)])

    def test_loose_files_of_a_subfolder_count_as_a_sibling_folder(self) -> None:
        files = {
            "Sources/House/Locks/Lock.swift": "struct Lock {}",
            "Sources/House/Locks/Queues/Queue.swift": "struct Queue { let lock: Lock }",
        }
        self.assertEqual(self.cycles(files), [])
        files["Sources/House/Locks/Lock.swift"] = "struct Lock { var queue: [Queue] }"
        self.assertEqual(self.cycles(files), [("Sources/House/Locks", check.LOOSE, "Queues")])

    def test_a_nested_type_hides_one_of_the_same_name(self) -> None:
        files = {
            "Sources/House/Locks/Lock.swift": "struct Lock { enum State {} }\nstruct Owner { let clock: Clock }",
            "Sources/House/Locks/Lock+State.swift": "extension Lock { var state: State { fatalError() } }",
            "Sources/House/Time/Clock.swift": "struct Clock {}\nstruct State { let owner: Int }",
            "Sources/House/Time/Wall.swift": "struct Wall<Owner> { let owner: Owner }",
        }
        self.assertEqual(self.cycles(files), [])

    def test_targets_are_checked_separately(self) -> None:
        files = {
            "Sources/House/Locks/Lock.swift": "struct Lock { let clock: Clock }",
            "Sources/House/Time/Time.swift": "struct Time {}",
            "Sources/Garden/Time/Clock.swift": "struct Clock { let lock: Lock }",
        }
        self.assertEqual(self.cycles(files, "House", "Garden"), [])


class OtherCheckTests(unittest.TestCase):
    def test_paths_that_differ_only_in_case_are_reported_once(self) -> None:
        paths = ["Sources/Interlock/Lock.swift", "Sources/interlock/lock.swift", "Sources/Other.swift"]
        self.assertEqual(check.case_conflicts(paths), ["Sources/Interlock and Sources/interlock differ only in case"])
        self.assertEqual(
            check.case_conflicts(["a/B.swift", "a/b.swift"]), ["a/B.swift and a/b.swift differ only in case"]
        )

    def test_a_shared_type_must_be_in_a_file_of_its_name(self) -> None:
        users = {f"Sources/Interlock/{name}.swift": "let a: Lock; let b: Take; let c: Lease" for name in ("A", "B")}
        files = {
            "Sources/Interlock/Door.swift": "struct Door {}\nstruct Lock {}\nprivate struct Take {}",
            "Sources/Interlock/LockCommands.swift": "struct Lease {}",
        }
        found = tree(files | users, "Interlock").misplaced_types()
        self.assertEqual(found, ["Sources/Interlock/Door.swift:2 declares Lock, which 2 other files name"])

    def test_duplicate_type_names_are_found_across_targets(self) -> None:
        files = {
            "Sources/House/Lock.swift": "struct Lock {}\nenum Door { struct Key {} }",
            "Sources/Garden/Lock.swift": "enum Lock {}\nprivate struct Door {}\nstruct Key {}",
        }
        self.assertEqual(
            tree(files, "House", "Garden").duplicate_names(),
            ["Lock is declared at Sources/Garden/Lock.swift:1, Sources/House/Lock.swift:1"],
        )

    def test_long_files_are_found(self) -> None:
        files = {"Sources/House/A.swift": "\n" * 700, "Sources/House/B.swift": "\n" * 701}
        self.assertEqual(tree(files).long_files(), ["Sources/House/B.swift has 701 lines; at most 700 are allowed"])

    def test_targets_are_read_from_the_manifest(self) -> None:
        manifest = """
            .target(name: "A", dependencies: [.product(name: "X", package: "x")]),
            .executableTarget(name: "B", path: "Elsewhere/B"),
            // .target(name: "Removed"),
            .testTarget(name: "ATests", dependencies: ["A"]),
        """
        self.assertEqual(
            [(target.name, str(target.path)) for target in check.read_targets(manifest)],
            [("A", "Sources/A"), ("B", "Elsewhere/B"), ("ATests", "Tests/ATests")],
        )


if __name__ == "__main__":
    unittest.main()
