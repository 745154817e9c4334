import InterlockCore
import Testing

@Suite("Subjects that have counters of their own")
struct SubjectBookTests {
    private static let start = Instant(nanoseconds: 1_000_000)

    /// Which of them are taken in.
    private static func takenIn(_ names: [String], to book: inout SubjectBook, atMilliseconds time: Int64 = 0) -> [String] {
        names.filter { book.takeIn($0, windowMilliseconds: 1000, now: start.advanced(byMilliseconds: time)) }
    }

    @Test("R11: there are as many as are allowed, and those who are there stay while others come")
    func capacity() {
        var book = SubjectBook(capacity: 3)
        let known = ["a", "b", "c"]
        for _ in 0..<2 {
            let taken = Self.takenIn(known + ["d", "e"], to: &book)
            #expect(taken == known)
        }
        #expect(known.allSatisfy(book.hasPlace))
        #expect(!book.hasPlace(for: "d"))
        #expect(book.count == 3)
    }

    @Test("who was not seen for two windows has left its place, and who was seen keeps it")
    func places() {
        var book = SubjectBook(capacity: 2)
        for (names, time, expected) in [
            (["a", "b"], 0, ["a", "b"]), (["a"], 1500, ["a"]), (["c"], 2400, []), (["a", "c"], 2600, ["a", "c"]),
            // All are forgotten when nobody came.
            (["d", "e", "f"], 60_000, ["d", "e"]),
        ] as [([String], Int64, [String])] {
            let taken = Self.takenIn(names, to: &book, atMilliseconds: time)
            #expect(taken == expected)
        }
    }
}
