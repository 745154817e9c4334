/// The locks that are held.
struct LockListing: Answer {
    var locks: [LockReading]
    /// Whether these are all that match.
    var isComplete: Bool

    private enum CodingKeys: String, CodingKey {
        case locks
        case isComplete = "complete"
    }

    /// The most locks that are listed or counted when nobody says otherwise.
    static let standardLimit = 1000

    var table: String {
        var table = Table(["LOCK", "LABEL", "TIME LEFT", "FENCE", "WAITING"])
        for lock in locks {
            table.add([
                lock.name, lock.label ?? "", lock.timeLeft, lock.fence.map { "\($0)" } ?? "", "\(lock.waiters)",
            ])
        }
        return table.text
    }
}
