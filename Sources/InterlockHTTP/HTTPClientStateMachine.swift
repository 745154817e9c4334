/// The protocol of an HTTP/1.1 connection to a server, which carries one request after another, or of one stream of an
/// HTTP/2 connection: the progress of the request and its response, and whether the connection can be reused. The
/// machine is pure: it takes events and returns actions, which the channel handler executes.
///
/// Every request that begins ends exactly once: its response is delivered to the end, it fails, its connection is
/// handed over, or its receiver abandons it. The connection leaves the pool exactly once.
package struct HTTPClientStateMachine: Sendable {
    package enum Carrier: Equatable, Sendable {
        /// A connection of HTTP/1.1.
        case connection
        /// A stream of HTTP/2.
        case stream
    }

    /// The position at which a read ended.
    package enum ReadEnd: Equatable, Sendable {
        /// The read ended after an empty line, which may end a head, trailers, or a response without a body.
        case emptyLine
        /// The read ended at this address.
        case address(UInt)
    }

    package enum ResponseHead: Equatable, Sendable {
        case informational
        /// The server switches protocols.
        case switching
        /// The head of the response itself.
        case final(keepsAlive: Bool)
        case malformed(ProtocolError)
    }

    /// The reason that a response is not valid HTTP.
    package enum ProtocolError: Equatable, Sendable {
        case status
        case contentLength
        case transferCoding
        /// The response ended before its head.
        case missingHead
    }

    /// The kinds of errors that requests distinguish.
    package enum Cause: Equatable, Sendable {
        /// No error occurred before the connection ended.
        case none
        /// The connection itself ended, not just one stream or message on it.
        case connectionEnd
        /// The server refused the stream (RFC 9113, section 8.7).
        case refusedStream
        case other
    }

    /// How a request fails.
    package enum FailureKind: Equatable, Sendable {
        /// The server may have acted on the request.
        case failed
        /// The server has not acted on the request.
        case unprocessed
        /// The connection was probably closed because it was unused.
        case stale
    }

    // MARK: Actions

    /// The action for a step of the request.
    package enum RequestAction: Equatable, Sendable {
        case proceed
        /// Do nothing, because the connection does not carry this request.
        case ignore
    }

    package enum HeadAction: Equatable, Sendable {
        case ignore
        case deliver
        case deliverInformational
        /// Keep the head until `EndAction.switchProtocols`.
        case keepForSwitch
        /// Record the error as the cause of the failure, leave the pool, and close the channel.
        case reject(ProtocolError)
        /// Leave the pool, and close the channel.
        case close
    }

    /// The action for bytes, or for a part of a response's body.
    package enum PartAction: Equatable, Sendable {
        case ignore
        case deliver
        /// Leave the pool, and close the channel.
        case close
    }

    package enum EndAction: Equatable, Sendable {
        case ignore
        /// Release the receiver, and deliver the end to it.
        case deliver
        /// Deliver the head that was kept. The receiver calls `handOver` or abandons the request.
        case switchProtocols
        /// Record the error as the cause of the failure, leave the pool, and close the channel.
        case reject(ProtocolError)
        /// Leave the pool, and close the channel.
        case close
    }

    package enum ErrorAction: Equatable, Sendable {
        case ignore
        /// Record the error as the cause of the failure, and wait for the channel's end.
        case recordCause
        /// Record the error, leave the pool, and close the channel.
        case recordCauseAndClose
        /// Leave the pool, and close the channel. Keep the earlier error as the cause.
        case close
    }

    package enum Action: Equatable, Sendable {
        case none
        case reportWritability(Bool)
        case reportAllReceived
        /// Resume reading, and offer the connection to the pool.
        case returnToPool
        /// Leave the pool, and close the channel.
        case close
        /// Leave the pool, and close the channel in a later tick. A stream that both sides have ended closes on its own
        /// before that.
        case closeLater
        /// Leave the pool.
        case leave
        /// Release the receiver, and fail its request.
        case fail(FailureKind)
        /// Leave the pool, then release the receiver and fail its request.
        case leaveAndFail(FailureKind)
    }

    // MARK: States

    private enum State {
        /// No request is in flight.
        case unused(Usage)
        case exchanging(Exchange)
        /// The response is complete, but the read that contains its end is not, so more bytes may follow.
        case answered(NextUse)
        /// The connection has left the pool and carries no request: it is closed, closing, or handed over.
        case over(LastResponse)
    }

    private enum LastResponse {
        case complete
        case incomplete
    }

    package let carrier: Carrier
    /// The machine that decides when to read the response.
    package var reads = ResponseReads()
    private var state = State.unused(.fresh)

    package init(_ carrier: Carrier) {
        self.carrier = carrier
    }

    /// Whether the connection still belongs to the pool.
    package var isPooled: Bool {
        switch state {
        case .unused, .answered: true
        case .exchanging(let exchange): exchange.disposition.isPooled
        case .over: false
        }
    }

    /// Whether the last response is complete, or there has been no request.
    package var isResponseComplete: Bool {
        switch state {
        case .unused, .answered, .over(.complete): true
        case .exchanging, .over(.incomplete): false
        }
    }
}

// MARK: - The request

extension HTTPClientStateMachine {
    /// Begins a request.
    /// - Parameter isReused: whether the stream's connection has carried an earlier request. An HTTP/1.1 connection
    ///   keeps track of this itself.
    package mutating func begin(isReused: Bool = false) -> RequestAction {
        guard case .unused(let usage) = state else { return .ignore }
        state = .exchanging(Exchange(usage: isReused ? .reused : usage))
        return .proceed
    }

    /// Records that the request offers another protocol: after it, the connection may no longer speak HTTP.
    package mutating func upgradeOffered() {
        guard case .exchanging(var exchange) = state, exchange.disposition == .reusable else { return }
        exchange.disposition = .last
        state = .exchanging(exchange)
    }

    /// Returns whether the receiver may send the request's head, or a part of the body.
    package func requestPart() -> RequestAction {
        if case .exchanging = state { .proceed } else { .ignore }
    }

    /// Records that the receiver ends the request.
    package mutating func requestEnd() -> RequestAction {
        guard case .exchanging(var exchange) = state else { return .ignore }
        exchange.request = .sent
        state = .exchanging(exchange)
        return .proceed
    }

    /// Records the beginning of a flush. `flushEnds` follows.
    package mutating func flushBegins() -> RequestAction {
        guard case .exchanging(var exchange) = state else { return .ignore }
        exchange.flush = .inFlight
        state = .exchanging(exchange)
        return .proceed
    }

    /// Records the end of a flush. The first one sends an HTTP/1.1 request's head.
    /// - Parameter now: the time of the flush.
    package mutating func flushEnds(at now: @autoclosure () -> Duration) {
        guard case .exchanging(var exchange) = state else { return }
        exchange.flush = .idle
        if carrier == .connection, exchange.processing == .unsent { exchange.processing = .sent(at: now()) }
        state = .exchanging(exchange)
    }

    /// Records that the stream has sent the request's head, which may have waited until the server accepted more
    /// streams.
    package mutating func headSent(at now: Duration) {
        guard case .exchanging(var exchange) = state, exchange.processing == .unsent else { return }
        exchange.processing = .sent(at: now)
        state = .exchanging(exchange)
    }

    /// Records that the server reported the request as unprocessed.
    package mutating func declaredUnprocessed() {
        guard case .exchanging(var exchange) = state, exchange.processing != .responding else { return }
        exchange.processing = .unprocessed
        state = .exchanging(exchange)
    }

    /// Records that the receiver abandons the request.
    package mutating func abandon() -> Action {
        guard case .exchanging(let exchange) = state else { return close() }
        state = .over(.incomplete)
        return exchange.disposition.isPooled ? .close : .none
    }

    /// Records that the receiver takes over the channel, for the protocol that the server switched to.
    package mutating func handOver() -> RequestAction {
        guard case .exchanging(let exchange) = state, exchange.response == .switched, exchange.disposition.isOpen else {
            return .ignore
        }
        state = .over(.incomplete)
        return .proceed
    }
}

// MARK: - The response

extension HTTPClientStateMachine {
    /// Handles bytes that arrived, before they are decoded. Without a request in flight, or after a complete response,
    /// the decoder would read them as the beginning of the next response.
    package mutating func bytesReceived(_ end: ReadEnd, isLarge: Bool) -> PartAction {
        switch state {
        case .exchanging(var exchange):
            exchange.processing = .responding
            exchange.tail = .open(end)
            state = .exchanging(exchange)
            reads.bytesReceived(isLarge: isLarge)
            return .deliver
        case .unused, .answered:
            state = .over(.complete)
            return .close
        case .over: return .ignore
        }
    }

    package mutating func responseHead(_ head: ResponseHead) -> HeadAction {
        switch state {
        case .exchanging(var exchange):
            let action = exchange.take(head)
            state = .exchanging(exchange)
            return action
        case .unused, .answered:
            state = .over(.complete)
            return .close
        case .over: return .ignore
        }
    }

    /// Handles a decoded part of a response's body.
    /// - Parameter end: the address at which the part ends.
    package mutating func responsePart(endingAt end: @autoclosure () -> UInt) -> PartAction {
        switch state {
        case .exchanging(var exchange):
            // An informational response may have a body, which is not part of the response.
            guard exchange.disposition.isOpen, exchange.response == .begun else { return .ignore }
            guard carrier == .connection, exchange.tail == .open(.address(end())) else { return .deliver }
            exchange.tail = .complete
            state = .exchanging(exchange)
            return .deliver
        case .unused, .answered:
            state = .over(.complete)
            return .close
        case .over: return .ignore
        }
    }

    package mutating func responseEnd() -> EndAction {
        switch state {
        case .exchanging(var exchange):
            let action = exchange.takeEnd()
            state = action == .deliver ? .answered(exchange.nextUse) : .exchanging(exchange)
            if action == .deliver { reads.responseEnded() }
            return action
        case .unused, .answered:
            state = .over(.complete)
            return .close
        case .over: return .ignore
        }
    }

    /// Records that the decoder has delivered everything that was read. `readCompleted` follows.
    package func allReceived() -> Action {
        if case .exchanging = state { .reportAllReceived } else { .none }
    }

    /// Records the end of a read. If the response ended in it, nothing followed the response.
    /// - Parameter isActive: whether the channel can still be written to.
    package mutating func readCompleted(isActive: Bool) -> Action {
        guard case .answered(let nextUse) = state else { return .none }
        guard carrier == .connection, nextUse == .another, isActive else {
            state = .over(.complete)
            return carrier == .connection ? .close : .closeLater
        }
        state = .unused(.reused)
        return .returnToPool
    }
}

// MARK: - The channel

extension HTTPClientStateMachine {
    package func writabilityChanged(_ isWritable: Bool) -> Action {
        if case .exchanging = state { .reportWritability(isWritable) } else { .none }
    }

    /// Records that a write failed. If this is the first sign that the connection has ended, the decoder will still
    /// report an end of the incomplete response, which is ignored.
    package mutating func writeFailed(_ cause: Cause) -> ErrorAction {
        guard case .exchanging(var exchange) = state else { return .ignore }
        switch exchange.disposition {
        case .reusable, .last: exchange.disposition = .broken(cause)
        case .closing(.none): exchange.disposition = .closing(cause)
        case .broken, .closing: return .ignore
        }
        state = .exchanging(exchange)
        return .recordCause
    }

    package mutating func errorCaught(_ cause: Cause) -> ErrorAction {
        switch state {
        case .exchanging(var exchange):
            let action = exchange.take(cause)
            state = .exchanging(exchange)
            return action
        case .unused, .answered:
            // A TLS connection that ends without close_notify after a complete response is harmless.
            state = .over(.complete)
            return .close
        case .over: return .ignore
        }
    }

    /// Begins to close the connection, because the pool asks for it or the server has stopped sending.
    package mutating func close() -> Action {
        switch state {
        case .exchanging(var exchange):
            guard exchange.disposition.isPooled else { return .none }
            exchange.disposition = .closing(exchange.disposition.cause)
            state = .exchanging(exchange)
            return .close
        case .unused, .answered:
            state = .over(.complete)
            return .close
        case .over: return .none
        }
    }

    /// Ends the request in flight, if any, because the channel has ended.
    package mutating func channelEnded(at now: @autoclosure () -> Duration) -> Action {
        switch state {
        case .exchanging(let exchange):
            state = .over(.incomplete)
            let failureKind = exchange.failureKind(at: now())
            return exchange.disposition.isPooled ? .leaveAndFail(failureKind) : .fail(failureKind)
        case .unused, .answered:
            state = .over(.complete)
            return .leave
        case .over: return .none
        }
    }
}
