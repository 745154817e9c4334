internal import NIOConcurrencyHelpers
internal import NIOCore

/// Whether the client of a connection is still there: it is gone when it closes the connection or its side of it.
final class PeerPresence: Sendable {
    private struct State {
        var hasLeft = false
        var isSilent = false
        var lastID = 0
        var observers: [Int: @Sendable () -> Void] = [:]
    }

    private let state = NIOLockedValueBox(State())

    var hasLeft: Bool { state.withLockedValue { $0.hasLeft } }

    /// It did not leave by its own word: the network has given it up, and it may be at work behind that.
    var isSilent: Bool { state.withLockedValue { $0.isSilent } }

    func fallSilent() { state.withLockedValue { $0.isSilent = true } }

    func leave() {
        let observers = state.withLockedValue { state in
            defer { state.observers = [:] }
            state.hasLeft = true
            return state.observers
        }
        for observer in observers.values { observer() }
    }

    /// Runs `operation`, and cancels it when the client leaves.
    func whilePresent<Value: Sendable>(
        _ operation: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let task = Task { try await operation() }
        let observer = observe { task.cancel() }
        defer { forget(observer) }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }

    /// Calls `observer` once, when the client leaves; at once when it has left.
    func observe(_ observer: @escaping @Sendable () -> Void) -> Int? {
        let id: Int? = state.withLockedValue { state in
            guard !state.hasLeft else { return nil }
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

/// Sees the client leave. Reading goes on while a request waits, so a close is seen at once.
final class PeerPresenceHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private let presence = PeerPresence()

    func handlerAdded(context: ChannelHandlerContext) {
        PeerLiveness.watch(context.channel)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if PeerLiveness.isSilence(error) { presence.fallSilent() }
        context.fireErrorCaught(error)
    }

    func channelInactive(context: ChannelHandlerContext) {
        presence.leave()
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { presence.leave() }
        context.fireUserInboundEventTriggered(event)
    }

    static func presence(on channel: any Channel) async throws -> PeerPresence {
        if channel.eventLoop.inEventLoop {
            return try channel.pipeline.syncOperations.handler(type: PeerPresenceHandler.self).presence
        }
        return try await channel.eventLoop.submit {
            try channel.pipeline.syncOperations.handler(type: PeerPresenceHandler.self).presence
        }.get()
    }
}
