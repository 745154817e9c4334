internal import NIOConcurrencyHelpers

/// An event that happens at most once, and that several observers may wait for.
package final class OneTimeEvent: Sendable {
    private struct State {
        var hasFired = false
        var lastID = 0
        var observers: [Int: @Sendable () -> Void] = [:]
    }

    private let state = NIOLockedValueBox(State())

    package var hasFired: Bool { state.withLockedValue { $0.hasFired } }

    /// Records that the event has happened, and calls the observers.
    func fire() {
        let observers = state.withLockedValue { state in
            defer { state.observers = [:] }
            state.hasFired = true
            return state.observers
        }
        for observer in observers.values { observer() }
    }

    /// Calls `observer` once: when the event happens, or immediately if it has already happened.
    /// - Returns: an ID for `forget`; `nil` if the event has already happened.
    func observe(_ observer: @escaping @Sendable () -> Void) -> Int? {
        let id: Int? = state.withLockedValue { state in
            guard !state.hasFired else { return nil }
            state.lastID += 1
            state.observers[state.lastID] = observer
            return state.lastID
        }
        if id == nil { observer() }
        return id
    }

    /// Removes an observer.
    func forget(_ id: Int?) {
        guard let id else { return }
        state.withLockedValue { state in
            state.observers[id] = nil
        }
    }
}
