internal import InterlockCore
internal import InterlockJudge

/// The mix of lock modes in a run. The number of a lock determines its kind, so each kind has hot and cold locks.
package struct LockModeMix: Hashable, Sendable {
    /// The number of locks out of ten that readers and writers share.
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

    /// A mix of ten locks: seven exclusive ones, two for readers and writers, and one semaphore.
    package static let mixed = LockModeMix(readersAndWriters: 2, semaphores: 1)

    func mode(ofLock lock: Int, random: inout SeededRandom) -> LeaseMode {
        // Counting from the end makes the first and hottest lock exclusive.
        let index = 9 - lock % 10
        if index < semaphores { return .permits(slots) }
        guard index < semaphores + readersAndWriters, random.happens(readers) else { return .exclusive }
        return .shared
    }
}
