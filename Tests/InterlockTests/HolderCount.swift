import NIOConcurrencyHelpers

/// Counts concurrent holders, and records whether fences rise in the order of entry.
final class HolderCount: Sendable {
    private struct State {
        var current = 0
        var maximum = 0
        var lastFence: Int64 = 0
        var fencesRose = true
    }

    private let state = NIOLockedValueBox(State())

    var maximum: Int { state.withLockedValue { $0.maximum } }
    var fencesRose: Bool { state.withLockedValue { $0.fencesRose } }

    func enter(fence: Int64) {
        state.withLockedValue { state in
            state.current += 1
            state.maximum = max(state.maximum, state.current)
            if fence <= state.lastFence { state.fencesRose = false }
            state.lastFence = fence
        }
    }

    func leave() {
        state.withLockedValue { $0.current -= 1 }
    }
}
