internal import DequeModule
internal import Interlock
internal import InterlockCore
internal import InterlockHTTP
internal import Logging
internal import NIOCore
internal import NIOTLS

/// One client of the RESP door: parses its commands, has them carried out, and answers in their order.
///
/// Lives on the coordinator's event loop and enters it without a hop. Commands start without waiting for earlier answers;
/// at most `longestPipeline` are pending, then reading pauses.
final class RESPConnection: ChannelDuplexHandler, FlushedConnection {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// A command whose answer is still to come, or waits for earlier ones.
    private enum Slot {
        case pending(PendingCall?)
        case ready(ReplyBuffer)
    }

    /// The most commands of one connection that are pending.
    static let longestPipeline = 1024
    /// So many commands of one client may wait for a Redis that is busy; more may wait for something else.
    private static let share = 16
    /// Between two looks at whether it is still busy.
    private static let reliefPause = TimeAmount.milliseconds(1)
    /// With so many bytes of replies that wait for an earlier one, reading pauses.
    static let mostWaiting = 1 << 20
    /// The most that is kept for a client that does not read; then it is dropped.
    static let longestOutput = 4 << 20
    /// The most leases that are looked after for one client.
    static let mostFollowed = 10_000
    /// Replies are handed to the socket when they reach this size, and at the end of each tick.
    private static let flushThreshold = 64 << 10
    /// How long a client whose bytes were refused may go on sending.
    private static let longestLinger = TimeAmount.seconds(1)
    /// The commands between two reads of the clock: a cheap command takes a microsecond.
    private static let commandsBetweenLooks = 8
    /// The number of arguments that cost as much as a command.
    private static let argumentsOfCommand = 16

    // Whatever refers to a connection lets go of it when its client leaves. Nothing does so weakly: an object that has ever been
    // referred to in that way is retained more slowly, which is a tenth of a command.
    let door: RESPDoorContext
    /// Answers to commands under way find their way back here by tag; one closure each for the whole connection. They
    /// keep the connection, which lets go of them when its client leaves.
    private(set) var completions: RESPCompletions?
    private var context: ChannelHandlerContext?
    // Unchecked exclusivity is safe for these five: one event loop uses them, and no mutation calls back into them. The
    // checks cost a tenth of a command's time. Each line names its benchmark in Benchmarks/figures.
    @exclusivity(unchecked) private var parser = RESPRequestParser()  // PERMIT.ACQUIRE, open breaker (sidecar.py)
    @exclusivity(unchecked) private var input = ByteBuffer()  // PERMIT.ACQUIRE, open breaker (sidecar.py)
    @exclusivity(unchecked) private var slots = Deque<Slot>()  // PERMIT.ACQUIRE, open breaker (sidecar.py)
    @exclusivity(unchecked) private var arrivals = CommandArrivals()  // PERMIT.ACQUIRE, open breaker (sidecar.py)
    @exclusivity(unchecked) private var takes = PlainTakes()  // LIMIT.TAKE, 1,000 keys (decisions.py)
    private var writer: RESPWriter
    /// The bytes of the slots that are ready.
    private var waitingBytes = 0
    /// The tag of the first slot.
    private var firstTag: UInt64 = 0
    /// The arrival time of the present commands. Waits and deadlines count from here, however long the slice was
    /// awaited.
    private(set) var now = Instant(nanoseconds: 0)
    let turn: ClientTurn
    /// Whether commands are waiting for a later slice.
    private var isTurnAwaited = false
    /// The commands left until the clock is read again.
    private var commandsUntilLook = 0
    /// Whether the client's input has ended. The connection closes when its commands have run.
    private var isInputClosed = false
    /// Whether the connection has closed, and its last commands run without replies.
    private(set) var isUnread = false
    private var lastService: (name: [UInt8], version: Int, reference: ServiceReference)?
    private var isReading = false
    private var isReadCompleting = false
    private var isFlushPlanned = false
    private var isReadHeldBack = false
    /// Looks again whether Redis is busy.
    private var relief: Scheduled<Void>?
    /// One more is read in any case: those under way may wait for what it gives back.
    private var isRelieved = false
    private var isWritable = true
    /// No further command is taken; closes when all replies are written.
    private var isClosing = false
    /// It is this side that ends the connection: the client may still be at work.
    private var isEndedHere = false
    /// The leases that are looked after for this client, and whether they are linked to the connection.
    private var followed: [LeaseFollower: Bool] = [:]
    private var stall: Scheduled<Void>?
    private var login: Scheduled<Void>?
    private let speaksTLS: Bool
    /// Whether the client's bytes were malformed.
    private var isRefused = false
    private var linger: Scheduled<Void>?

    /// What the client has told of itself, and may do.
    var session: RESPSession {
        didSet {
            guard session.caller != oldValue.caller else { return }
            turn.party = session.caller?.party ?? ""
            if (session.caller == nil) != (oldValue.caller == nil) { awaitLogin() }
        }
    }

    /// - Parameter isSecured: `false`: a TLS handshake comes first.
    init(door: RESPDoorContext, isSecured: Bool) {
        self.door = door
        writer = RESPWriter(speaksRESP3: false, countingIn: door.errors)
        session = RESPSession(id: door.nextConnectionID(), caller: door.access.anonymous, isSecured: isSecured)
        turn = ClientTurn(door.turns)
        speaksTLS = !isSecured
    }

    var speaksRESP3: Bool {
        get { writer.speaksRESP3 }
        set { writer.speaksRESP3 = newValue }
    }

    // MARK: Replies

    /// Writes the reply to the command with this tag, or keeps it until those before it are written. `false`: the client
    /// has left.
    @discardableResult
    func reply(_ tag: UInt64, _ write: (RESPWriter) -> Void) -> Bool {
        guard context != nil, tag >= firstTag else { return false }
        guard tag == firstTag else {
            let apart = writer.another()
            write(apart)
            slots[Int(tag - firstTag)] = .ready(apart.buffer)
            waitingBytes += apart.buffer.count
            return true
        }
        write(writer)
        slots.removeFirst()
        firstTag += 1
        writeThoseReady()
        return true
    }

    /// Writes the replies to `count` commands in a row at once, of which this tag is the first's. `false`: the client has
    /// left.
    func reply(_ tag: UInt64, count: Int, _ write: (_ writer: RESPWriter, _ replies: Range<Int>) -> Void) -> Bool {
        guard context != nil, tag >= firstTag else { return false }
        guard tag == firstTag else {
            for index in 0..<count { reply(tag + UInt64(index)) { write($0, index..<(index + 1)) } }
            return true
        }
        write(writer, 0..<count)
        slots.removeFirst(count)
        firstTag += UInt64(count)
        writeThoseReady()
        return true
    }

    /// The replies that have waited for the one just written.
    private func writeThoseReady() {
        while case .ready(let buffer) = slots.first {
            writer.buffer.append(buffer)
            waitingBytes -= buffer.count
            slots.removeFirst()
            firstTag += 1
        }
        if !arrivals.isEmpty {
            arrivals.answered(before: firstTag, now: door.commands.calls.now(), door.commands.times)
        }
        afterWriting()
    }

    /// A command came, of this kind.
    func came(_ command: Int, _ tag: UInt64) { arrivals.came(command, tag: tag, at: now) }

    /// The command with this tag, whose reply comes now, belongs to this trace.
    func traced(_ tag: UInt64, by trace: TraceContext) {
        // One that was answered already would be kept for good.
        if isOpen, tag >= firstTag { arrivals.traced(tag, by: trace) }
    }

    /// Writes something that answers no command: what a subscription brings.
    func push(_ write: (RESPWriter) -> Void) {
        guard context != nil else { return }
        write(writer)
        afterWriting()
    }

    /// Remembers how to give up the command with this tag, if its client leaves first.
    func note(_ call: PendingCall?, for tag: UInt64) {
        guard let call, context != nil, tag >= firstTag, case .pending = slots[Int(tag - firstTag)] else { return }
        slots[Int(tag - firstTag)] = .pending(call)
    }

    var isOpen: Bool { context != nil }
    var remoteAddress: SocketAddress? { context?.remoteAddress }

    /// The client wants pushes: many take one that they did not ask for as the next command's reply.
    var isToldOfLosses: Bool { speaksRESP3 && (session.isToldOfLosses || session.follower != nil) }

    /// - Throws: when as many leases are looked after as may be.
    func mayFollow() throws(InterlockError) {
        guard followed.count < Self.mostFollowed else {
            throw InterlockError(
                .unavailable, "\(followed.count) leases of this connection are looked after already; use another connection")
        }
    }

    /// Tells the client when it loses this lease; a linked one is extended for as long as the connection lives.
    func follow(_ lease: Lease, isLinked: Bool) throws(InterlockError) {
        guard isOpen else { return }
        guard let completions else { return }
        try mayFollow()
        let follower = try door.commands.calls.followLease(
            lease, isLinked: isLinked, client: self, onEnd: completions.leaseEnded
        ).get()
        followed[follower] = isLinked || followed[follower] ?? false
    }

    /// Follows several leases, or none.
    func follow(_ leases: [Lease], isLinked: Bool) throws(InterlockError) {
        let before = followed
        do throws(InterlockError) {
            for lease in leases { try follow(lease, isLinked: isLinked) }
        } catch {
            for follower in followed.keys.sorted() where before[follower] == nil {
                followed[follower] = nil
                door.unfollow(follower, releasing: false)
            }
            throw error
        }
    }

    /// A lease that was looked after is released or lost.
    func leaseEnded(_ end: LeaseEnd) {
        let wasLinked = followed.removeValue(forKey: end.follower) ?? false
        guard let loss = end.loss else { return }
        guard speaksRESP3 else {
            // RESP2 has no other word for it. Who goes down with all its connections says so by that.
            if wasLinked, loss != .shutdown, let context {
                door.logger.log(.leaseLost, ["lock": "\(end.name)"])
                // Not from within what tells of it, and behind what is answered already.
                context.eventLoop.assumeIsolated().execute { [self] in closeAfterWhatIsWritten() }
            }
            return
        }
        push { writer in
            writer.push(4)
            writer.bulk("lock-lost")
            writer.bulk(end.name)
            writer.bulk(end.token)
            writer.bulk(loss.rawValue)
        }
    }

    /// Abandons all waits after the caller's key was removed, even if the client does not read.
    func revoke() {
        guard session.isSecured else { return }
        isClosing = true
        var abandoned: [PendingCall] = []
        for index in slots.indices {
            guard case .pending(let call?) = slots[index] else { continue }
            slots[index] = .pending(nil)
            abandoned.append(call)
        }
        // Cancelling a call may deliver replies, which remove slots.
        for call in abandoned { door.cancel(call) }
        closeAfterWhatIsWritten()
    }

    /// Makes room for another connection: this client is unknown.
    func evict() { context?.channel.closeAtOnce() }

    private func closeAfterWhatIsWritten() {
        guard let context else { return }
        isEndedHere = true
        // Run the commands that arrived before the loss first.
        if isTurnAwaited, !isClosing { return isInputClosed = true }
        isClosing = true
        context.writeAndFlush(takeWritten()).assumeIsolated().whenComplete { _ in context.close(promise: nil) }
    }

    /// Takes no further command, and closes when everything is answered.
    func closeAfterReplies(endedHere: Bool) {
        isClosing = true
        isEndedHere = endedHere
        planFlush()
    }

    /// Returns the service that argument `index` names. Clients mostly repeat the last one, so caching it saves making
    /// and hashing a string. Benchmark: "PERMIT.ACQUIRE, open breaker" in Benchmarks/figures/sidecar.py.
    func service(_ request: RESPRequest, _ index: Int) throws(InterlockError) -> ServiceReference {
        let calls = door.commands.calls
        if let lastService, lastService.version == calls.servicesVersion, request.isEqual(index, lastService.name) {
            return lastService.reference
        }
        let reference = try calls.service(request.text(index)).get()
        lastService = (Array(request.text(index).utf8), calls.servicesVersion, reference)
        return reference
    }

    /// A plain `LIMIT.TAKE`: it is made together with those of the same service around it.
    func take(_ service: ServiceReference, tag: UInt64) {
        if let ended = takes.append(service, tag: tag) { submit(ended) }
    }

    /// Makes the takes that were put together.
    func submitTakes() {
        if let run = takes.remove() { submit(run) }
    }

    private func submit(_ run: PlainTakes.Run) {
        guard let completions else { return }
        _ = door.commands.calls.take(
            run.service, count: run.count, cost: 1, subject: nil, waitMilliseconds: 0, now: now,
            completion: completions.take(run.tag))
    }

    private func afterWriting() {
        guard let context else { return }
        guard !isUnread else { return writer.buffer.removeAll() }
        if writer.buffer.count > Self.longestOutput {
            return drop(context)
        }
        // `takeAll` flushes between commands. If a write fails, NIO drains the socket at once, and the present command is still in
        // `input`.
        if isReading { return }
        if slots.isEmpty, !isClosing, isWritable, turn.mayWrite() {
            // Nothing else is under way that could share the write: the client may work on while others are answered.
            write(context)
            if isReadHeldBack || input.readableBytes > 0 { planFlush() }
        } else {
            planFlush()
        }
    }

    /// Hands over what is written, but for a client that does not read: what is kept for it here is bounded, what NIO keeps is not.
    private func write(_ context: ChannelHandlerContext) {
        guard writer.buffer.count > 0, isWritable else { return }
        context.writeAndFlush(takeWritten(), promise: nil)
    }

    /// What is written, which is nobody else's from now on: the socket may take it at once, and ask for more.
    private func takeWritten() -> NIOAny {
        let bytes = writer.buffer.contents
        writer.buffer.removeAll()
        return wrapOutboundOut(bytes)
    }

    private func planFlush() {
        guard !isFlushPlanned, context != nil else { return }
        isFlushPlanned = true
        door.flushes.plan(self)
    }

    func flush() { if turn.mayWrite() { flushNow() } else { turn.writeLater { [self] in flushNow() } } }

    private func flushNow() {
        isFlushPlanned = false
        guard let context else { return }
        if isClosing, slots.isEmpty {
            // Closing drops what the socket has not taken yet: it waits for the last byte.
            context.writeAndFlush(takeWritten()).assumeIsolated().whenComplete { [self] _ in closeBehindAnswer(context) }
            return
        }
        write(context)
        if isReadHeldBack || input.readableBytes > 0 { resume(context) }
    }

    /// Closes at once or, after malformed bytes, when the client has stopped sending: the system discards an answer if
    /// the connection closes with unread bytes.
    private func closeBehindAnswer(_ context: ChannelHandlerContext) {
        guard isRefused, !speaksTLS, self.context != nil else {
            guard isReadCompleting else { return context.close(promise: nil) }
            // NIO goes on with the channel behind the read that found the end of its input, and takes it for open.
            return context.eventLoop.assumeIsolated().execute { context.close(promise: nil) }
        }
        context.close(mode: .output, promise: nil)
        linger = context.eventLoop.assumeIsolated().scheduleTask(in: Self.longestLinger) { context.close(promise: nil) }
    }

    /// Who does not say who it is has little, and not for long: its place may be wanted by others.
    private func awaitLogin() {
        let isStranger = session.caller == nil
        parser.bounds = isStranger ? .beforeLogin : .usual
        guard isStranger || !session.isSecured, let context else {
            login?.cancel()
            login = nil
            door.admitted(self)
            return
        }
        guard login == nil else { return }
        door.awaitsLogin(self)
        login = context.eventLoop.assumeIsolated().scheduleTask(in: door.loginTimeout) { [self] in
            guard let context = self.context, !isClosing else { return }
            guard session.isSecured else { return drop(context) }
            refuse(
                "NOAUTH",
                "no API key was shown within \(door.loginTimeout.nanoseconds / 1_000_000) ms: AUTH key, or AUTH name key")
            planFlush()
        }
    }

    // MARK: Commands

    /// Runs commands while the slice lasts; the rest waits for the next one.
    private func process(_ context: ChannelHandlerContext) {
        guard turn.begin() else { return goOnLater() }
        takeAll(context)
    }

    private func takeAll(_ context: ChannelHandlerContext) {
        isReading = true
        commandsUntilLook = Self.commandsBetweenLooks
        while !isClosing, mayTakeMore, input.readableBytes > 0, takeOne(context) {
            isRelieved = false
            if writer.buffer.count >= Self.flushThreshold { flushNow() }
            commandsUntilLook -= 1 + parser.arguments.count / Self.argumentsOfCommand
            guard commandsUntilLook <= 0 else { continue }
            commandsUntilLook = Self.commandsBetweenLooks
            guard !turn.mayGoOn else { continue }
            if !isClosing, mayTakeMore, input.readableBytes > 0 { goOnLater() }
            break
        }
        submitTakes()
        isReading = false
    }

    /// Makes the loop read the clock after the present command, which may take long.
    func isLong() { commandsUntilLook = 0 }

    private func goOnLater() {
        guard !isTurnAwaited else { return }
        isTurnAwaited = true
        turn.later { [self] in
            isTurnAwaited = false
            goOn()
        }
    }

    /// Continues in a new slice.
    private func goOn() {
        guard let context else { return }
        if !isClosing { takeAll(context) }
        guard !isUnread else {
            if !isTurnAwaited { end() }
            return
        }
        flushNow()
        if isInputClosed, !isTurnAwaited { closeAtEnd(context) }
    }

    /// Closes at the end of the client's input, after the replies that wait for their slice.
    private func closeAtEnd(_ context: ChannelHandlerContext) {
        write(context)
        context.close(promise: nil)
    }

    private var mayTakeMore: Bool {
        slots.count < Self.longestPipeline && waitingBytes < Self.mostWaiting && isWritable && !isOverShare
    }

    /// While Redis has much to do, no client adds to that beyond its share: the others' commands would wait behind.
    private var isOverShare: Bool {
        // A client that has left sends no more: what it has sent is carried out.
        guard slots.count > Self.share, !isRelieved, !isInputClosed, !isUnread, door.commands.calls.isRedisBusy
        else { return false }
        if let context { planRelief(context) }
        return true
    }

    private func planRelief(_ context: ChannelHandlerContext) {
        guard relief == nil else { return }
        relief = context.eventLoop.assumeIsolated().scheduleTask(in: Self.reliefPause) { [self] in
            guard let context = self.context else { return }
            relief = nil
            isRelieved = true
            if isClosing { context.read() } else { resume(context) }
        }
    }

    /// `false`: more bytes are needed.
    private func takeOne(_ context: ChannelHandlerContext) -> Bool {
        let outcome = input.withUnsafeReadableBytes { bytes -> RESPRequestParser.Outcome in
            let outcome = parser.next(bytes)
            guard case .command(let length) = outcome else { return outcome }
            let tag = firstTag + UInt64(slots.count)
            slots.append(.pending(nil))
            if parser.unquoted.isEmpty {
                door.commands.run(RESPRequest(bytes: bytes, arguments: parser.arguments), tag: tag, on: self)
            } else {
                let (words, arguments) = (parser.unquoted, parser.arguments)
                words.withUnsafeBytes { door.commands.run(RESPRequest(bytes: $0, arguments: arguments), tag: tag, on: self) }
            }
            let repeats = takes.appendRepeats(of: tag, length: length, in: bytes, most: Self.longestPipeline - slots.count)
            for _ in 0..<repeats { slots.append(.pending(nil)) }
            arrivals.cameAgain(repeats)
            return .command(consumed: length * (1 + repeats))
        }
        switch outcome {
        case .command(let consumed), .nothing(let consumed):
            input.moveReaderIndex(forwardBy: consumed)
            return true
        case .incomplete:
            return false
        case .malformed(let reason):
            refuse("ERR", "Protocol error: \(reason)")
            return false
        case .http:
            door.logger.log(.httpAtRESP)
            drop(context)
            return false
        }
    }

    /// Answers in its turn with an error, and closes.
    private func refuse(_ word: String, _ message: String) {
        let tag = firstTag + UInt64(slots.count)
        slots.append(.pending(nil))
        input.clear()
        isClosing = true
        isEndedHere = true
        isRefused = true
        reply(tag) { $0.error(word, message) }
    }

    private func resume(_ context: ChannelHandlerContext) {
        guard mayTakeMore, !isReading, !isTurnAwaited else { return }
        if input.readableBytes > 0 {
            now = door.commands.calls.now()
            process(context)
            turn.end()
            if writer.buffer.count > 0 { planFlush() }
        }
        if isReadHeldBack, mayTakeMore, !isTurnAwaited {
            isReadHeldBack = false
            readFromSocket()
        }
    }

    private func drop(_ context: ChannelHandlerContext) {
        isClosing = true
        isEndedHere = true
        writer.buffer.removeAll()
        context.close(promise: nil)
    }
}

// MARK: - Channel

extension RESPConnection {
    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        turn.party = session.caller?.party ?? ""
        completions = RESPCompletions(connection: self)
        PeerLiveness.watch(context.channel)
        door.connected(self)
        awaitLogin()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        ended()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted? = event as? TLSUserEvent {
            session.isSecured = true
            awaitLogin()
        }
        if case ChannelEvent.inputClosed = event {
            if isTurnAwaited || hasCommandsLeft {
                isInputClosed = true
                goOnLater()
            } else {
                closeAtEnd(context)
            }
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isClosing else { return }
        input.append(unread: unwrapInboundIn(data))
        guard !isTurnAwaited, !isReading else { return }
        now = door.commands.calls.now()
        process(context)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        isReadCompleting = true
        if writer.buffer.count > 0 || isClosing { flushNow() }
        isReadCompleting = false
        turn.end()
        // The channel reuses its buffer once nothing references it.
        if input.readableBytes == 0 { input = ByteBuffer() }
    }

    /// With automatic reading NIO asks for more after each read: not while this client has too much under way.
    func read(context: ChannelHandlerContext) {
        // What comes now is thrown away, and only its end is of interest: who goes on sending is not read as fast as it can.
        guard !isClosing else { return planRelief(context) }
        guard mayTakeMore, !isTurnAwaited || input.readableBytes < ClientTurn.readAhead else { return isReadHeldBack = true }
        readFromSocket()
    }

    private func readFromSocket() {
        if turn.mayRead() { context?.read() } else { turn.readLater { [self] in self.context?.read() } }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        isWritable = context.channel.isWritable
        stall?.cancel()
        stall = nil
        if isWritable {
            flushNow()
            resume(context)
        } else {
            stall = context.eventLoop.assumeIsolated().scheduleTask(in: door.stallTimeout) { [self] in
                guard let context = self.context else { return }
                door.logger.log(.clientStalled)
                drop(context)
            }
        }
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        ended()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The network has given the client up, which may be at work behind it. A reset is the client's own.
        if PeerLiveness.isSilence(error) { isEndedHere = true }
        context.close(promise: nil)
    }

    /// Handles the client's departure. Its earlier commands still run, as they would without a wait for the slice.
    private func ended() {
        guard context != nil else { return }
        guard isTurnAwaited || hasCommandsLeft, !isClosing else { return end() }
        isUnread = true
        stall?.cancel()
        login?.cancel()
        turn.end()
        goOnLater()
    }

    /// Whether it has sent commands that wait until Redis has less to do.
    private var hasCommandsLeft: Bool { input.readableBytes > 0 && !isClosing && slots.count < Self.longestPipeline }

    /// Abandons the client's waits.
    private func end() {
        turn.cancel()
        turn.end()
        self.context = nil
        // What was read already and not taken is not taken any more.
        isClosing = true
        completions = nil
        takes = PlainTakes()
        stall?.cancel()
        login?.cancel()
        linger?.cancel()
        relief?.cancel()
        door.disconnected(self)
        for case .pending(let call?) in slots { door.cancel(call) }
        slots.removeAll()
        waitingBytes = 0
        door.unfollow(followed.sorted { $0.key < $1.key }.map { ($0.key, $0.value && !isEndedHere) })
        followed = [:]
        if let follower = session.follower { door.unfollow(follower) }
        session.follower = nil
    }
}
