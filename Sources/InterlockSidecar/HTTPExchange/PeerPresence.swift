internal import NIOConcurrencyHelpers

/// Something that happens once, or never, and that anybody may wait for.
final class Occurrence: Sendable {
    private struct State {
        var hasHappened = false
        var lastID = 0
        var observers: [Int: @Sendable () -> Void] = [:]
    }

    private let state = NIOLockedValueBox(State())

    var hasHappened: Bool { state.withLockedValue { $0.hasHappened } }

    func happen() {
        let observers = state.withLockedValue { state in
            defer { state.observers = [:] }
            state.hasHappened = true
            return state.observers
        }
        for observer in observers.values { observer() }
    }

    /// Calls `observer` once, when it happens; at once when it has happened.
    func observe(_ observer: @escaping @Sendable () -> Void) -> Int? {
        let id: Int? = state.withLockedValue { state in
            guard !state.hasHappened else { return nil }
            state.lastID += 1
            state.observers[state.lastID] = observer
            return state.lastID
        }
        if id == nil { observer() }
        return id
    }

    func forget(_ id: Int?) {
        guard let id else { return }
        state.withLockedValue { state in
            state.observers[id] = nil
        }
    }
}

/// Whether the client of a connection is still there: it is gone when it closes the connection or its side of it.
final class PeerPresence: Sendable {
    private let silence = NIOLockedValueBox(false)

    let departure = Occurrence()

    var hasLeft: Bool { departure.hasHappened }

    /// It did not leave by its own word: the network has given it up, and it may be at work behind that.
    var isSilent: Bool { silence.withLockedValue { $0 } }

    func fallSilent() { silence.withLockedValue { $0 = true } }
}
