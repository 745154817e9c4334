extension SidecarConnection {
    /// How many locks are asked for without waiting for answers.
    private static let batchSize = 100

    /// The names of the locks that are held and match `glob`, each once, in no order; `isComplete` is false when there are
    /// more than `limit`.
    func lockNames(matching glob: String, limit: Int) async throws -> (names: [String], isComplete: Bool) {
        var names: Set<String> = []
        var cursor = ListLocks.start
        repeat {
            let page = try await send(ListLocks(cursor: cursor, glob: glob))
            for name in page.names where !names.contains(name) {
                guard names.count < limit else { return (Array(names), false) }
                names.insert(name)
            }
            cursor = page.cursor
        } while cursor != ListLocks.start
        return (Array(names), true)
    }

    /// What there is to know of each of the locks; those that ended meanwhile are left out.
    func readings(of names: [String]) async throws -> [LockReading] {
        var readings: [LockReading] = []
        for start in stride(from: 0, to: names.count, by: Self.batchSize) {
            let batch = names[start..<min(start + Self.batchSize, names.count)]
            try await withThrowingTaskGroup(of: LockReading?.self) { group in
                for name in batch {
                    group.addTask { try await send(InspectLock(name: name)) }
                }
                for try await reading in group {
                    if let reading, reading.isHeld { readings.append(reading) }
                }
            }
        }
        return readings.sorted { $0.name < $1.name }
    }
}
