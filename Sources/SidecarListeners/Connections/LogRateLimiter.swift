internal import NIOConcurrencyHelpers
internal import NIOCore

/// Limits the log lines about an event to one a minute, with the number of occurrences since the last line.
final class LogRateLimiter: Sendable {
    private struct State {
        var next = NIODeadline.uptimeNanoseconds(0)
        var unlogged = 0
    }

    private static let interval = TimeAmount.minutes(1)

    private let state = NIOLockedValueBox(State())

    /// Returns the number of occurrences before this one that were not logged; `nil` if no line is due.
    func recordOccurrence(now: NIODeadline = .now()) -> Int? {
        state.withLockedValue { state -> Int? in
            state.unlogged += 1
            guard now >= state.next else { return nil }
            state.next = now + Self.interval
            defer { state.unlogged = 0 }
            return state.unlogged
        }
    }
}
