/// The protocol of an HTTP/1.1 connection from a client, which brings one request after another, or of one stream of an
/// HTTP/2 connection: the progress of the request and its response, the waiting parts, and when to read. The machine is
/// pure: it takes events and returns actions, which the channel handler executes.
///
/// Every request that begins ends exactly once: when it is answered and read to its end, or when its connection closes
/// or is handed over. Parts are delivered in the order of their arrival, until the connection closes.
package struct HTTPServerStateMachine: Sendable {
    package typealias Carrier = HTTPClientStateMachine.Carrier

    package enum Part: Equatable, Sendable {
        case head
        /// A part of the body, with its number of bytes.
        case body(Int)
        case end
    }

    /// The connection's use after a request.
    package enum NextUse: Sendable {
        case another
        /// Another request, but only if the client is asked for its body (`100 Continue`). Otherwise it is unknown
        /// whether the client still sends the body.
        case afterContinue
        case last
        /// The request asks for another protocol: it is the last, and the decoder holds back the bytes that follow.
        case otherProtocol
    }

    /// The recipient of the rest of a request.
    package enum Receiver: Sendable {
        /// Chosen when the first part after the head arrives.
        case undecided
        case collector
        case relay
        /// The rest of the request is dropped.
        case nobody
    }

    /// Whether the receiver of a body accepts more of it now.
    package enum Demand: Sendable { case wanted, held }

    /// The cause of an error: `malformed` if the client violated the protocol, so that the rest of its bytes cannot be
    /// read.
    package enum Cause: Sendable { case malformed, disconnection }

    // MARK: Actions

    package enum StepAction: Sendable { case proceed, refuse }

    package enum WaitingAction: Sendable {
        /// Pass the part to `take`.
        case take
        /// Queue the part behind the others.
        case wait
        /// Queue the part, and call `sliceStarted` in a later slice.
        case waitForSlice
    }

    package enum PartAction: Equatable, Sendable {
        /// Call `begin`, then admit or refuse the request.
        case begin
        /// Choose a receiver, and pass the part again.
        case choose
        case collect
        /// The collected request is complete: execute it.
        case executeRequest
        case relay
        /// Relay the end, then call `advance`.
        case relayEnd
        case drop(Action)
    }

    package enum Action: Equatable, Sendable {
        case none
        /// Extend the idle deadline.
        case extend
        /// Set a short deadline.
        case linger
        /// Release the request, extend the idle deadline, and take the waiting parts.
        case awaitRequest
        /// Release the receiver, extend the idle deadline, and read on.
        case dropRemainder
        case dropWaiting
        /// Release the receiver, drop the waiting parts, and call `outputFlushed` once everything is written.
        case finish
        case close
        case closeOutput
        /// Reset the stream, to stop the client's upload: the response is complete (RFC 9113, section 8.1).
        case reset
        /// Treat the error as the departure of the client, and close the channel.
        case leave
        /// Report to the responder that the client has left.
        case reportDeparture
        /// Report writability to the relay.
        case reportWritability
        /// Report the deadline to the relay.
        case reportTimer
        /// Respond with the problem, or abort a response that has begun.
        case abortRequest
        /// Respond with the problem: the request cannot be read.
        case refuse
    }

    // MARK: States

    private enum State {
        /// No request is in progress.
        case idle
        case exchanging(Exchange)
        /// The connection is closing. Everything that still arrives is dropped.
        case closing(Output, Remainder)
        /// The client's bytes belong to another handler.
        case handedOver
        case closed
    }

    /// A request and its response, until both are complete.
    private struct Exchange {
        enum Response { case awaited, begun, complete }
        /// Whether the rest of the request is awaited: not if the client has left, or its key was removed.
        enum Client { case present, departed }

        var nextUse: NextUse
        var receiver = Receiver.undecided
        var demand = Demand.wanted
        var remainder = Remainder.coming
        var response = Response.awaited
        var client = Client.present

        /// The part of the request that must be read before the connection closes.
        var awaitedRemainder: Remainder { remainder == .coming && client == .departed ? .read : remainder }

        mutating func ruleOutReuse() { if nextUse != .otherProtocol { nextUse = .last } }

        mutating func requestEnded() { remainder = nextUse == .otherProtocol ? .undecodable : .read }
    }

    /// The state of a request's remainder. It is `undecodable`, instead of `read`, if the decoder holds back the bytes
    /// after the request.
    private enum Remainder { case coming, read, undecodable }
    /// The state of the output before the connection's end: `flushed` once it was passed to the network.
    private enum Output { case pending, flushed }
    /// How waiting parts are processed. In `first`, the next request is processed even if the slice has no time left,
    /// so that each slice makes progress.
    private enum Drain { case none, inFlight, first, sliceAwaited }
    /// Whether the channel has requested a read that was not made yet.
    private enum Read { case none, requested }

    /// The total weight of waiting parts at which reading pauses.
    private static let maximumWaiting = 64 * 1024

    package let carrier: Carrier
    private var state = State.idle
    private var drain = Drain.none
    /// The total weight of the waiting parts.
    private var waitingWeight = 0
    private var read = Read.none
    package private(set) var unwanted: UnwantedBody

    package init(_ carrier: Carrier) {
        self.carrier = carrier
        unwanted = UnwantedBody(carrier)
    }

    private mutating func updateExchange(_ apply: (inout Exchange) -> Void) {
        guard case .exchanging(var exchange) = state else { return }
        apply(&exchange)
        state = .exchanging(exchange)
    }
}

// MARK: - Parts

extension HTTPServerStateMachine {
    /// Decides whether a decoded part is processed now, or waits.
    /// - Parameter mayBegin: whether the current slice has time for a request.
    package mutating func partReceived(
        _ part: Part, isWritable: @autoclosure () -> Bool, mayBegin: @autoclosure () -> Bool
    ) -> WaitingAction {
        let isFirst = waitingWeight == 0 && drain == .none
        switch state {
        case .exchanging(let exchange) where isFirst && exchange.remainder == .coming: return .take
        case .closing, .handedOver, .closed: return .take
        case .idle where isFirst && isWritable():
            guard part == .head, !mayBegin() else { return .take }
            drain = .sliceAwaited
        case .idle, .exchanging: break
        }
        waitingWeight += part.weight
        return drain == .sliceAwaited && isFirst ? .waitForSlice : .wait
    }

    /// Processes a part that does not have to wait.
    package mutating func take(_ part: Part) -> PartAction {
        switch (state, part) {
        case (.idle, .head): return .begin
        case (.exchanging(let exchange), _) where exchange.remainder == .coming: return take(part, exchange.receiver)
        case (.closing(let output, let remainder), .end): return .drop(requestEnded(remainder, output))
        case (_, .body(let count)): return .drop(drop(count))
        case (_, .head), (_, .end): return .drop(.none)
        }
    }

    private mutating func take(_ part: Part, _ receiver: Receiver) -> PartAction {
        if part == .end, receiver != .undecided { updateExchange { $0.requestEnded() } }
        switch (receiver, part) {
        case (.undecided, _): return .choose
        case (_, .head): return .drop(.none)
        case (.collector, .body): return .collect
        case (.collector, .end): return .executeRequest
        case (.relay, .body): return .relay
        case (.relay, .end): return .relayEnd
        case (.nobody, .end): return .drop(advance())
        case (.nobody, .body(let count)):
            let action = drop(count)
            return .drop(action == .none && carrier == .connection ? .extend : action)
        }
    }

    /// Counts `byteCount` dropped bytes of a body. A body over the limit ends its connection or stream, once the client
    /// has had time to read the response.
    package mutating func drop(_ byteCount: Int) -> Action {
        guard unwanted.drop(byteCount) else { return .none }
        guard carrier == .connection else { return unwanted.mayBeStopped ? .reset : .none }
        updateExchange { $0.ruleOutReuse() }
        return advance()
    }

    /// Whether the waiting parts are processed in a later slice.
    package var isSliceAwaited: Bool { drain == .sliceAwaited }

    /// Starts the awaited slice. The caller calls `nextWaiting` until it returns `wait`.
    package mutating func sliceStarted() { drain = .first }

    /// Begins to process the waiting parts.
    /// - Returns: `proceed` if the caller must call `nextWaiting`; `refuse` if the parts are already being processed,
    ///   or wait for a slice.
    package mutating func beginDraining() -> StepAction {
        guard drain == .none else { return .refuse }
        drain = .inFlight
        return .proceed
    }

    /// Returns the action for the first waiting part, `next`. `mayContinue` is whether the current slice has time for
    /// another request.
    package mutating func nextWaiting(
        _ next: Part?, isWritable: @autoclosure () -> Bool, mayContinue: @autoclosure () -> Bool
    ) -> WaitingAction {
        let isFirst = drain == .first
        drain = .none
        switch (state, next) {
        case (.idle, let next?) where isWritable():
            guard isFirst || mayContinue() else {
                drain = .sliceAwaited
                return .waitForSlice
            }
            waitingWeight -= next.weight
        case (.exchanging(let exchange), let next?) where exchange.remainder == .coming: waitingWeight -= next.weight
        case (.idle, _), (.exchanging, _), (.closing, _), (.handedOver, _), (.closed, _): return .wait
        }
        drain = .inFlight
        return .take
    }

    /// Records that the channel requests a read.
    package mutating func readRequested() { read = .requested }

    /// Takes the requested read, if it may be made now.
    /// - Returns: `proceed` if the caller must read.
    package mutating func takeRead(isWritable: @autoclosure () -> Bool) -> StepAction {
        guard read == .requested, waitingWeight < Self.maximumWaiting, !unwanted.isOverLimit else { return .refuse }
        switch state {
        // More requests would add to the responses that the client has not read.
        case .idle: guard isWritable() else { return .refuse }
        case .exchanging(let exchange):
            guard exchange.demand == .wanted, exchange.remainder != .undecodable else { return .refuse }
        case .closing(_, let remainder): guard remainder != .undecodable else { return .refuse }
        case .handedOver, .closed: break
        }
        read = .none
        return .proceed
    }
}

// MARK: - The request and its response

extension HTTPServerStateMachine {
    /// Begins a request. `contentLength` is the length of a stream's body, if the head contains it.
    package mutating func begin(_ nextUse: NextUse, contentLength: Int?) {
        guard case .idle = state else { return }
        state = .exchanging(Exchange(nextUse: nextUse))
        unwanted.begin(contentLength: contentLength)
    }

    /// Whether a receiver must be chosen before anything else arrives.
    package var isReceiverAwaited: Bool {
        if case .exchanging(let exchange) = state { exchange.receiver == .undecided } else { false }
    }

    /// Sets the receiver of the rest of the request.
    package mutating func setReceiver(_ receiver: Receiver, _ demand: Demand = .wanted) {
        updateExchange { ($0.receiver, $0.demand) = (receiver, demand) }
    }

    /// Sets whether the receiver accepts more of the body now.
    package mutating func setDemand(_ demand: Demand) { updateExchange { $0.demand = demand } }

    /// Records that the client sends no body, or sends it because it was asked to continue. The connection can then be
    /// reused.
    package mutating func continueResolved() {
        updateExchange { if $0.nextUse == .afterContinue { $0.nextUse = .another } }
    }

    /// Records that the response begins.
    /// - Returns: the connection's use after this request, which the response announces.
    package mutating func responseBegins() -> NextUse {
        updateExchange { $0.response = .begun }
        return if case .exchanging(let exchange) = state { exchange.nextUse } else { .last }
    }

    /// Whether the caller must report `responseWritten` if the response completes now.
    package var needsResponseWritten: Bool {
        switch state {
        case .exchanging(let exchange): carrier == .stream && exchange.remainder == .coming
        case .closing(_, let remainder): carrier == .stream && remainder == .coming
        case .idle, .handedOver, .closed: false
        }
    }

    /// Records that the response is complete. `advance` follows.
    package mutating func responseCompleted(endsConnection: Bool) {
        updateExchange { $0.response = .complete }
        if endsConnection, carrier == .connection { updateExchange { $0.ruleOutReuse() } }
    }

    /// Proceeds to the next request, or to the connection's end, if the response is complete and the request was read
    /// to its end.
    package mutating func advance() -> Action {
        guard case .exchanging(let exchange) = state, exchange.response == .complete else { return .none }
        switch exchange.nextUse {
        case .last, .otherProtocol: return finish(exchange.awaitedRemainder)
        case .another, .afterContinue: break
        }
        if exchange.remainder != .coming {
            state = .idle
            return .awaitRequest
        }
        // A stream closes on its own once both sides have ended it. The client's end may arrive until the response is
        // written.
        guard carrier == .stream || exchange.receiver != .nobody else { return .none }
        setReceiver(.nobody)
        return .dropRemainder
    }

    /// Records that the end of a stream's response was passed to the network.
    package mutating func responseWritten() -> Action {
        unwanted.responseWritten()
        return unwanted.mayBeStopped ? .reset : .none
    }

    /// Records that the relay hands the channel over to another handler.
    package mutating func handOver() -> StepAction {
        guard carrier == .connection, case .exchanging(let exchange) = state, exchange.response == .awaited else {
            return .refuse
        }
        (state, waitingWeight) = (.handedOver, 0)
        return .proceed
    }
}

// MARK: - The connection

extension HTTPServerStateMachine {
    private mutating func finish(_ remainder: Remainder = .read) -> Action {
        (state, waitingWeight) = (.closing(.pending, remainder), 0)
        return .finish
    }

    /// Records that all output was passed to the network. The rest of the last request may still arrive for a while.
    package mutating func outputFlushed() -> Action {
        guard case .closing(_, let remainder) = state else { return .none }
        guard remainder == .coming else { return close() }
        state = .closing(.flushed, remainder)
        // The half-close shows the client that no other response follows.
        return carrier == .connection ? .closeOutput : .none
    }

    /// Records the end of the last request while the connection is closing.
    private mutating func requestEnded(_ remainder: Remainder, _ output: Output) -> Action {
        guard output == .pending else { return close() }
        if remainder == .coming { state = .closing(output, .read) }
        return .none
    }

    /// Enters the closed state: the channel is closing, or has closed.
    @discardableResult
    package mutating func close() -> Action {
        state = .closed
        return .close
    }

    package func writabilityChanged(_ isWritable: Bool) -> Action {
        switch state {
        case .exchanging(let exchange) where exchange.receiver == .relay: .reportWritability
        case .exchanging(let exchange) where isWritable && exchange.response == .complete: .extend
        case .closing(.pending, _) where isWritable: .extend
        case .idle where isWritable: .awaitRequest
        case .idle, .exchanging, .closing, .handedOver, .closed: .none
        }
    }

    /// Handles the end of the client's input.
    package mutating func clientLeft() -> Action {
        updateExchange { $0.client = .departed }
        if case .closing(let output, let remainder) = state { return requestEnded(remainder, output) }
        return finishUnlessResponding() ?? .reportDeparture
    }

    /// Rules out further requests, and ends the connection unless a response is still to come.
    /// - Returns: `nil` if a response is still to come.
    private mutating func finishUnlessResponding() -> Action? {
        updateExchange { $0.ruleOutReuse() }
        switch state {
        case .idle: return finish()
        case .exchanging(let exchange): return exchange.response == .complete ? finish(exchange.awaitedRemainder) : nil
        case .handedOver, .closing, .closed: return Action.none
        }
    }

    /// Handles an error of the channel or of the decoder.
    package mutating func errorCaught(_ cause: Cause) -> Action {
        switch (state, cause) {
        // Earlier requests that wait until the client reads would have to be answered first.
        case (.idle, .malformed) where waitingWeight == 0:
            state = .exchanging(Exchange(nextUse: .last, receiver: .nobody))
            return .refuse
        case (.idle, .malformed): return finish()
        case (.exchanging(let exchange), .malformed) where exchange.client == .present:
            if let action = finishUnlessResponding() { return action }
            guard exchange.remainder == .coming else {
                // A complete request is answered first.
                waitingWeight = 0
                return .dropWaiting
            }
            setReceiver(.nobody)
            return .abortRequest
        case (.idle, .disconnection), (.exchanging, _), (.closing, _), (.handedOver, _), (.closed, _): return .leave
        }
    }

    /// Handles the expiry of the connection's deadline.
    package mutating func deadlineReached() -> Action {
        guard case .exchanging(let exchange) = state, exchange.receiver == .relay, exchange.response != .complete else {
            return close()
        }
        return .reportTimer
    }

    /// Prepares the sidecar's shutdown: accepts no further request. A client that does not read cannot delay it.
    package mutating func shutDown(isWritable: @autoclosure () -> Bool) -> Action {
        updateExchange { $0.ruleOutReuse() }
        switch state {
        case .idle: return finish()
        case .exchanging(let exchange) where exchange.receiver == .relay: return .none
        // All requests are answered, so the output gets a short deadline.
        case .closing(.pending, .read): return .linger
        case .exchanging, .closing: return isWritable() ? .none : .linger
        case .handedOver: return close()
        case .closed: return .none
        }
    }

    /// Ends the requests of a caller whose API key was removed.
    package mutating func keyRevoked() -> Action {
        if case .handedOver = state { return close() }
        if carrier == .connection, let action = finishUnlessResponding() { return action }
        guard case .exchanging(let exchange) = state, exchange.response != .complete else { return .none }
        updateExchange { $0.client = .departed }
        // Event streams watch their caller's key, and end without help. A client that does not read gets a short
        // deadline.
        return exchange.response == .awaited || exchange.receiver == .relay ? .abortRequest : .linger
    }
}

extension HTTPServerStateMachine.Part {
    /// The part's contribution to the weight of the waiting parts: roughly its bytes.
    fileprivate var weight: Int { if case .body(let count) = self { max(1, count) } else { 256 } }
}
