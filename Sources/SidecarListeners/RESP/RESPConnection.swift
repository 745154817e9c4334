internal import Interlock
internal import InterlockCore
internal import InterlockHTTP
internal import Logging
internal import NIOCore
internal import NIOTLS
internal import SidecarTelemetry

/// The connection of one RESP client: parses its commands, starts them, and writes their replies.
/// `RESPServerStateMachine` decides when; this handler executes its actions.
///
/// Confined to the coordinator's event loop, which it calls without a hop. Commands start without waiting for earlier
/// replies.
final class RESPConnection: ChannelDuplexHandler, FlushedConnection {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The pause before one more command is taken while Redis is busy.
    private static let extraCommandInterval = TimeAmount.milliseconds(1)
    /// The maximum number of leases that are followed for one client.
    static let maximumFollowed = 10_000
    /// The size at which the output is handed to the socket before the end of the tick.
    private static let flushThreshold = 64 << 10
    /// How long a refused client may still send.
    private static let lingerTimeout = TimeAmount.seconds(1)
    /// The commands between two reads of the clock: a cheap command takes a microsecond.
    private static let commandsPerClockRead = 8
    /// The number of arguments that cost as much as a command.
    private static let argumentsPerCommand = 16

    // All references to a connection are strong, and released when the client leaves. Weak references would slow down
    // every retain of their object, by a tenth of a command's time.
    let listener: RESPListenerContext
    /// The closures that write replies, one for each kind and not for each command. They keep the connection alive
    /// until its client leaves.
    private(set) var completions: RESPCompletions?
    private var context: ChannelHandlerContext?
    // Unchecked exclusivity is safe for these five: one event loop uses them, and no mutation calls back into them. The
    // checks cost a tenth of a command's time. Each line names its benchmark in Benchmarks/figures.
    @exclusivity(unchecked) private var machine: RESPServerStateMachine  // PERMIT.ACQUIRE, open breaker (sidecar.py)
    @exclusivity(unchecked) private var parser = RESPRequestParser()  // PERMIT.ACQUIRE, open breaker (sidecar.py)
    @exclusivity(unchecked) private var input = ByteBuffer()  // PERMIT.ACQUIRE, open breaker (sidecar.py)
    @exclusivity(unchecked) private var arrivals = CommandArrivals()  // PERMIT.ACQUIRE, open breaker (sidecar.py)
    @exclusivity(unchecked) private var takes = PlainTakes()  // LIMIT.TAKE, 1,000 keys (decisions.py)
    private var writer: RESPWriter
    /// The arrival time of the current commands. Waits and deadlines count from here, even if the slice comes much
    /// later.
    private(set) var now = Instant(nanoseconds: 0)
    let slices: ConnectionSlices
    /// The commands left until the clock is read again.
    private var commandsUntilClockRead = 0
    private var lastService: (name: [UInt8], version: Int, reference: ServiceReference)?
    /// The leases that are followed for this client, and whether they are linked to the connection.
    private var followed: [LeaseFollower: Bool] = [:]
    private var stall: Scheduled<Void>?
    private var login: Scheduled<Void>?
    private var linger: Scheduled<Void>?

    /// The client's name, rights and options.
    var session: RESPSession {
        didSet {
            guard session.caller != oldValue.caller else { return }
            slices.clientKey = session.caller?.clientKey ?? ""
            if (session.caller == nil) != (oldValue.caller == nil) { awaitLogin() }
        }
    }

    /// - Parameter isSecured: `false` if a TLS handshake comes first.
    init(listener: RESPListenerContext, isSecured: Bool) {
        self.listener = listener
        machine = RESPServerStateMachine(isSecured ? .plain : .tls)
        writer = RESPWriter(speaksRESP3: false, countingIn: listener.errors)
        session = RESPSession(id: listener.nextConnectionID(), caller: listener.access.anonymous, isSecured: isSecured)
        slices = ConnectionSlices(listener.scheduler)
    }

    var speaksRESP3: Bool {
        get { writer.speaksRESP3 }
        set { writer.speaksRESP3 = newValue }
    }

    // MARK: Replies

    /// Writes the reply to the command with this tag, or keeps it until the earlier ones are written.
    /// - Returns: `false` if the client has left.
    @discardableResult
    func reply(_ tag: UInt64, _ write: (RESPWriter) -> Void) -> Bool {
        switch machine.replies.position(of: tag) {
        case .answered: return false
        case .later:
            let deferred = writer.withNewBuffer()
            write(deferred)
            machine.replies.keep(deferred.buffer, for: tag)
        case .first:
            write(writer)
            machine.replies.removeFirst()
            writeReadyReplies()
        }
        return true
    }

    /// Writes the replies to `count` consecutive commands, starting with the one with this tag.
    /// - Returns: `false` if the client has left.
    func reply(_ tag: UInt64, count: Int, _ write: (_ writer: RESPWriter, _ replies: Range<Int>) -> Void) -> Bool {
        switch machine.replies.position(of: tag) {
        case .answered: return false
        case .later: for index in 0..<count { reply(tag + UInt64(index)) { write($0, index..<(index + 1)) } }
        case .first:
            write(writer, 0..<count)
            machine.replies.removeFirst(count)
            writeReadyReplies()
        }
        return true
    }

    /// Writes the replies that waited for the one just written.
    private func writeReadyReplies() {
        while let reply = machine.replies.popReady() { writer.buffer.append(reply) }
        if !arrivals.isEmpty {
            arrivals.answered(before: machine.replies.firstTag, now: listener.commands.calls.now(), listener.commands.times)
        }
        afterWriting()
    }

    private func afterWriting() {
        let action = machine.written(writer.buffer.count, input: input.readableBytes, mayWrite: slices.mayWrite())
        if action != .none { perform(action) }
    }

    /// Records the arrival of a command of this kind.
    func recordArrival(_ command: Int, _ tag: UInt64) { arrivals.recordArrival(command, tag: tag, at: now) }

    /// Records the trace of the command with this tag, whose reply follows immediately.
    func traced(_ tag: UInt64, by trace: TraceContext) {
        // The trace of an answered command would be kept forever.
        if machine.replies.position(of: tag) != .answered { arrivals.traced(tag, by: trace) }
    }

    /// Writes a message that answers no command, such as an event.
    func push(_ write: (RESPWriter) -> Void) {
        guard isOpen else { return }
        write(writer)
        afterWriting()
    }

    /// Records the call to cancel if the client leaves before the reply to the command with this tag.
    func note(_ call: PendingCall?, for tag: UInt64) {
        if let call { machine.replies.note(call, for: tag) }
    }

    var isOpen: Bool { machine.isOpen }
    /// Whether the channel has closed, and the last commands run without replies.
    var isChannelClosed: Bool { machine.isChannelClosed }
    var remoteAddress: SocketAddress? { context?.remoteAddress }

    /// Whether the client wants pushes. Many clients would mistake an unrequested one for the next reply.
    var receivesLosses: Bool { speaksRESP3 && (session.receivesLosses || session.follower != nil) }

    /// - Throws: if the limit of followed leases is reached.
    func checkFollowLimit() throws(InterlockError) {
        guard followed.count < Self.maximumFollowed else {
            throw InterlockError(
                .unavailable, "this connection already watches \(followed.count) leases; use another connection")
        }
    }

    /// Reports the loss of this lease to the client. A linked lease is renewed until the connection ends.
    func follow(_ lease: Lease, isLinked: Bool) throws(InterlockError) {
        guard isOpen, let completions else { return }
        try checkFollowLimit()
        let follower = try listener.commands.calls.followLease(
            lease, isLinked: isLinked, client: self, onEnd: completions.leaseEnded
        ).get()
        followed[follower] = isLinked || followed[follower] ?? false
    }

    /// Follows these leases. If one of them cannot be followed, follows none of them.
    func follow(_ leases: [Lease], isLinked: Bool) throws(InterlockError) {
        let before = followed
        do throws(InterlockError) {
            for lease in leases { try follow(lease, isLinked: isLinked) }
        } catch {
            for follower in followed.keys.sorted() where before[follower] == nil {
                followed[follower] = nil
                listener.unfollow(follower, releasing: false)
            }
            throw error
        }
    }

    /// Call when a followed lease was released or lost.
    func leaseEnded(_ end: LeaseEnd) {
        let wasLinked = followed.removeValue(forKey: end.follower) ?? false
        guard let loss = end.loss else { return }
        guard speaksRESP3 else {
            // RESP2 has no push to report the loss. A sidecar that shuts down closes its connections anyway.
            if wasLinked, loss != .shutdown, isOpen {
                listener.logger.log(.leaseLost, ["lock": "\(end.name)"])
                // Closes later: the reporting call must return first, and its replies must be written.
                slices.eventLoop.assumeIsolated().execute { [self] in perform(machine.closeAfterOutput()) }
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
        // Cancelling a call may deliver replies.
        for call in machine.revoke() { listener.cancel(call) }
        perform(machine.closeAfterOutput())
    }

    /// Closes the connection of an unknown client to admit another one.
    func evict() { context?.channel.closeImmediately() }

    /// Takes no further command, and closes when everything is answered.
    func closeAfterReplies(endedBy side: RESPServerStateMachine.Side) { perform(machine.closeAfterReplies(endedBy: side)) }

    /// Returns the service that argument `index` names. Clients mostly repeat the last one, so caching it saves making
    /// and hashing a string. Benchmark: "PERMIT.ACQUIRE, open breaker" in Benchmarks/figures/sidecar.py.
    func service(_ request: RESPRequest, _ index: Int) throws(InterlockError) -> ServiceReference {
        let calls = listener.commands.calls
        if let lastService, lastService.version == calls.servicesVersion, request.isEqual(index, lastService.name) {
            return lastService.reference
        }
        let reference = try calls.service(request.text(index)).get()
        lastService = (Array(request.text(index).utf8), calls.servicesVersion, reference)
        return reference
    }

    /// Takes from the limits of a service, in one call with the adjacent plain `LIMIT.TAKE` commands for it.
    func take(_ service: ServiceReference, tag: UInt64) {
        if let ended = takes.append(service, tag: tag) { submit(ended) }
    }

    /// Submits the adjacent takes as one call.
    func submitTakes() {
        if let run = takes.remove() { submit(run) }
    }

    private func submit(_ run: PlainTakes.Run) {
        guard let completions else { return }
        _ = listener.commands.calls.take(
            run.service, count: run.count, cost: 1, subject: nil, waitMilliseconds: 0, now: now,
            completion: completions.take(run.tag))
    }

    // MARK: Actions

    private func perform(_ action: RESPServerStateMachine.Action) {
        guard action != .none, let context else { return }
        switch action {
        case .none, .take: break
        case .awaitSlice: slices.later { [self] in continueInSlice() }
        case .planExtraCommand: _ = after(Self.extraCommandInterval) { [self] in perform(machine.extraCommandGranted()) }
        case .read: readFromSocket(context)
        case .resume: resume()
        case .planFlush: listener.flushes.plan(self)
        case .write:
            write(context)
            resume()
        case .writeAndClose:
            // NIO treats the channel as open until the read that found the end of its input has returned.
            writeAll(context) { context.eventLoop.assumeIsolated().execute { context.close(promise: nil) } }
        case .writeAndLinger: writeAll(context) { [self] in closeOutput(context) }
        case .close:
            write(context)
            context.close(promise: nil)
            // TLS waits for the client's close_notify.
            if isOpen { readFromSocket(context) }
        case .drop:
            writer.buffer.removeAll()
            context.close(promise: nil)
        case .discard: writer.buffer.removeAll()
        case .refuse:
            let timeout = listener.loginTimeout.nanoseconds / 1_000_000
            refuse("NOAUTH", "no API key was sent within \(timeout) ms; send AUTH key, or AUTH name key")
        case .watchStall:
            stall = after(listener.stallTimeout) { [self] in
                guard isOpen else { return }
                listener.logger.log(.clientStalled)
                perform(machine.drop())
            }
        case .leave:
            stall?.cancel()
            login?.cancel()
            slices.end()
            perform(machine.awaitSlice())
        case .end: end()
        }
    }

    private func after(_ delay: TimeAmount, _ work: @escaping () -> Void) -> Scheduled<Void> {
        slices.eventLoop.assumeIsolated().scheduleTask(in: delay, work)
    }

    private func write(_ context: ChannelHandlerContext) {
        guard writer.buffer.count > 0 else { return }
        context.writeAndFlush(takeOutput(), promise: nil)
    }

    /// Waits until the socket has taken the last byte: closing earlier would drop it.
    private func writeAll(_ context: ChannelHandlerContext, then next: @escaping () -> Void) {
        context.writeAndFlush(takeOutput()).assumeIsolated().whenComplete { _ in next() }
    }

    /// Empties the output first: the socket may accept it immediately, and ask for more.
    private func takeOutput() -> NIOAny {
        let bytes = writer.buffer.contents
        writer.buffer.removeAll()
        return wrapOutboundOut(bytes)
    }

    func flush() { if slices.mayWrite() { flushNow() } else { slices.writeLater { [self] in flushNow() } } }

    private func flushNow() { perform(machine.flush()) }

    private func closeOutput(_ context: ChannelHandlerContext) {
        guard isOpen else { return }
        context.close(mode: .output, promise: nil)
        linger = after(Self.lingerTimeout) { context.close(promise: nil) }
    }

    private func readFromSocket(_ context: ChannelHandlerContext) {
        if slices.mayRead() { context.read() } else { slices.readLater { [self] in self.context?.read() } }
    }

    /// Gives a client without a key small buffers and a deadline, because another client may need its slot.
    private func awaitLogin() {
        let isUnauthenticated = session.caller == nil
        parser.limits = isUnauthenticated ? .beforeLogin : .usual
        guard isUnauthenticated || !session.isSecured, isOpen else {
            login?.cancel()
            login = nil
            listener.admitted(self)
            return
        }
        guard login == nil else { return }
        listener.addNewcomer(self)
        login = after(listener.loginTimeout) { [self] in perform(machine.loginExpired(isSecured: session.isSecured)) }
    }

    // MARK: Commands

    /// Takes commands if there is time for a slice now, or else later.
    private func process() {
        now = listener.commands.calls.now()
        if slices.begin() { takeAll() } else { perform(machine.awaitSlice()) }
    }

    /// Takes commands while the slice lasts. The rest waits for the next one.
    private func takeAll() {
        machine.sliceBegins()
        commandsUntilClockRead = Self.commandsPerClockRead
        var isHeldBack = false
        while input.readableBytes > 0 {
            guard mayTake() else {
                isHeldBack = true
                break
            }
            guard takeOne() else { break }
            if writer.buffer.count >= Self.flushThreshold { flushNow() }
            commandsUntilClockRead -= 1 + parser.arguments.count / Self.argumentsPerCommand
            guard commandsUntilClockRead <= 0 else { continue }
            commandsUntilClockRead = Self.commandsPerClockRead
            guard !slices.mayContinue else { continue }
            if input.readableBytes > 0, mayTake() { perform(machine.awaitSlice()) }
            break
        }
        submitTakes()
        // The takes may have freed capacity. No reply resumes the commands of a client that has stopped sending.
        if isHeldBack, machine.isInputEnded, input.readableBytes > 0, mayTake() { perform(machine.awaitSlice()) }
        machine.sliceEnds()
    }

    @inline(__always)
    private func mayTake() -> Bool {
        let action = machine.nextCommand(isRedisBusy: listener.commands.calls.isRedisBusy)
        if action != .take { perform(action) }
        return action == .take
    }

    /// Makes the loop read the clock after the current command, which may take long.
    func markAsLong() { commandsUntilClockRead = 0 }

    /// Continues in a new slice.
    private func continueInSlice() {
        if machine.sliceGranted() == .take { takeAll() }
        perform(machine.sliceUsed())
    }

    /// Takes the commands received so far, then continues to read.
    private func resume() {
        var action = machine.resume(input: input.readableBytes, isRedisBusy: listener.commands.calls.isRedisBusy)
        if action == .take {
            process()
            slices.end()
            if writer.buffer.count > 0 { perform(machine.planFlush()) }
            action = machine.resumeReading(isRedisBusy: listener.commands.calls.isRedisBusy)
        }
        perform(action)
    }

    /// - Returns: `false` if more bytes are needed, or the connection closes.
    private func takeOne() -> Bool {
        let outcome = input.withUnsafeReadableBytes { bytes -> RESPRequestParser.Outcome in
            let outcome = parser.next(bytes)
            guard case .command(let length) = outcome else { return outcome }
            let tag = machine.commandParsed()
            if parser.unquoted.isEmpty {
                listener.commands.run(RESPRequest(bytes: bytes, arguments: parser.arguments), tag: tag, on: self)
            } else {
                let (words, arguments) = (parser.unquoted, parser.arguments)
                words.withUnsafeBytes { listener.commands.run(RESPRequest(bytes: $0, arguments: arguments), tag: tag, on: self) }
            }
            let limit = RESPServerStateMachine.maximumPipeline - machine.replies.count
            let repeats = takes.appendRepeats(of: tag, length: length, in: bytes, limit: limit)
            for _ in 0..<repeats { _ = machine.replies.append() }
            arrivals.recordRepeats(repeats)
            return .command(consumed: length * (1 + repeats))
        }
        switch outcome {
        case .command(let consumed), .empty(let consumed):
            input.moveReaderIndex(forwardBy: consumed)
            return true
        case .incomplete:
            return false
        case .malformed(let reason):
            refuse("ERR", "Protocol error: \(reason)")
            return false
        case .http:
            listener.logger.log(.httpAtRESP)
            perform(machine.drop())
            return false
        }
    }

    /// Sends an error after the earlier replies, and closes.
    private func refuse(_ code: String, _ message: String) {
        let tag = machine.refuse()
        input.clear()
        reply(tag) { $0.error(code, message) }
    }

    /// Releases everything, and cancels the calls that are pending.
    private func end() {
        slices.cancel()
        slices.end()
        let calls = machine.end()
        context = nil
        completions = nil
        takes = PlainTakes()
        stall?.cancel()
        login?.cancel()
        linger?.cancel()
        listener.disconnected(self)
        for call in calls { listener.cancel(call) }
        listener.unfollow(followed.sorted { $0.key < $1.key }.map { ($0.key, $0.value && machine.endedBy == .client) })
        followed = [:]
        if let follower = session.follower { listener.unfollow(follower) }
        session.follower = nil
    }
}

// MARK: - Channel

extension RESPConnection {
    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        slices.clientKey = session.caller?.clientKey ?? ""
        completions = RESPCompletions(connection: self)
        PeerLiveness.watch(context.channel)
        listener.connected(self)
        awaitLogin()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        perform(machine.closed(input: input.readableBytes))
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted? = event as? TLSUserEvent {
            session.isSecured = true
            awaitLogin()
        }
        if case ChannelEvent.inputClosed = event { perform(machine.inputEnded(input: input.readableBytes)) }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let action = machine.bytesReceived()
        guard action != .discard else { return }
        input.append(unread: unwrapInboundIn(data))
        if action == .take { process() }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if writer.buffer.count > 0 || machine.isClosing { flushNow() }
        slices.end()
        // The channel reuses its buffer once nothing references it.
        if input.readableBytes == 0 { input = ByteBuffer() }
    }

    /// NIO asks for more after each read.
    func read(context: ChannelHandlerContext) {
        perform(machine.readRequested(input: input.readableBytes, isRedisBusy: listener.commands.calls.isRedisBusy))
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        stall?.cancel()
        stall = nil
        perform(machine.writabilityChanged(context.channel.isWritable))
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        perform(machine.closed(input: input.readableBytes))
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The operating system of a client that exits sends a FIN or an RST, so a silent client may still be running.
        if PeerLiveness.indicatesUnreachablePeer(error) { machine.clientVanished() }
        context.close(promise: nil)
    }
}
