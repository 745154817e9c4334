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

    def test_members_are_not_mentions_unless_a_module_stands_before_them(self) -> None:
        self.assertEqual(self.names("let a: Lock.State = .Open; let b: House.Queue"), ["Lock", "House", "Queue"])

    def test_imports_are_not_mentions(self) -> None:
        self.assertEqual(self.names("import House\npublic import struct Wall.Door\nlet a: Lock"), ["Lock"])

    def test_lines_are_those_of_the_file(self) -> None:
        source = swift.read('/* \n */ let a = """\n \\(1)\n """\nstruct Lock {}\n')
        self.assertEqual([declared.line for declared in source.declarations], [5])
        self.assertEqual(source.lines, 5)

    def test_declarations_are_told_from_nested_and_private_ones(self) -> None:
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


class CircleTests(unittest.TestCase):
    def circles(self, files: dict[str, str], *targets: str) -> list[tuple[str, ...]]:
        return [(circle.folder, *circle.members) for circle in tree(files, *targets).circles()]

    def test_folders_that_depend_one_way_are_fine(self) -> None:
        files = {
            "Sources/House/Locks/Lock.swift": "struct Lock { let clock: Clock }",
            "Sources/House/Time/Clock.swift": "struct Clock {}",
            "Sources/House/House.swift": "struct House { let lock: Lock, clock: Clock }",
        }
        self.assertEqual(self.circles(files), [])

    def test_two_folders_that_need_each_other_are_a_circle(self) -> None:
        files = {
            "Sources/House/Locks/Lock.swift": "struct Lock { let clock: Clock }",
            "Sources/House/Time/Clock.swift": "struct Clock {}\nextension Lock {}",
        }
        (circle,) = tree(files).circles()
        self.assertEqual(
            circle.describe(3).splitlines(),
            [
                "Sources/House: Locks → Time → Locks",
                "  Locks → Time, 1 times",
                "    Sources/House/Locks/Lock.swift:1 names Clock",
                "  Time → Locks, 1 times",
                "    Sources/House/Time/Clock.swift:2 names Lock",
            ],
        )

    def test_a_longer_circle_is_found(self) -> None:
        files = {
            "Sources/House/A/A.swift": "struct A { let b: B }",
            "Sources/House/B/B.swift": "struct B { let c: C }",
            "Sources/House/C/C.swift": "struct C { let a: A }",
        }
        self.assertEqual(self.circles(files), [("Sources/House", "A", "B", "C")])

    def test_a_folder_may_not_name_a_type_of_the_targets_own_files(self) -> None:
        files = {
            "Sources/House/House.swift": "struct House {}",
            "Sources/House/Locks/Lock.swift": "struct Lock { let house: House }",
        }
        self.assertEqual(self.circles(files), [("Sources/House", "Locks", check.LOOSE)])

    def test_loose_files_deeper_inside_are_a_folder_beside_their_siblings(self) -> None:
        files = {
            "Sources/House/Locks/Lock.swift": "struct Lock {}",
            "Sources/House/Locks/Queues/Queue.swift": "struct Queue { let lock: Lock }",
        }
        self.assertEqual(self.circles(files), [])
        files["Sources/House/Locks/Lock.swift"] = "struct Lock { var queue: [Queue] }"
        self.assertEqual(self.circles(files), [("Sources/House/Locks", check.LOOSE, "Queues")])

    def test_a_nested_type_hides_one_of_the_same_name(self) -> None:
        files = {
            "Sources/House/Locks/Lock.swift": "struct Lock { enum State {} }\nstruct Owner { let clock: Clock }",
            "Sources/House/Locks/Lock+State.swift": "extension Lock { var state: State { fatalError() } }",
            "Sources/House/Time/Clock.swift": "struct Clock {}\nstruct State { let owner: Int }",
            "Sources/House/Time/Wall.swift": "struct Wall<Owner> { let owner: Owner }",
        }
        self.assertEqual(self.circles(files), [])

    def test_targets_are_looked_at_one_by_one(self) -> None:
        files = {
            "Sources/House/Locks/Lock.swift": "struct Lock { let clock: Clock }",
            "Sources/House/Time/Time.swift": "struct Time {}",
            "Sources/Garden/Time/Clock.swift": "struct Clock { let lock: Lock }",
        }
        self.assertEqual(self.circles(files, "House", "Garden"), [])


class OtherCheckTests(unittest.TestCase):
    def test_paths_that_differ_in_case_are_named_once(self) -> None:
        paths = ["Sources/Interlock/Lock.swift", "Sources/interlock/lock.swift", "Sources/Other.swift"]
        self.assertEqual(
            check.same_but_for_case(paths), ["Sources/Interlock and Sources/interlock differ in case only"]
        )
        self.assertEqual(
            check.same_but_for_case(["a/B.swift", "a/b.swift"]), ["a/B.swift and a/b.swift differ in case only"]
        )

    def test_a_type_that_two_other_files_name_is_in_the_file_of_its_name(self) -> None:
        users = {f"Sources/Interlock/{name}.swift": "let a: Lock; let b: Take; let c: Lease" for name in ("A", "B")}
        files = {
            "Sources/Interlock/Door.swift": "struct Door {}\nstruct Lock {}\nprivate struct Take {}",
            "Sources/Interlock/LockCommands.swift": "struct Lease {}",
        }
        found = tree(files | users, "Interlock").types_away_from_home()
        self.assertEqual(found, ["Sources/Interlock/Door.swift:2 declares Lock, which 2 other files name"])

    def test_two_types_of_one_name_are_found_across_targets(self) -> None:
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

    def test_targets_come_from_the_manifest(self) -> None:
        manifest = """
            .target(name: "A", dependencies: [.product(name: "X", package: "x")]),
            .executableTarget(name: "B", path: "Elsewhere/B"),
            // .target(name: "Gone"),
            .testTarget(name: "ATests", dependencies: ["A"]),
        """
        self.assertEqual(
            [(target.name, str(target.path)) for target in check.read_targets(manifest)],
            [("A", "Sources/A"), ("B", "Elsewhere/B"), ("ATests", "Tests/ATests")],
        )


if __name__ == "__main__":
    unittest.main()
