internal import InterlockCore
internal import InterlockJudge

/// The probabilities of unusual client behavior, per lock cycle or call.
package struct ClientBehavior: Hashable, Sendable {
    /// The client renews in the middle of a hold although the lease would have lasted.
    package var renews: Double
    /// The client never releases, so the lease expires.
    package var forgets: Double
    /// The client continues after its lease has ended, and writes with a stale fence.
    package var overstays: Double
    /// The client closes its connection instead of releasing.
    package var vanishesHolding: Double
    /// The client closes its connection while it waits.
    package var vanishesWaiting: Double
    /// The client never reports a permit.
    package var leavesUnreported: Double

    package init(
        renews: Double = 0, forgets: Double = 0, overstays: Double = 0, vanishesHolding: Double = 0, vanishesWaiting: Double = 0,
        leavesUnreported: Double = 0
    ) {
        self.renews = renews
        self.forgets = forgets
        self.overstays = overstays
        self.vanishesHolding = vanishesHolding
        self.vanishesWaiting = vanishesWaiting
        self.leavesUnreported = leavesUnreported
    }

    /// Well-behaved clients, for benchmarks.
    package static let wellBehaved = ClientBehavior()
    /// Clients that show each behavior often enough to see it within a minute, but rarely enough that expiring leases
    /// do not block the others.
    package static let misbehaving = ClientBehavior(
        renews: 0.02, forgets: 0.002, overstays: 0.002, vanishesHolding: 0.001, vanishesWaiting: 0.002, leavesUnreported: 0.005)
}

/// The modes of the locks. The number of a lock determines its kind, so each kind has hot and cold names.
package struct LockModeMix: Hashable, Sendable {
    /// The number of locks out of ten that are shared by readers and writers.
    package var readersAndWriters: Int
    /// The number of locks out of ten that are semaphores.
    package var semaphores: Int
    /// The fraction of readers among the callers of a shared lock.
    package var readers: Double
    /// The number of slots of a semaphore.
    package var slots: Int

    package init(readersAndWriters: Int = 0, semaphores: Int = 0, readers: Double = 0.8, slots: Int = 3) {
        self.readersAndWriters = readersAndWriters
        self.semaphores = semaphores
        self.readers = readers
        self.slots = slots
    }

    /// Seven exclusive locks out of ten, two for readers and writers, one semaphore.
    package static let mixed = LockModeMix(readersAndWriters: 2, semaphores: 1)

    func mode(ofLock lock: Int, random: inout SeededRandom) -> LeaseMode {
        // Counting from the end makes the first and hottest lock exclusive.
        let place = 9 - lock % 10
        if place < semaphores { return .permits(slots) }
        guard place < semaphores + readersAndWriters, random.happens(readers) else { return .exclusive }
        return .shared
    }
}

/// Parses a range of durations: `0..5ms`, or `2ms` for a constant one.
package enum HoldText {
    /// - Parameter duration: parses one duration, such as `5ms`. A bare `0` needs no unit.
    package static func parse(
        _ text: String, duration: (Substring) throws -> Duration
    ) throws(LoadArgumentError) -> ClosedRange<Duration> {
        let expectation = LoadArgumentError(
            expected: "a duration or a range, such as 2ms or 0..5ms", found: text)
        func read(_ part: Substring) throws(LoadArgumentError) -> Duration {
            if part == "0" { return .zero }
            do { return try duration(part) } catch { throw expectation }
        }
        guard let dots = text.firstRange(of: "..") else {
            let single = try read(text[...])
            return single...single
        }
        let lower = try read(text[..<dots.lowerBound])
        let upper = try read(text[dots.upperBound...])
        guard lower <= upper else { throw expectation }
        return lower...upper
    }
}
