internal import NIOConcurrencyHelpers
internal import NIOCore

/// Decides which of many occurrences are logged: one a minute, with the number of them since the last line.
final class OnceAMinute: Sendable {
    private struct State {
        var next = NIODeadline.uptimeNanoseconds(0)
        var unlogged = 0
    }

    private static let pause = TimeAmount.minutes(1)

    private let state = NIOLockedValueBox(State())

    /// Returns how many occurrences the line stands for; `nil`: none is due yet.
    func happened(now: NIODeadline = .now()) -> Int? {
        state.withLockedValue { state -> Int? in
            state.unlogged += 1
            guard now >= state.next else { return nil }
            state.next = now + Self.pause
            defer { state.unlogged = 0 }
            return state.unlogged
        }
    }
}
