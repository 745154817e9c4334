internal import InterlockJudge

/// Which of the locks are held how. A lock is always of one kind: by its number, so that hot and cold names are among all.
public struct LockModeMix: Hashable, Sendable {
    /// Of each ten locks so many are held by readers and writers.
    public var readersAndWriters: Int
    /// Of each ten locks so many are semaphores.
    public var semaphores: Int
    /// What share of those who want a lock of readers and writers are readers.
    public var readers: Double
    /// How many may hold a semaphore at once.
    public var places: Int

    public init(readersAndWriters: Int = 0, semaphores: Int = 0, readers: Double = 0.8, places: Int = 3) {
        self.readersAndWriters = readersAndWriters
        self.semaphores = semaphores
        self.readers = readers
        self.places = places
    }

    /// Seven of ten exclusive, two of readers and writers, one a semaphore.
    public static let mixed = LockModeMix(readersAndWriters: 2, semaphores: 1)

    func mode(ofLock lock: Int, random: inout SeededRandom) -> LeaseMode {
        // From the end: the first, hottest lock is an exclusive one.
        let place = 9 - lock % 10
        if place < semaphores { return .permits(places) }
        guard place < semaphores + readersAndWriters, random.happens(readers) else { return .exclusive }
        return .shared
    }
}
