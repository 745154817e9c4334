internal import DequeModule
internal import InterlockHTTP
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTP2

/// One client of the HTTP door: takes one request after another through the gate to its route; or one stream of an HTTP/2 connection,
/// which brings one request. Confined to the coordinator's event loop.
final class HTTPConnection: ChannelDuplexHandler, TimedConnection, HTTPReplyingConnection, HTTPDoorConnection {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart

    /// What becomes of the request that is being read.
    private enum Request {
        /// Its head is awaited.
        case none
        /// Its head has come; what follows decides.
        case begun(HTTPCall, HTTPRouter.Match)
        /// Its body is collected for a route that wants it whole.
        case collected(HTTPCall, HTTPRouter.Match)
        case relayed
        /// Nobody wants the rest.
        case dropped
        /// It has come to its end.
        case whole
    }

    /// With so many bytes of requests that wait for an earlier one, reading pauses.
    private static let mostWaiting = 64 * 1024
    /// What a part counts as that is not of a body.
    private static let weightOfPart = 256
    /// How long the rest of a request that nobody wants is read and dropped before a connection is closed on it, since with bytes on
    /// their way the client would not get to read its answer; and how long a client may take for what it did not read.
    private static let linger = TimeAmount.seconds(1)
    /// The charge for a request that a task answers: it runs on the event loop, outside of the connection's slice.
    private static let costOfTask = TimeAmount.microseconds(250)

    private let door: HTTPDoorContext
    private let place: HTTPDoorContext.Place
    private let turn: ClientTurn
    /// Of which this is a stream; `nil`: it is a connection of its own.
    private let parent: HTTP2Connection?
    let firstRequestBy: NIODeadline
    private let fields: FieldBytes
    let writer: ResponseWriter
    private let peer = PeerPresence()
    var context: ChannelHandlerContext?
    var alarm: LazyAlarm?
    private var request = Request.none
    private var reply: HTTPReply?
    private var relay: (any HTTPRelay)?
    private var isKept = true
    /// The client sends the body of the present request only when it is told to, and has not been.
    private var isContinueAwaited = false
    /// What has come of requests behind the one that is being answered.
    private var waiting: Deque<HTTPServerRequestPart> = []
    private var waitingBytes = 0
    private var isTakingWaiting = false
    private(set) var isTurnAwaited = false
    /// Events that came behind the requests that wait for a slice.
    private var stepsBehindTurn: [() -> Void] = []
    /// The decoder reads nothing behind the present request, and would keep what came.
    private var isDecoderDone = false
    private var isReadWanted = true
    private var isReadAsked = false
    private var isReading = false
    private var isFlushPlanned = false
    /// Nothing more is answered; what still comes is dropped.
    private var isClosing = false
    /// Its bytes are another handler's.
    private var isHandedOver = false
    /// What was to be written before the end is written.
    private var isAnswerOut = false
    /// Nothing more of a request comes before the end.
    private var isRestRead = false
    private var unwanted: UnwantedBody
    /// Whether the end of the present answer was written to the network.
    private var isAnswerWritten = false
    /// The caller of the last accepted request; `nil` if there was none, or none needed a key.
    private var caller: AccessControl.Caller?
    /// Who was let in last.
    private var admitted: (authority: String, forwarded: String)?
    /// What was asked for last, which mostly is asked for again.
    private var found: (method: HTTPMethod, uri: String, target: HTTPTarget, match: HTTPRouter.Match)?

    /// - Parameter parent: the connection that it is a stream of.
    init(
        door: HTTPDoorContext, place: HTTPDoorContext.Place, turn: ClientTurn, parent: HTTP2Connection?,
        firstRequestBy: NIODeadline
    ) {
        self.door = door
        self.place = place
        self.turn = turn
        self.parent = parent
        fields = FieldBytes(isHTTP2: parent != nil)
        writer = ResponseWriter(isHTTP2: parent != nil)
        unwanted = UnwantedBody(ofStream: parent != nil)
        self.firstRequestBy = firstRequestBy
    }

    /// Puts between a connection's bytes and their meaning what stands there.
    static func onConnection(
        _ channel: any Channel, door: HTTPDoorContext, place: HTTPDoorContext.Place, turn: ClientTurn, firstRequestBy: NIODeadline
    ) throws -> HTTPConnection {
        let connection = HTTPConnection(door: door, place: place, turn: turn, parent: nil, firstRequestBy: firstRequestBy)
        let pipeline = channel.pipeline.syncOperations
        let decoder = HTTPRequestDecoder(
            leftOverBytesStrategy: .forwardBytes, informationalResponseStrategy: .drop, limitConfiguration: HTTPDoorContext.limits
        )
        try pipeline.addHandlers(
            TurnGate(turn, .http1, keeping: connection.fields), ByteToMessageHandler(decoder), connection)
        return connection
    }

    // MARK: Channel

    func hasEnded() {
        isClosing = true
        waiting = []
        stepsBehindTurn = []
        request = .dropped
        peer.departure.happen()
        let reply = reply
        self.reply = nil
        relay = nil
        reply?.connectionHasEnded()
        if let parent { parent.ended(self) } else { door.disconnected(self) }
    }

    /// The network has given the client up.
    func fallSilent() { peer.fallSilent() }

    func read(context: ChannelHandlerContext) {
        guard !isHandedOver else { return context.read() }
        isReadAsked = true
        readIfWanted()
    }

    private var isWritable: Bool { context?.channel.isWritable ?? false }

    private func readIfWanted() {
        let isHeldBack =
            switch request {
            case .whole: isDecoderDone
            // Answers that nobody reads are not to pile up.
            case .none: !isClosing && !isWritable
            case .begun, .collected, .relayed, .dropped: false
            }
        guard isReadAsked, isClosing || isReadWanted, !isHeldBack, waitingBytes < Self.mostWaiting, !unwanted.isTooMuch
        else { return }
        isReadAsked = false
        context?.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        isReading = true
        take(fields.decoded(unwrapInboundIn(data)))
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        isReading = false
        takeInAllThereIs()
        flushIfPlanned()
        context.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        let isWritable = isWritable
        reply?.writabilityChanged(isWritable)
        if let relay {
            relay.writabilityChanged(isWritable)
        } else if isWritable, reply?.isOver ?? true, !isAnswerOut {
            // A client that reads what is left is given time for the rest of it.
            alarm?.set(.now() + door.idleTimeout)
        }
        if isWritable, case .none = request { takeWaiting() }
        context.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { behindTurn { [self] in clientHasLeft() } }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The decoder reads nothing behind an error.
        fields.end()
        // The client has its answer. Only a little of what follows is read.
        if case ByteToMessageDecoderError.dataReceivedInErrorState(_, let bytes) = error { return drop(.body(bytes)) }
        if PeerLiveness.isSilence(error) { fallSilent() }
        behindTurn { [self] in failed(error) }
    }

    private func failed(_ error: any Error) {
        let isMistake = parent == nil ? error is HTTPParserError : !(error is NIOHTTP2Errors.StreamClosed)
        guard isMistake, !isClosing, !peer.hasLeft else {
            clientHasLeft()
            return close()
        }
        // What comes behind what cannot be read cannot be told apart any more.
        isKept = false
        let problem = HTTPProblem(malformed: error, HTTPDoorContext.limits)
        switch request {
        // The one before it is answered first.
        case .whole where reply?.isOver == false: waiting = []
        // Nor can those be answered in its place that wait until the client reads.
        case .none where !waiting.isEmpty: closeBehindAnswer()
        case .none, .whole:
            request = .dropped
            reply = makeReply(to: HTTPRequestHead(version: .http1_1, method: .GET, uri: "/"), nil)
            refuse(problem, hasMore: true)
        case .begun, .collected, .relayed, .dropped:
            request = .dropped
            reply?.requestIsBroken(problem)
            nextIfOver()
        }
    }

    private func clientHasLeft() {
        guard context != nil else { return }
        peer.departure.happen()
        isKept = false
        guard !isClosing else {
            // The rest of its request does not come.
            isRestRead = true
            return closeIfDone()
        }
        guard let reply, !reply.isOver else { return closeBehindAnswer() }
        reply.clientHasLeft()
    }

    func timeIsOver() {
        if let relay, reply?.isOver == false { relay.alarm() } else { close() }
    }

    private func close() {
        isClosing = true
        context?.close(promise: nil)
    }

    /// The sidecar goes down: no further request is taken.
    func goDown() {
        isKept = false
        if isHandedOver { return close() }
        if case .none = request {
            closeBehindAnswer()
            // Who does not agree on TLS, or does not read, cannot hold it up.
            alarm?.set(.now() + Self.linger)
            return
        }
        // Who does not read what it is told cannot hold it up.
        if relay == nil, context?.channel.isWritable == false { alarm?.set(.now() + Self.linger) }
    }

    func endIfRemoved(_ isRemoved: (AccessControl.Caller) -> Bool) {
        guard context != nil, !isClosing, let caller, isRemoved(caller) else { return }
        if parent == nil { isKept = false }
        if isHandedOver { return close() }
        guard let reply, !reply.isOver else {
            if parent == nil { closeBehindAnswer() }
            return
        }
        peer.departure.happen()
        // Event streams end by themselves. Leave a client that does not read them a moment for that.
        if reply.isAwaited || relay != nil {
            reply.requestIsBroken(HTTPProblem.keyIsRemoved)
        } else {
            alarm?.set(.now() + Self.linger)
        }
    }

    // MARK: Requests

    private func take(_ part: HTTPServerRequestPart) {
        guard !isClosing else {
            drop(part)
            guard case .end = part else { return }
            isRestRead = true
            return closeIfDone()
        }
        switch request {
        case .whole: wait(part)
        case .none:
            guard isWritable, isTakingWaiting || waiting.isEmpty else { return wait(part) }
            guard case .head(let head) = part else { return }
            guard isTakingWaiting || turn.mayBeginWork else {
                wait(part)
                return goOnLater()
            }
            begin(head)
        case .begun(let call, let match):
            let isWhole = if case .end = part { true } else { false }
            begin(call, match, hasBody: !isWhole)
            take(part)
        case .collected(let call, let match): collect(part, call, match)
        case .relayed:
            switch part {
            case .head: break
            case .body(let bytes): relay?.received(bytes)
            case .end(let trailers):
                request = .whole
                relay?.receivedEnd(trailers)
                nextIfOver()
            }
        case .dropped:
            if parent == nil { alarm?.set(.now() + door.idleTimeout) }
            drop(part)
            guard case .end = part else { return }
            request = .whole
            nextIfOver()
        }
    }

    /// Discards part of an unwanted body. An endless one ends the connection, or its stream, once the client has had
    /// time to read the answer.
    private func drop(_ part: HTTPServerRequestPart) {
        guard case .body(let bytes) = part, unwanted.drop(bytes.readableBytes, from: context?.channel) else { return }
        guard parent == nil else { return resetIfAnswered() }
        guard !isClosing else { return }
        isKept = false
        nextIfOver()
    }

    /// Stops the upload on a stream that has its answer (RFC 9113, section 8.1).
    private func resetIfAnswered() {
        guard isAnswerWritten, unwanted.isTooMuch else { return }
        context?.triggerUserOutboundEvent(HTTP2EndOfStream.Unread(), promise: nil)
    }

    private func wait(_ part: HTTPServerRequestPart) {
        waiting.append(part)
        waitingBytes += Self.weight(of: part)
    }

    private static func weight(of part: HTTPServerRequestPart) -> Int {
        if case .body(let bytes) = part { bytes.readableBytes } else { weightOfPart }
    }

    /// Nothing more has come for now.
    private func takeInAllThereIs() {
        if case .begun(let call, let match) = request { begin(call, match, hasBody: true) }
        relay?.receivedAllThereIs()
    }

    private func makeReply(to head: HTTPRequestHead, _ match: HTTPRouter.Match?, _ span: Span? = nil) -> HTTPReply? {
        context.map { context in
            HTTPReply(
                to: head, of: self, context: context, counters: match?.counters, path: match?.route.path ?? "", span: span,
                logger: door.logger)
        }
    }

    /// A request's head has come.
    private func begin(_ head: HTTPRequestHead) {
        alarm?.set(.now() + door.idleTimeout)
        unwanted.begin(head, on: context?.channel)
        isAnswerWritten = false
        isContinueAwaited = HTTPCall.awaitsContinue(head)
        if parent == nil {
            isKept = isKept && place == .ordinary && head.isKeepAlive && head.version != .http1_0
            if HTTPGate.asksForUpgrade(head) {
                isKept = false
                isDecoderDone = true
            }
        }
        do throws(HTTPProblem) {
            if parent != nil { try HTTPGate.refuseUnclear(head) } else { try HTTPGate.refuseUnknownCoding(head.headers) }
            let uri = try HTTPTarget.uri(of: head)
            let known = found.flatMap { $0.uri == uri && $0.method == head.method ? $0 : nil }
            let target = known?.target ?? HTTPTarget(uri)
            let forwarded = try admit(head, target)
            let match: HTTPRouter.Match
            if let known {
                match = known.match
            } else {
                match = try door.router.match(method: head.method, path: target.path)
                found = (head.method, uri, target, match)
            }
            guard place == .ordinary || match.route.isServedWhenFull else { throw HTTPProblem.doorIsFull }
            do throws(HTTPProblem) {
                let caller = try door.gate.admit(head.headers, to: match.route.admission)
                turn.party = caller.party
                note(match.route.admission == .anyone ? nil : caller)
                let span = match.route.isTraced ? door.tracer?.begin(head, target, match.route) : nil
                let call = HTTPCall(
                    .init(
                        head: head, target: target, parameters: match.parameters, caller: caller, access: door.gate.access,
                        peer: peer, shutdown: door.shutdown, forwarded: forwarded,
                        span: span.flatMap { span in context.map { NIOLoopBound(span, eventLoop: $0.eventLoop) } }))
                reply = makeReply(to: head, match, span)
                try begin(call, match)
            } catch {
                guard error.code != .unauthenticated else { throw error }
                request = .dropped
                reply = reply ?? makeReply(to: head, match)
                reply?.fail(error)
            }
        } catch {
            request = .dropped
            reply = makeReply(to: head, nil)
            if error.code == .unauthenticated, HTTPGate.showsKey(head.headers) {
                door.refusedLogins.refused(from: context?.channel.remoteAddress)
            }
            refuse(error, hasMore: HTTPGate.hasBody(head))
        }
    }

    /// Notes that a request was accepted.
    private func note(_ caller: AccessControl.Caller?) {
        if let caller { self.caller = caller }
        if let parent { parent.admitted(caller) } else { door.admitted(self, caller) }
    }

    /// - Returns: who asks, as `Forwarded` says it.
    private func admit(_ head: HTTPRequestHead, _ target: HTTPTarget) throws(HTTPProblem) -> String {
        let authority = try HTTPGate.authority(of: head, target)
        if let admitted, admitted.authority == authority {
            try HTTPGate.refuseForeignPages(head.headers, authority: authority)
            return admitted.forwarded
        }
        try door.gate.refuseForeign(head.headers, authority: authority)
        let forwarded = ProxyFields.forwarded(
            for: context?.channel.remoteAddress?.ipAddress, host: authority, isTLS: door.isTLS)
        admitted = (authority, forwarded)
        return forwarded
    }

    /// It comes to no route.
    private func refuse(_ problem: HTTPProblem, hasMore: Bool) {
        door.router.refusals.count(problem.code)
        door.logger.log(.httpRefused, ["code": problem.code.rawValue])
        var answer = HTTPAnswer(problem)
        answer.endsConnection = hasMore
        reply?(answer)
    }

    /// Decides how the rest is read.
    private func begin(_ call: HTTPCall, _ match: HTTPRouter.Match) throws(HTTPProblem) {
        request = .begun(call, match)
        if case .relay = match.route.handler { return }
        let length = call.header("Content-Length").flatMap { Int($0) } ?? 0
        guard length <= HTTPBounds.body else { throw HTTPCall.tooLarge }
        if call.awaitsContinue { reply?.writeContinue() }
    }

    private func begin(_ call: HTTPCall, _ match: HTTPRouter.Match, hasBody: Bool) {
        if !hasBody { isContinueAwaited = false }
        guard case .relay(let make) = match.route.handler else {
            request = .collected(call, match)
            return
        }
        guard let reply else { return }
        do {
            let relay = try make(call, hasBody, reply)
            self.relay = relay
            request = .relayed
            isReadWanted = !hasBody
            relay.start()
        } catch {
            request = .dropped
            reply.fail(error)
        }
    }

    private func collect(_ part: HTTPServerRequestPart, _ call: HTTPCall, _ match: HTTPRouter.Match) {
        switch part {
        case .head: break
        case .body(var bytes):
            guard call.body.readableBytes + bytes.readableBytes <= HTTPBounds.body else {
                request = .dropped
                reply?.fail(HTTPCall.tooLarge)
                return
            }
            alarm?.set(.now() + door.idleTimeout)
            var call = call
            // It is mostly one piece, which is not copied.
            if call.body.readableBytes == 0 { call.body = bytes } else { call.body.writeBuffer(&bytes) }
            request = .collected(call, match)
        case .end:
            request = .whole
            alarm?.clear()
            carryOut(call, match.route.handler)
        }
    }

    private func carryOut(_ call: HTTPCall, _ handler: HTTPRoute.Handler) {
        guard let reply, let eventLoop = context?.eventLoop else { return }
        switch handler {
        case .reply(let answer):
            do {
                try answer(call, reply)
            } catch {
                reply.fail(error)
            }
        case .answer(let answer):
            turn.charge(Self.costOfTask)
            let reply = NIOLoopBound(reply, eventLoop: eventLoop)
            Task {
                do {
                    let answer = try await answer(call)
                    eventLoop.execute { reply.value(answer) }
                } catch {
                    eventLoop.execute { reply.value.fail(error) }
                }
            }
        case .relay: break
        }
    }

    // MARK: Answers

    var mayBeFollowed: Bool { isKept && !isContinueAwaited }

    func bodyIsAskedFor() { isContinueAwaited = false }

    private var isWhole: Bool { if case .whole = request { true } else { false } }

    var isWrittenAwaited: Bool { parent != nil && !isWhole }

    func answered(endsConnection: Bool) {
        let isRestComing: Bool
        if parent != nil {
            // It ends by itself with both sides' ends; until the answer is out, its client's may be on its way.
            isRestComing = isWrittenAwaited
        } else {
            isRestComing = if case .relayed = request { true } else { false }
            if endsConnection { isKept = false }
            planFlush()
        }
        nextIfOver()
        // What is left of the request is read and dropped.
        if !isClosing, isRestComing {
            relay = nil
            request = .dropped
            alarm?.set(.now() + door.idleTimeout)
            read(true)
        }
        if parent != nil { planFlush() }
    }

    /// The request has come to its end and was answered: the next one's turn, or the connection's end.
    private func nextIfOver() {
        guard let reply, reply.isOver, !isClosing else { return }
        guard isKept else { return closeBehindAnswer() }
        guard isWhole else { return }
        self.reply = nil
        relay = nil
        request = .none
        isReadWanted = true
        alarm?.set(.now() + door.idleTimeout)
        takeWaiting()
    }

    /// - Parameter isOwed: takes one request, whatever the tick has spent: each slice does some work.
    private func takeWaiting(isOwed: Bool = false) {
        guard !isTakingWaiting else { return }
        isTakingWaiting = true
        var isOwed = isOwed
        while !isClosing {
            if isWhole { break }
            if case .none = request {
                guard isWritable, !waiting.isEmpty else { break }
                guard isOwed || turn.mayGoOn else {
                    goOnLater()
                    break
                }
                isOwed = false
            }
            guard let part = waiting.popFirst() else { break }
            waitingBytes -= Self.weight(of: part)
            take(part)
        }
        isTakingWaiting = false
        if !isReading { takeInAllThereIs() }
        readIfWanted()
    }

    /// Handles the next request in a later slice.
    private func goOnLater() {
        guard !isTurnAwaited else { return }
        isTurnAwaited = true
        turn.later { [self] in
            isTurnAwaited = false
            takeWaiting(isOwed: true)
            guard !isTurnAwaited else { return }
            let steps = stepsBehindTurn
            stepsBehindTurn = []
            for step in steps { step() }
            parent?.turnIsOver()
        }
    }

    /// Requests that came before the client left, or before an error of its own, are answered first.
    private func behindTurn(_ step: @escaping () -> Void) { if isTurnAwaited { stepsBehindTurn.append(step) } else { step() } }

    /// Closes when all is written. What was not read to its end has a little while to come.
    private func closeBehindAnswer() {
        isClosing = true
        relay = nil
        waiting = []
        waitingBytes = 0
        switch request {
        case .none, .whole: isRestRead = true
        case .begun, .collected, .relayed, .dropped: break
        }
        if peer.hasLeft { isRestRead = true }
        alarm?.set(.now() + door.idleTimeout)
        isFlushPlanned = false
        guard let context else { return }
        if parent == nil {
            let written = context.eventLoop.makePromise(of: Void.self)
            written.futureResult.assumeIsolated().whenComplete { [self] _ in answerIsOut() }
            writer.write(.body(.byteBuffer(ByteBuffer())), to: context, promise: written)
            writer.flush(context)
        } else {
            // Nothing can be written behind the end of a stream, nor needs to be.
            writer.flush(context)
            answerIsOut()
        }
        readIfWanted()
    }

    private func answerIsOut() {
        isAnswerOut = true
        alarm?.set(.now() + Self.linger)
        closeIfDone()
        // This shows the client that no other answer follows. Over TLS, ending one direction would end both.
        if parent == nil, !isRestRead, !door.isTLS { context?.close(mode: .output, promise: nil) }
    }

    func answerIsWritten() {
        isAnswerWritten = true
        alarm?.set(.now() + Self.linger)
        if parent != nil { resetIfAnswered() }
    }

    private func closeIfDone() {
        if isAnswerOut, isRestRead { close() }
    }

    func breakOff() { close() }

    func handOver(to handler: any ChannelHandler) throws {
        guard let context, parent == nil else { throw ChannelError.ioOnClosedChannel }
        isHandedOver = true
        isKept = false
        reply = nil
        relay = nil
        alarm?.clear()
        let pipeline = context.pipeline.syncOperations
        let decoder = try pipeline.context(handlerType: ByteToMessageHandler<HTTPRequestDecoder>.self)
        fields.end()
        try pipeline.addHandler(handler, position: .before(self))
        // What has come behind the request is handed on.
        pipeline.removeHandler(context: decoder, promise: nil)
        if isReadAsked { context.read() }
    }

    func read(_ isWanted: Bool) {
        isReadWanted = isWanted
        readIfWanted()
    }

    func setAlarm(_ deadline: NIODeadline) { alarm?.set(deadline) }

    /// At the end of the tick, so that answers to what came at once leave at once.
    private func planFlush() {
        isFlushPlanned = true
        if !isReading { flushIfPlanned() }
    }

    private func flushIfPlanned() {
        guard isFlushPlanned else { return }
        isFlushPlanned = false
        if let context { writer.flush(context) }
    }
}
