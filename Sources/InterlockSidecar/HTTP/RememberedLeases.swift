internal import InterlockCore
internal import NIOConcurrencyHelpers

/// The tokens of the leases that were taken by `GET /lock`, for the API key that took them. Bounded for each key; what has lapsed
/// is dropped when room is needed.
final class RememberedLeases: Sendable {
    static let capacity = 10_000

    /// The least time between two looks for leases that have lapsed.
    private static let sweepPause = Duration.milliseconds(100)

    private struct Entry {
        let token: String
        let deadline: ContinuousClock.Instant
    }

    /// What one caller has.
    private struct Shelf {
        var entries: [ExactText: Entry] = [:]
        /// Places of leases that are being asked for.
        var reserved = 0
        var nextSweep: ContinuousClock.Instant?

        mutating func reserve() -> Bool {
            if entries.count + reserved >= RememberedLeases.capacity {
                let now = ContinuousClock.now
                guard nextSweep.map({ $0 <= now }) ?? true else { return false }
                nextSweep = now + sweepPause
                entries = entries.filter { $0.value.deadline > now }
            }
            guard entries.count + reserved < RememberedLeases.capacity else { return false }
            reserved += 1
            return true
        }
    }

    /// By caller, whose names are those of the API keys.
    private let shelves = NIOLockedValueBox<[String: Shelf]>([:])

    /// Keeps a place for a lease that is being asked for, until `cancel`. `false`: there is none.
    func reserve(for caller: String) -> Bool {
        shelves.withLockedValue { $0[caller, default: Shelf()].reserve() }
    }

    /// The place is not needed any more: the lease is remembered, or there is none.
    func cancel(for caller: String) {
        shelves.withLockedValue { $0[caller]?.reserved -= 1 }
    }

    func remember(_ lock: String, token: String, takenBy caller: String, milliseconds: Int64) {
        let entry = Entry(token: token, deadline: .now + .milliseconds(milliseconds))
        shelves.withLockedValue { $0[caller, default: Shelf()].entries[ExactText(lock)] = entry }
    }

    func token(of lock: String, takenBy caller: String) -> String? {
        shelves.withLockedValue { $0[caller]?.entries[ExactText(lock)]?.token }
    }

    /// Unless the lock has been taken again meanwhile.
    func forget(_ lock: String, takenBy caller: String, token: String) {
        shelves.withLockedValue { shelves in
            guard shelves[caller]?.entries[ExactText(lock)]?.token == token else { return }
            shelves[caller]?.entries[ExactText(lock)] = nil
        }
    }
}
