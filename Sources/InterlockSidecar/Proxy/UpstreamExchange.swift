internal import AsyncHTTPClient
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOHTTP1

/// One call to an upstream, between whoever carries it out and whoever relays its answer.
///
/// The one who carries it out says what arrives and holds back while too much of it is unread; the one who relays takes the
/// head, then the body in pieces. Whatever ends the call, an error, a timeout or the client leaving, ends it for both.
final class UpstreamExchange: Sendable {
    /// What of the body has arrived.
    struct Batch: Sendable {
        var buffers: [ByteBuffer]
        var isLast: Bool
    }

    /// From so many unread bytes on, no more are asked for.
    private static let mostUnread = 64 * 1024

    private struct State {
        var stage = ProxyFailure.Stage.connecting
        var head: HTTPResponseHead?
        var chunks: [ByteBuffer] = []
        var unread = 0
        /// Fulfilled when there is room for more.
        var demand: EventLoopPromise<Void>?
        var end: Result<Void, ProxyFailure>?
        var waiter: CheckedContinuation<Void, Never>?
        var hasNews = false
        var cancel: (@Sendable () -> Void)?
        var timers: [Scheduled<Void>] = []
        /// When the request was sent to its end; `nil`: it has not been.
        var sentAllAt: NIODeadline?

        /// Whoever waits for something to happen.
        mutating func tell() -> CheckedContinuation<Void, Never>? {
            defer { waiter = nil }
            if waiter == nil { hasNews = true }
            return waiter
        }
    }

    private let state = NIOLockedValueBox(State())
    private let eventLoop: any EventLoop
    private let firstByteTimeout: TimeAmount

    /// - Parameters:
    ///   - deadline: for the whole call; then it has failed, by whose fault depends on who is waited for.
    ///   - isAwaitingClient: whether the rest of the request is still to come from the client.
    init(
        eventLoop: any EventLoop, firstByteTimeout: TimeAmount, deadline: NIODeadline,
        isAwaitingClient: @escaping @Sendable () -> Bool = { false }
    ) {
        self.eventLoop = eventLoop
        self.firstByteTimeout = firstByteTimeout
        let timer = eventLoop.scheduleTask(deadline: deadline) { [self] in
            // What has arrived and nobody takes: the client does not read.
            let isUnread = state.withLockedValue { $0.unread > 0 }
            abort(isUnread || isAwaitingClient() ? .clientIsSlow : .total)
        }
        keep(timer)
    }

    // MARK: Carrying out

    /// The call is under way; `cancel` gives it up.
    func began(cancel: @escaping @Sendable () -> Void) {
        let isOver = state.withLockedValue { state in
            guard state.end == nil else { return true }
            state.cancel = cancel
            return false
        }
        if isOver { cancel() }
    }

    /// A connection stands, and the request's head is on its way.
    func sentHead() {
        state.withLockedValue { state in
            if state.stage == .connecting { state.stage = .sent }
        }
    }

    /// The request is sent to its end: from now on the answer's first byte is awaited.
    func sentAll() {
        let isAwaited = state.withLockedValue { state in
            state.sentAllAt = .now()
            return state.head == nil && state.stage != .answering && state.end == nil
        }
        if isAwaited { keep(eventLoop.scheduleTask(in: firstByteTimeout) { [self] in failUnlessAnswering() }) }
    }

    func received(_ head: HTTPResponseHead) {
        let waiter = state.withLockedValue { state in
            guard state.end == nil else { return nil as CheckedContinuation<Void, Never>? }
            state.stage = .answering
            state.head = head
            return state.tell()
        }
        waiter?.resume()
    }

    /// - Returns: fulfilled when more may come.
    func received(_ chunk: ByteBuffer) -> EventLoopFuture<Void> {
        let (waiter, room) = state.withLockedValue { state in
            guard state.end == nil else { return (nil as CheckedContinuation<Void, Never>?, nil as EventLoopFuture<Void>?) }
            state.chunks.append(chunk)
            state.unread += chunk.readableBytes
            if state.unread >= Self.mostUnread, state.demand == nil { state.demand = eventLoop.makePromise() }
            return (state.tell(), state.demand?.futureResult)
        }
        waiter?.resume()
        return room ?? eventLoop.makeSucceededVoidFuture()
    }

    /// The call is over; only the first end counts.
    func ended(_ result: Result<Void, any Error>) {
        end { stage in result.mapError { ProxyFailure($0, at: stage) } }
    }

    /// For how many milliseconds the upstream has had the whole request; `nil`: it has not got it yet, and nothing can be said.
    var millisecondsSinceSent: Int64? {
        state.withLockedValue { $0.sentAllAt.map { (NIODeadline.now() - $0).nanoseconds / 1_000_000 } }
    }

    // MARK: Relaying

    /// Waits for the answer to begin.
    func head() async throws(ProxyFailure) -> HTTPResponseHead {
        while true {
            let found: Result<HTTPResponseHead, ProxyFailure>? = state.withLockedValue { state in
                if let head = state.head { return .success(head) }
                if case .failure(let failure) = state.end { return .failure(failure) }
                return nil
            }
            if let found { return try found.get() }
            await news()
        }
    }

    /// The body to its end, if it is all here.
    func wholeBody() -> ByteBuffer? {
        state.withLockedValue { state in
            guard case .success = state.end else { return nil }
            defer { state.chunks = [] }
            if state.chunks.count < 2 { return state.chunks.first ?? ByteBuffer() }
            var body = ByteBuffer()
            body.reserveCapacity(state.unread)
            for chunk in state.chunks { body.writeImmutableBuffer(chunk) }
            return body
        }
    }

    /// Waits for more of the body.
    func next() async throws(ProxyFailure) -> Batch {
        while true {
            let (found, demand) = state.withLockedValue { state in
                let found: Result<Batch, ProxyFailure>?
                switch state.end {
                case .failure(let failure): found = .failure(failure)
                case .success: found = .success(Batch(buffers: state.chunks, isLast: true))
                case nil: found = state.chunks.isEmpty ? nil : .success(Batch(buffers: state.chunks, isLast: false))
                }
                guard found != nil else { return (found, nil as EventLoopPromise<Void>?) }
                state.chunks = []
                state.unread = 0
                defer { state.demand = nil }
                return (found, state.demand)
            }
            demand?.succeed()
            if let found { return try found.get() }
            await news()
        }
    }

    /// Ends the call for this reason, if it is not over.
    func abort(_ failure: ProxyFailure) {
        let cancel = state.withLockedValue { $0.end == nil ? $0.cancel : nil }
        end { _ in .failure(failure) }
        cancel?()
    }

    // MARK: Both

    private func failUnlessAnswering() {
        guard state.withLockedValue({ $0.stage != .answering }) else { return }
        abort(.firstByte)
    }

    private func keep(_ timer: Scheduled<Void>) {
        let isOver = state.withLockedValue { state in
            if state.end == nil { state.timers.append(timer) }
            return state.end != nil
        }
        if isOver { timer.cancel() }
    }

    private func end(_ result: (ProxyFailure.Stage) -> Result<Void, ProxyFailure>) {
        let (waiter, demand, timers) = state.withLockedValue { state in
            guard state.end == nil else {
                return (nil as CheckedContinuation<Void, Never>?, nil as EventLoopPromise<Void>?, [] as [Scheduled<Void>])
            }
            state.end = result(state.stage)
            // It holds the call, which holds this exchange.
            state.cancel = nil
            defer { (state.demand, state.timers) = (nil, []) }
            return (state.tell(), state.demand, state.timers)
        }
        for timer in timers { timer.cancel() }
        demand?.succeed()
        waiter?.resume()
    }

    private func news() async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLockedValue { state in
                defer { state.hasNews = false }
                if !state.hasNews { state.waiter = continuation }
                return state.hasNews
            }
            if isThere { continuation.resume() }
        }
    }
}

/// Tells an exchange what becomes of a request without a body. No task, no thread change: it is the way of most calls.
final class UpstreamDelegate: HTTPClientResponseDelegate {
    typealias Response = Void

    private let exchange: UpstreamExchange

    init(exchange: UpstreamExchange) {
        self.exchange = exchange
    }

    func didSendRequestHead(task: HTTPClient.Task<Void>, _ head: HTTPRequestHead) { exchange.sentHead() }

    func didSendRequest(task: HTTPClient.Task<Void>) { exchange.sentAll() }

    func didReceiveHead(task: HTTPClient.Task<Void>, _ head: HTTPResponseHead) -> EventLoopFuture<Void> {
        exchange.received(head)
        return task.eventLoop.makeSucceededVoidFuture()
    }

    func didReceiveBodyPart(task: HTTPClient.Task<Void>, _ buffer: ByteBuffer) -> EventLoopFuture<Void> {
        exchange.received(buffer)
    }

    func didReceiveError(task: HTTPClient.Task<Void>, _ error: any Error) { exchange.ended(.failure(error)) }

    func didFinishRequest(task: HTTPClient.Task<Void>) throws { exchange.ended(.success(())) }
}
