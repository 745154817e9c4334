internal import InterlockCore
internal import NIOConcurrencyHelpers

/// The tokens of the leases that were taken by `GET /lock`, for the API key that took them. Bounded for each key; what has lapsed
/// is dropped when room is needed.
final class RememberedLeases: Sendable {
    static let capacity = 10_000

    private struct Entry {
        let token: String
        let deadline: ContinuousClock.Instant
    }

    /// By caller.
    private let entries = NIOLockedValueBox<[String: [ExactText: Entry]]>([:])

    /// O(n) when it is full.
    func hasRoom(for caller: String) -> Bool {
        entries.withLockedValue { entries in
            if entries[caller, default: [:]].count >= Self.capacity {
                let now = ContinuousClock.now
                entries[caller] = entries[caller]?.filter { $0.value.deadline > now }
            }
            return entries[caller, default: [:]].count < Self.capacity
        }
    }

    func remember(_ lock: String, token: String, takenBy caller: String, milliseconds: Int64) {
        let entry = Entry(token: token, deadline: .now + .milliseconds(milliseconds))
        entries.withLockedValue { $0[caller, default: [:]][ExactText(lock)] = entry }
    }

    func token(of lock: String, takenBy caller: String) -> String? {
        entries.withLockedValue { $0[caller]?[ExactText(lock)]?.token }
    }

    /// Unless the lock has been taken again meanwhile.
    func forget(_ lock: String, takenBy caller: String, token: String) {
        entries.withLockedValue { entries in
            guard entries[caller]?[ExactText(lock)]?.token == token else { return }
            entries[caller]?[ExactText(lock)] = nil
            if entries[caller]?.isEmpty == true { entries[caller] = nil }
        }
    }
}
