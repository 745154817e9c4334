internal import NIOConcurrencyHelpers
internal import NIOCore

/// Limits the log lines about an event to one a minute, with the number of occurrences since the last line.
final class LogRateLimiter: Sendable {
    private struct State {
        var nextLineAt = NIODeadline.uptimeNanoseconds(0)
        var unloggedCount = 0
    }

    private static let interval = TimeAmount.minutes(1)

    private let state = NIOLockedValueBox(State())

    /// Records an occurrence of the event.
    /// - Returns: the number of occurrences since the last line, including this one; `nil` if no line is due.
    func recordOccurrence(now: NIODeadline = .now()) -> Int? {
        state.withLockedValue { state -> Int? in
            state.unloggedCount += 1
            guard now >= state.nextLineAt else { return nil }
            state.nextLineAt = now + Self.interval
            defer { state.unloggedCount = 0 }
            return state.unloggedCount
        }
    }
}
