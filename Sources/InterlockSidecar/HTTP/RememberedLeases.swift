internal import Interlock
internal import InterlockCore
internal import NIOConcurrencyHelpers

/// The tokens of the leases that were taken by `GET /lock`, for the API key that took them. Bounded; what has lapsed is
/// dropped when room is needed.
final class RememberedLeases: Sendable {
    static let capacity = 10_000

    private struct Key: Hashable {
        let caller: String
        let lock: ExactText
    }

    private struct Entry {
        let token: String
        let deadline: ContinuousClock.Instant
    }

    private let entries = NIOLockedValueBox<[Key: Entry]>([:])

    /// O(n) when it is full.
    func hasRoom() -> Bool {
        entries.withLockedValue { entries in
            if entries.count >= Self.capacity {
                let now = ContinuousClock.now
                entries = entries.filter { $0.value.deadline > now }
            }
            return entries.count < Self.capacity
        }
    }

    func remember(_ lease: Lease, of caller: String, milliseconds: Int64) {
        let entry = Entry(token: lease.token, deadline: .now + .milliseconds(milliseconds))
        entries.withLockedValue { $0[Key(caller: caller, lock: ExactText(lease.name))] = entry }
    }

    func token(of lock: String, takenBy caller: String) -> String? {
        entries.withLockedValue { $0[Key(caller: caller, lock: ExactText(lock))]?.token }
    }

    /// Unless the lock has been taken again meanwhile.
    func forget(_ lock: String, takenBy caller: String, token: String) {
        entries.withLockedValue { entries in
            let key = Key(caller: caller, lock: ExactText(lock))
            if entries[key]?.token == token { entries[key] = nil }
        }
    }
}
