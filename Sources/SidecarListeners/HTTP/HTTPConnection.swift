internal import DequeModule
internal import InterlockHTTP
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTP2
internal import SidecarTelemetry

/// A client's HTTP/1.1 connection, which carries one request after another, or one stream of an HTTP/2 connection,
/// which carries one request. Passes each request through the gate to its route, and executes the actions of
/// `HTTPServerStateMachine`. Confined to the coordinator's event loop.
final class HTTPConnection: ChannelDuplexHandler, TimedConnection, HTTPRespondingConnection, HTTPListenerConnection {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    private typealias Machine = HTTPServerStateMachine

    /// An event after which no other request arrives.
    private enum LastEvent {
        case inputClosed
        case error(any Error)
    }

    /// The progress of one read of the channel. Flushes wait for its end, so that responses to requests that arrived
    /// together are sent together.
    private enum Delivery {
        case none
        case inFlight
        case flushDue
    }

    /// The time for which the client may read its response before the connection closes. Meanwhile input is read and
    /// dropped, because closing with unread input could destroy the response.
    private static let linger = TimeAmount.seconds(1)
    /// The charge for a request that a task handles: the task also uses the event loop, outside of the connection's
    /// slice.
    private static let costOfTask = TimeAmount.microseconds(250)
    /// The length of reads of an unwanted body, in bytes.
    private static let smallReadLength = 4 * 1024

    private let listener: HTTPListenerContext
    private let slotKind: HTTPListenerContext.SlotKind
    private let slices: ConnectionSlices
    /// The HTTP/2 connection that this is a stream of; `nil` for an HTTP/1.1 connection.
    private let parent: HTTP2Connection?
    let firstRequestDeadline: NIODeadline
    private let fields: FieldBytes
    let writer: ResponseWriter
    private let presence = ClientPresence()
    var context: ChannelHandlerContext?
    var timer: LazyTimer?
    private var machine: Machine
    /// The request whose body is awaited.
    private var request: (call: HTTPCall, match: HTTPRouter.Match)?
    private var responder: HTTPResponder?
    private var relay: (any HTTPRelay)?
    /// The parts that wait until the machine takes them.
    private var waiting: Deque<HTTPServerRequestPart> = []
    /// The events that are handled after the waiting requests.
    private var lastEvents: [LastEvent] = []
    private var delivery = Delivery.none
    private var readLength = UnwantedBody.ReadLength.usual
    /// The caller of the last accepted request whose route needs a key; `nil` if there was none.
    private var caller: AccessControl.Caller?
    /// The authority of the last request that passed the gate, and that request's client as an element of `Forwarded`.
    private var lastAuthority: (authority: String, forwarded: String)?
    /// The target and route of the last request. Most clients repeat their requests.
    private var lastMatch: (method: HTTPMethod, uri: String, target: HTTPTarget, match: HTTPRouter.Match)?

    /// Creates the handler of a connection or of a stream.
    /// - Parameter parent: the HTTP/2 connection that this is a stream of; `nil` for an HTTP/1.1 connection.
    init(
        listener: HTTPListenerContext, slotKind: HTTPListenerContext.SlotKind, slices: ConnectionSlices, parent: HTTP2Connection?,
        firstRequestDeadline: NIODeadline
    ) {
        self.listener = listener
        self.slotKind = slotKind
        self.slices = slices
        self.parent = parent
        fields = FieldBytes(isHTTP2: parent != nil)
        writer = ResponseWriter(isHTTP2: parent != nil)
        machine = Machine(parent == nil ? .connection : .stream)
        self.firstRequestDeadline = firstRequestDeadline
    }

    /// Installs the codec and this handler in a connection's pipeline.
    static func installOnConnection(
        _ channel: any Channel, listener: HTTPListenerContext, slotKind: HTTPListenerContext.SlotKind, slices: ConnectionSlices,
        firstRequestDeadline: NIODeadline
    ) throws -> HTTPConnection {
        let connection = HTTPConnection(
            listener: listener, slotKind: slotKind, slices: slices, parent: nil, firstRequestDeadline: firstRequestDeadline)
        let pipeline = channel.pipeline.syncOperations
        let decoder = HTTPRequestDecoder(
            leftOverBytesStrategy: .forwardBytes, informationalResponseStrategy: .drop,
            limitConfiguration: HTTPListenerContext.limits
        )
        try pipeline.addHandlers(
            SliceGate(slices, .http1, keeping: connection.fields), ByteToMessageHandler(decoder), connection)
        return connection
    }

    var date: String { listener.date.now() }

    var isSliceAwaited: Bool { machine.isSliceAwaited }

    private var isWritable: Bool { context?.channel.isWritable ?? false }

    /// Extends the idle deadline.
    private func extend() { timer?.set(listener.now + listener.idleTimeout) }

    private func perform(_ action: Machine.Action, _ problem: HTTPProblem? = nil) {
        switch action {
        case .none: break
        case .extend: extend()
        case .linger: timer?.set(listener.now + Self.linger)
        case .awaitRequest:
            (responder, relay) = (nil, nil)
            extend()
            takeWaiting()
        case .dropRemainder:
            (request, relay) = (nil, nil)
            extend()
            readIfAllowed()
        case .dropWaiting: waiting = []
        case .finish: finish()
        case .close: context?.close(promise: nil)
        // Over TLS, closing one direction would close both.
        case .closeOutput: if !listener.isTLS { context?.close(mode: .output, promise: nil) }
        case .reset: context?.triggerUserOutboundEvent(HTTP2EndOfStream.Unread(), promise: nil)
        case .leave:
            clientDisconnected()
            perform(machine.close())
        case .reportDeparture: responder?.clientDisconnected()
        case .reportWritability: relay?.writabilityChanged(isWritable)
        case .reportTimer: relay?.timerFired()
        case .abortRequest: if let problem { responder?.abort(problem) }
        case .refuse:
            responder = makeResponder(to: HTTPRequestHead(version: .http1_1, method: .GET, uri: "/"), nil)
            if let problem { refuse(problem, hasMore: true) }
        }
    }

    /// Closes the connection once everything is written.
    private func finish() {
        (request, relay, waiting) = (nil, nil, [])
        extend()
        if delivery == .flushDue { delivery = .inFlight }
        guard let context else { return }
        if parent == nil {
            let written = context.eventLoop.makePromise(of: Void.self)
            written.futureResult.assumeIsolated().whenComplete { [self] _ in outputFlushed() }
            writer.write(.body(.byteBuffer(ByteBuffer())), to: context, promise: written)
            writer.flush(context)
        } else {
            // A stream accepts no writes after its end.
            writer.flush(context)
            outputFlushed()
        }
        readIfAllowed()
    }

    private func outputFlushed() {
        perform(.linger)
        perform(machine.outputFlushed())
    }

    // MARK: Channel

    func connectionEnded() {
        machine.close()
        (request, waiting, lastEvents) = (nil, [], [])
        presence.disconnection.fire()
        let responder = responder
        (self.responder, relay) = (nil, nil)
        responder?.connectionEnded()
        if let parent { parent.streamEnded(self) } else { listener.connectionClosed(self) }
    }

    /// Records that the network reports the client as unreachable.
    func markUnreachable() { presence.markUnreachable() }

    func read(context: ChannelHandlerContext) {
        machine.readRequested()
        readIfAllowed()
    }

    private func readIfAllowed() { if machine.takeRead(isWritable: isWritable) == .proceed { context?.read() } }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if delivery == .none { delivery = .inFlight }
        let part = fields.decoded(unwrapInboundIn(data))
        let action = machine.partReceived(part.kind, isWritable: isWritable, mayBegin: slices.beginWork())
        guard action != .take else { return take(part) }
        waiting.append(part)
        if action == .waitForSlice { awaitSlice() }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        let isFlushDue = delivery == .flushDue
        delivery = .none
        allReceived()
        if isFlushDue { flush() }
        context.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        let isWritable = isWritable
        responder?.writabilityChanged(isWritable)
        perform(machine.writabilityChanged(isWritable))
        context.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { handle(.inputClosed) }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The decoder reads nothing after an error.
        fields.end()
        // The client has its response, so only a little of the remaining input is read.
        if case ByteToMessageDecoderError.dataReceivedInErrorState(_, let bytes) = error {
            return drop(machine.drop(bytes.readableBytes))
        }
        if PeerLiveness.indicatesUnreachablePeer(error) { markUnreachable() }
        handle(.error(error))
    }

    /// Handles the client's departure or an error, after the requests that arrived before it.
    private func handle(_ event: LastEvent) {
        guard !isSliceAwaited else { return lastEvents.append(event) }
        switch event {
        case .inputClosed: clientDisconnected()
        case .error(let error):
            let isMalformed = parent == nil ? error is HTTPParserError : !(error is NIOHTTP2Errors.StreamClosed)
            let failure = machine.errorCaught(isMalformed ? .malformed : .disconnection)
            perform(failure, HTTPProblem(malformed: error, HTTPListenerContext.limits))
        }
    }

    private func clientDisconnected() {
        guard context != nil else { return }
        presence.disconnection.fire()
        perform(machine.clientLeft())
    }

    func deadlineReached() { perform(machine.deadlineReached()) }

    func shutDown() {
        let action = machine.shutDown(isWritable: isWritable)
        perform(action)
        if action == .finish { perform(.linger) }
    }

    func closeIfKeyRevoked(_ isRemoved: (AccessControl.Caller) -> Bool) {
        guard context != nil, let caller, isRemoved(caller) else { return }
        let action = machine.keyRevoked()
        if action != .none { presence.disconnection.fire() }
        perform(action, .keyRemoved)
    }

    // MARK: Requests

    private func take(_ part: HTTPServerRequestPart) {
        switch (machine.take(part.kind), part) {
        case (.begin, .head(let head)): begin(head)
        case (.choose, _):
            chooseReceiver(hasBody: part.kind != .end)
            take(part)
        case (.collect, .body(let bytes)): collect(bytes)
        case (.executeRequest, _): executeRequest()
        case (.relay, .body(let bytes)): relay?.partReceived(bytes)
        case (.relayEnd, .end(let trailers)):
            relay?.endReceived(trailers)
            perform(machine.advance())
        case (.drop(let action), _): drop(action)
        case (.begin, _), (.collect, _), (.relay, _), (.relayEnd, _): break
        }
    }

    private func drop(_ action: Machine.Action) {
        setReadLength()
        perform(action)
    }

    /// Sets the size of a read from the socket, which is small for an unwanted body.
    private func setReadLength() {
        let length = machine.unwanted.readLength
        guard length != readLength else { return }
        readLength = length
        let allocator: any RecvByteBufferAllocator =
            length == .small
            ? FixedSizeRecvByteBufferAllocator(capacity: Self.smallReadLength) : AdaptiveRecvByteBufferAllocator()
        try? context?.channel.syncOptions?.setOption(.recvAllocator, value: allocator)
    }

    private func takeWaiting() { if machine.beginDraining() == .proceed { drainWaiting() } }

    private func drainWaiting() {
        while let part = nextWaiting() { take(part) }
        if delivery == .none { allReceived() }
        readIfAllowed()
    }

    private func nextWaiting() -> HTTPServerRequestPart? {
        let action = machine.nextWaiting(waiting.first?.kind, isWritable: isWritable, mayContinue: slices.mayContinue)
        if action == .waitForSlice { awaitSlice() }
        return action == .take ? waiting.popFirst() : nil
    }

    /// Takes the waiting requests, and then the waiting events, in a later slice.
    private func awaitSlice() {
        slices.later { [self] in
            machine.sliceStarted()
            drainWaiting()
            guard !isSliceAwaited else { return }
            let events = lastEvents
            lastEvents = []
            for event in events { handle(event) }
            parent?.sliceUsed()
        }
    }

    /// Handles the point at which everything that has arrived is processed.
    private func allReceived() {
        if machine.isReceiverAwaited { chooseReceiver(hasBody: true) }
        relay?.readCompleted()
    }

    private func makeResponder(to head: HTTPRequestHead, _ match: HTTPRouter.Match?, _ span: Span? = nil) -> HTTPResponder? {
        context.map { context in
            HTTPResponder(
                to: head, of: self, context: context, counters: match?.counters, path: match?.route.path ?? "", span: span,
                logger: listener.logger)
        }
    }

    private func begin(_ head: HTTPRequestHead) {
        extend()
        let contentLength = parent.flatMap { _ in head.headers.first(name: "Content-Length").flatMap { Int($0) } }
        machine.begin(nextUse(after: head), contentLength: contentLength)
        setReadLength()
        do throws(HTTPProblem) {
            let (target, match, forwarded) = try find(head)
            do throws(HTTPProblem) {
                try accept(head, target, match, forwarded: forwarded)
            } catch {
                guard error.code != .unauthenticated else { throw error }
                dropRemainder()
                responder = responder ?? makeResponder(to: head, match)
                responder?.fail(error)
            }
        } catch {
            dropRemainder()
            responder = makeResponder(to: head, nil)
            if error.code == .unauthenticated, HTTPGate.presentsKey(head.headers) {
                listener.refusedLogins.record(from: context?.channel.remoteAddress)
            }
            let hasMore = HTTPGate.hasBody(head)
            if error.code == .unknownPath, var redirect = HTTPRouter.redirect(head) {
                redirect.endsConnection = hasMore
                responder?(redirect)
            } else {
                refuse(error, hasMore: hasMore)
            }
        }
    }

    private func nextUse(after head: HTTPRequestHead) -> Machine.NextUse {
        if parent == nil {
            if HTTPGate.requestsUpgrade(head) { return .otherProtocol }
            guard slotKind == .ordinary, head.isKeepAlive, head.version != .http1_0 else { return .last }
        }
        return HTTPCall.awaitsContinue(head) ? .afterContinue : .another
    }

    /// Checks a request's head, and finds its route.
    /// - Returns: the request's target and route, and its client as an element of `Forwarded`.
    private func find(_ head: HTTPRequestHead) throws(HTTPProblem) -> (HTTPTarget, HTTPRouter.Match, forwarded: String) {
        if parent != nil {
            try HTTPGate.rejectMalformed(head)
        } else {
            try HTTPGate.rejectUnsupportedTransferCoding(head.headers)
        }
        let uri = try HTTPTarget.uri(of: head)
        let cached = lastMatch.flatMap { $0.uri == uri && $0.method == head.method ? $0 : nil }
        let target = cached?.target ?? HTTPTarget(uri)
        let forwarded = try admit(head, target)
        let match: HTTPRouter.Match
        if let cached {
            match = cached.match
        } else {
            match = try listener.router.match(method: head.method, path: target.path)
            lastMatch = (head.method, uri, target, match)
        }
        guard slotKind == .ordinary || match.route.isServedWhenFull else { throw HTTPProblem.listenerIsFull }
        return (target, match, forwarded)
    }

    /// Accepts a request whose caller the route admits, and creates its call and its responder.
    private func accept(
        _ head: HTTPRequestHead, _ target: HTTPTarget, _ match: HTTPRouter.Match, forwarded: String
    ) throws(HTTPProblem) {
        let caller = try listener.gate.admit(head.headers, to: match.route.admission)
        slices.clientName = caller.clientName
        recordCaller(match.route.admission == .anyone ? nil : caller)
        let span = match.route.isTraced ? listener.tracer?.begin(head, target, match.route) : nil
        let call = HTTPCall(
            .init(
                head: head, target: target, parameters: match.parameters, caller: caller, access: listener.gate.access,
                presence: presence, shutdown: listener.shutdown, forwarded: forwarded,
                span: span.flatMap { span in context.map { NIOLoopBound(span, eventLoop: $0.eventLoop) } }))
        responder = makeResponder(to: head, match, span)
        request = (call, match)
        if case .relay = match.route.handler { return }
        let length = call.header("Content-Length").flatMap { Int($0) } ?? 0
        guard length <= HTTPLimits.bodyBytes else { throw HTTPCall.tooLarge }
        if call.awaitsContinue { responder?.writeContinue() }
    }

    /// Records that a request was accepted.
    private func recordCaller(_ caller: AccessControl.Caller?) {
        if let caller { self.caller = caller }
        if let parent { parent.clientAdmitted(caller) } else { listener.clientAdmitted(self, caller) }
    }

    /// Checks that a request is addressed to this host, and does not come from a web page of another site.
    /// - Returns: the client, as an element of `Forwarded`.
    private func admit(_ head: HTTPRequestHead, _ target: HTTPTarget) throws(HTTPProblem) -> String {
        let authority = try HTTPGate.authority(of: head, target)
        if let lastAuthority, lastAuthority.authority == authority {
            try HTTPGate.rejectOtherSites(head.headers, authority: authority)
            return lastAuthority.forwarded
        }
        try listener.gate.rejectOtherSites(head.headers, authority: authority)
        let forwarded = Forwarded.element(
            for: context?.channel.remoteAddress?.ipAddress, host: authority, isTLS: listener.isTLS)
        lastAuthority = (authority, forwarded)
        return forwarded
    }

    /// Refuses a request that has no route.
    private func refuse(_ problem: HTTPProblem, hasMore: Bool) {
        listener.router.rejections.count(problem.code)
        listener.logger.log(.httpRefused, ["code": problem.code.rawValue])
        var response = HTTPResponse(problem)
        response.endsConnection = hasMore
        responder?(response)
    }

    private func dropRemainder() {
        request = nil
        machine.setReceiver(.nobody)
    }

    private func chooseReceiver(hasBody: Bool) {
        if !hasBody { machine.continueResolved() }
        guard let (call, match) = request, let responder else { return dropRemainder() }
        guard case .relay(let make) = match.route.handler else { return machine.setReceiver(.collector) }
        request = nil
        do {
            let relay = try make(call, hasBody, responder)
            self.relay = relay
            machine.setReceiver(.relay, hasBody ? .held : .wanted)
            relay.start()
        } catch {
            dropRemainder()
            responder.fail(error)
        }
    }

    private func collect(_ part: ByteBuffer) {
        let length = request?.call.body.readableBytes ?? 0
        guard length + part.readableBytes <= HTTPLimits.bodyBytes else {
            dropRemainder()
            responder?.fail(HTTPCall.tooLarge)
            return
        }
        extend()
        // Most bodies arrive in one part, which is not copied.
        if length == 0 { request?.call.body = part } else { request?.call.body.writeImmutableBuffer(part) }
    }

    private func executeRequest() {
        timer?.clear()
        guard let (call, match) = request, let responder, let eventLoop = context?.eventLoop else { return }
        request = nil
        switch match.route.handler {
        case .onEventLoop(let handle):
            do {
                try handle(call, responder)
            } catch {
                responder.fail(error)
            }
        case .inTask(let handle):
            slices.charge(Self.costOfTask)
            let responder = NIOLoopBound(responder, eventLoop: eventLoop)
            Task {
                do {
                    let response = try await handle(call)
                    eventLoop.execute { responder.value(response) }
                } catch {
                    eventLoop.execute { responder.value.fail(error) }
                }
            }
        case .relay: break
        }
    }

    // MARK: Responses

    func responseBegins() -> Bool { machine.responseBegins() == .another }

    func continueSent() { machine.continueResolved() }

    var needsResponseWritten: Bool { machine.needsResponseWritten }

    func responseEnded(endsConnection: Bool) {
        machine.responseCompleted(endsConnection: endsConnection)
        if parent == nil { flushAfterRead() }
        perform(machine.advance())
        // A stream is flushed after `advance`, whose output is then sent together with the end of the response.
        if parent != nil { flushAfterRead() }
    }

    /// Flushes now, or at the end of the read in progress.
    private func flushAfterRead() {
        if delivery == .none { flush() } else { delivery = .flushDue }
    }

    private func flush() { if let context { writer.flush(context) } }

    func responseWritten() {
        perform(.linger)
        perform(machine.responseWritten())
    }

    func abort() { perform(machine.close()) }

    func handOver(to handler: any ChannelHandler) throws {
        guard let context, machine.handOver() == .proceed else { throw ChannelError.ioOnClosedChannel }
        (responder, relay, waiting) = (nil, nil, [])
        timer?.clear()
        let pipeline = context.pipeline.syncOperations
        let decoder = try pipeline.context(handlerType: ByteToMessageHandler<HTTPRequestDecoder>.self)
        fields.end()
        try pipeline.addHandler(handler, position: .before(self))
        // Bytes that arrived after the request are forwarded to the new handler.
        pipeline.removeHandler(context: decoder, promise: nil)
        readIfAllowed()
    }

    func setReading(_ isWanted: Bool) {
        machine.setDemand(isWanted ? .wanted : .held)
        readIfAllowed()
    }

    func setTimer(_ deadline: NIODeadline) { timer?.set(deadline) }
}

extension HTTPServerRequestPart {
    fileprivate var kind: HTTPServerStateMachine.Part {
        switch self {
        case .head: .head
        case .body(let bytes): .body(bytes.readableBytes)
        case .end: .end
        }
    }
}
