internal import InterlockCore
internal import InterlockJudge

/// How often clients do what programs do that are in trouble: probabilities of each lock cycle or call.
package struct ClientConduct: Hashable, Sendable {
    /// Renews in the middle of a hold although the lease would have lasted.
    package var renews: Double
    /// Never releases: the lease lapses.
    package var forgets: Double
    /// Goes on after its lease has ended, and writes with a fence that is stale by then.
    package var overstays: Double
    /// Closes its connection instead of releasing.
    package var vanishesHolding: Double
    /// Closes its connection while it waits.
    package var vanishesWaiting: Double
    /// Never reports a permit.
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

    /// Programs that do what they should: for measuring.
    package static let faultless = ClientConduct()
    /// Each of it often enough to be seen in a minute, seldom enough that leases which lapse do not stand in everybody's way.
    package static let troubled = ClientConduct(
        renews: 0.02, forgets: 0.002, overstays: 0.002, vanishesHolding: 0.001, vanishesWaiting: 0.002, leavesUnreported: 0.005)
}

/// Which of the locks are held how. A lock is always of one kind: by its number, so that hot and cold names are among all.
package struct LockModeMix: Hashable, Sendable {
    /// How many of each ten locks are held by readers and writers.
    package var readersAndWriters: Int
    /// How many of each ten locks are semaphores.
    package var semaphores: Int
    /// What share of those who want a lock of readers and writers are readers.
    package var readers: Double
    /// How many may hold a semaphore at once.
    package var places: Int

    package init(readersAndWriters: Int = 0, semaphores: Int = 0, readers: Double = 0.8, places: Int = 3) {
        self.readersAndWriters = readersAndWriters
        self.semaphores = semaphores
        self.readers = readers
        self.places = places
    }

    /// Seven of ten exclusive, two of readers and writers, one a semaphore.
    package static let mixed = LockModeMix(readersAndWriters: 2, semaphores: 1)

    func mode(ofLock lock: Int, random: inout SeededRandom) -> LeaseMode {
        // From the end: the first, hottest lock is an exclusive one.
        let place = 9 - lock % 10
        if place < semaphores { return .permits(places) }
        guard place < semaphores + readersAndWriters, random.happens(readers) else { return .exclusive }
        return .shared
    }
}

/// Times in a range as people write them: `0..5ms`, or `2ms` for always the same.
package enum HoldText {
    /// - Parameter duration: reads one duration, such as `5ms`. A bare `0` needs no unit.
    package static func parse(
        _ text: String, duration: (Substring) throws -> Duration
    ) throws(LoadArgumentError) -> ClosedRange<Duration> {
        let expectation = LoadArgumentError(
            expected: "a duration or two of them, the shorter first: 2ms, or 0..5ms", found: text)
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
