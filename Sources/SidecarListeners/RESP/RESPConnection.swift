internal import Interlock
internal import InterlockCore
internal import InterlockHTTP
internal import Logging
internal import NIOCore
internal import NIOTLS
internal import SidecarTelemetry

/// The connection of one RESP client: parses its commands, starts them, and writes their replies.
/// `RESPServerStateMachine` decides when, and this handler executes its actions.
///
/// Confined to the coordinator's event loop, which it calls without a hop. Commands start without waiting for earlier
/// replies.
final class RESPConnection: ChannelDuplexHandler, FlushedConnection {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The delay before one more command is taken while Redis is busy.
    private static let extraCommandDelay = TimeAmount.milliseconds(1)
    /// The maximum number of leases that are followed for one client.
    static let maximumFollowed = 10_000
    /// The size of the output, in bytes, at which it is written before the end of the tick.
    private static let flushThreshold = 64 << 10
    /// The time for which a refused client may still send.
    private static let lingerTimeout = TimeAmount.seconds(1)
    /// The number of commands between two reads of the clock: a cheap command takes a microsecond.
    private static let commandsPerClockRead = 8
    /// The number of arguments that cost as much as a command.
    private static let argumentsPerCommand = 16

    // All references to a connection are strong, and are released when the client leaves. A weak reference would make
    // every retain of the connection slower, by a tenth of a command's time.
    let listener: RESPListenerContext
    /// The completions that write replies. They retain the connection until its client leaves.
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
    /// The arrival time of the current commands. Waits and deadlines count from this time, even if the slice comes much
    /// later.
    private(set) var now = Instant(nanoseconds: 0)
    let slices: ConnectionSlices
    /// The number of commands until the clock is read again.
    private var commandsUntilClockRead = 0
    /// The service of the last command that named one.
    private var lastService: (name: [UInt8], version: Int, reference: ServiceReference)?
    /// The leases that are followed for this client, and whether they are linked to the connection.
    private var followed: [LeaseFollower: Bool] = [:]
    /// The timer that drops a client that does not read its replies.
    private var stallTimer: Scheduled<Void>?
    /// The timer that ends the wait for a TLS handshake or a key.
    private var loginTimer: Scheduled<Void>?
    /// The timer that closes the connection of a refused client.
    private var lingerTimer: Scheduled<Void>?

    /// The client's name, rights and options.
    var session: RESPSession {
        didSet {
            guard session.caller != oldValue.caller else { return }
            slices.clientName = session.caller?.clientName ?? ""
            if (session.caller == nil) != (oldValue.caller == nil) { awaitLogin() }
        }
    }

    /// Creates the connection's handler.
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
    /// - Returns: `false` if the client has left, or the command already has its reply.
    @discardableResult
    func reply(_ tag: UInt64, _ write: (RESPWriter) -> Void) -> Bool {
        switch machine.replies.position(of: tag) {
        case .answered: return false
        case .later:
            let deferred = writer.withNewBuffer()
            write(deferred)
            machine.replies.hold(deferred.buffer, for: tag)
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

    /// Writes the replies that waited for the last one written.
    private func writeReadyReplies() {
        while let reply = machine.replies.popReady() { writer.buffer.append(reply) }
        if !arrivals.isEmpty {
            arrivals.recordReplies(
                before: machine.replies.firstTag, now: listener.commands.coordinator.now(), listener.commands.times)
        }
        afterWriting()
    }

    /// Sends the output now or later.
    private func afterWriting() {
        let action = machine.outputAppended(
            writer.buffer.count, inputLength: input.readableBytes, mayWrite: slices.beginWrite())
        if action != .none { perform(action) }
    }

    /// Records the arrival of a command.
    /// - Parameter commandIndex: the command's index in `RESPCommandTable.metricNames`.
    func recordArrival(_ commandIndex: Int, _ tag: UInt64) { arrivals.recordArrival(commandIndex, tag: tag, at: now) }

    /// Records the trace of the command with this tag, whose reply follows immediately.
    func recordTrace(_ tag: UInt64, by trace: TraceContext) {
        // A trace that is recorded after its command's reply would be kept forever.
        if machine.replies.position(of: tag) != .answered { arrivals.recordTrace(tag, by: trace) }
    }

    /// Writes a message that is not a reply, such as an event.
    func push(_ write: (RESPWriter) -> Void) {
        guard isOpen else { return }
        write(writer)
        afterWriting()
    }

    /// Records the call to cancel if the client leaves before the reply to the command with this tag.
    func recordPendingCall(_ call: PendingCall?, for tag: UInt64) {
        if let call { machine.replies.recordPendingCall(call, for: tag) }
    }

    /// Whether the connection is open, or the client has left commands that still run.
    var isOpen: Bool { machine.isOpen }
    /// Whether the channel has closed, and the last commands run without replies.
    var isChannelClosed: Bool { machine.isChannelClosed }
    var remoteAddress: SocketAddress? { context?.remoteAddress }

    /// Whether the client is notified of every lost lease. Many clients would mistake a push that they did not request
    /// for the next reply.
    var receivesLosses: Bool { speaksRESP3 && (session.receivesLosses || session.followerID != nil) }

    /// Checks that this connection may follow another lease.
    /// - Throws: `InterlockError` if the maximum is reached.
    func checkFollowLimit() throws(InterlockError) {
        guard followed.count < Self.maximumFollowed else {
            throw InterlockError(
                .unavailable, "this connection already watches \(followed.count) leases; use another connection")
        }
    }

    /// Follows a lease: its loss will be reported to the client. A linked lease is also renewed until the connection
    /// ends.
    func follow(_ lease: Lease, isLinked: Bool) throws(InterlockError) {
        guard isOpen, let completions else { return }
        try checkFollowLimit()
        let follower = try listener.commands.coordinator.followLease(
            lease, isLinked: isLinked, client: self, onEnd: completions.leaseEnded
        ).get()
        followed[follower] = isLinked || followed[follower] ?? false
    }

    /// Follows these leases. If one of them cannot be followed, follows none of them.
    func follow(_ leases: [Lease], isLinked: Bool) throws(InterlockError) {
        let previouslyFollowed = followed
        do throws(InterlockError) {
            for lease in leases { try follow(lease, isLinked: isLinked) }
        } catch {
            for follower in followed.keys.sorted() where previouslyFollowed[follower] == nil {
                followed[follower] = nil
                listener.unfollow(follower, releasing: false)
            }
            throw error
        }
    }

    /// Handles the end of a followed lease: reports its loss to the client.
    func leaseEnded(_ end: LeaseEnd) {
        let wasLinked = followed.removeValue(forKey: end.follower) ?? false
        guard let loss = end.loss else { return }
        guard speaksRESP3 else {
            // RESP2 has no push that could report the loss. A sidecar that shuts down closes its connections anyway.
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

    /// Cancels all pending calls and closes the connection, because the caller's key was removed. This works even if
    /// the client does not read.
    func revoke() {
        guard session.isSecured else { return }
        // Cancelling a call may deliver replies.
        for call in machine.revoke() { listener.cancel(call) }
        perform(machine.closeAfterOutput())
    }

    /// Closes the connection of an unidentified client to free its slot.
    func evict() { context?.channel.closeImmediately() }

    /// Takes no further command, and closes after the pending replies.
    func closeAfterReplies(endedBy side: RESPServerStateMachine.Side) { perform(machine.closeAfterReplies(endedBy: side)) }

    /// Returns the service that argument `index` names. Clients mostly repeat the last service, so caching it saves
    /// creating and hashing a string. Benchmark: "PERMIT.ACQUIRE, open breaker" in Benchmarks/figures/sidecar.py.
    func service(_ request: RESPRequest, _ index: Int) throws(InterlockError) -> ServiceReference {
        let coordinator = listener.commands.coordinator
        if let lastService, lastService.version == coordinator.servicesVersion, request.isEqual(index, lastService.name) {
            return lastService.reference
        }
        let reference = try coordinator.service(request.text(index)).get()
        lastService = (Array(request.text(index).utf8), coordinator.servicesVersion, reference)
        return reference
    }

    /// Takes from the limits of a service, in one call with the adjacent plain `LIMIT.TAKE` commands for it.
    func take(_ service: ServiceReference, tag: UInt64) {
        if let previousRun = takes.append(service, tag: tag) { submit(previousRun) }
    }

    /// Submits the adjacent takes as one call.
    func submitTakes() {
        if let run = takes.remove() { submit(run) }
    }

    private func submit(_ run: PlainTakes.Run) {
        guard let completions else { return }
        _ = listener.commands.coordinator.take(
            run.service, count: run.count, cost: 1, subject: nil, waitMilliseconds: 0, now: now,
            completion: completions.take(run.tag))
    }

    // MARK: Actions

    private func perform(_ action: RESPServerStateMachine.Action) {
        guard action != .none, let context else { return }
        switch action {
        case .none, .take: break
        case .awaitSlice: slices.later { [self] in continueInSlice() }
        case .scheduleExtraCommand:
            _ = after(Self.extraCommandDelay) { [self] in perform(machine.extraCommandGranted()) }
        case .read: readFromSocket(context)
        case .resume: resume()
        case .scheduleFlush: listener.flushes.scheduleFlush(of: self)
        case .write:
            write(context)
            resume()
        case .writeAndClose:
            // NIO treats the channel as open until the read in which its input ended has returned.
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
            stallTimer = after(listener.stallTimeout) { [self] in
                guard isOpen else { return }
                listener.logger.log(.clientStalled)
                perform(machine.drop())
            }
        case .leave:
            stallTimer?.cancel()
            loginTimer?.cancel()
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

    /// Writes the output, and calls `next` when the socket has taken the last byte: closing earlier would drop it.
    private func writeAll(_ context: ChannelHandlerContext, then next: @escaping () -> Void) {
        context.writeAndFlush(takeOutput()).assumeIsolated().whenComplete { _ in next() }
    }

    /// Removes and returns the output. The output must be empty before the write, because the socket may accept the
    /// bytes immediately and request more.
    private func takeOutput() -> NIOAny {
        let bytes = writer.buffer.contents
        writer.buffer.removeAll()
        return wrapOutboundOut(bytes)
    }

    func flush() { if slices.beginWrite() { flushNow() } else { slices.writeLater { [self] in flushNow() } } }

    /// Writes or closes, as the machine decides.
    private func flushNow() { perform(machine.flush()) }

    private func closeOutput(_ context: ChannelHandlerContext) {
        guard isOpen else { return }
        context.close(mode: .output, promise: nil)
        lingerTimer = after(Self.lingerTimeout) { context.close(promise: nil) }
    }

    private func readFromSocket(_ context: ChannelHandlerContext) {
        if slices.beginRead() { context.read() } else { slices.readLater { [self] in self.context?.read() } }
    }

    /// Gives an unauthenticated client small buffers and a login deadline, because another client may need its slot.
    /// Ends the deadline once the client has logged in.
    private func awaitLogin() {
        let isUnauthenticated = session.caller == nil
        parser.limits = isUnauthenticated ? .beforeLogin : .usual
        guard isUnauthenticated || !session.isSecured, isOpen else {
            loginTimer?.cancel()
            loginTimer = nil
            listener.clientAdmitted(self)
            return
        }
        guard loginTimer == nil else { return }
        listener.addUnidentified(self)
        loginTimer = after(listener.loginTimeout) { [self] in
            perform(machine.loginExpired(isSecured: session.isSecured))
        }
    }

    // MARK: Commands

    /// Takes commands now if there is time for a slice, or else later.
    private func process() {
        now = listener.commands.coordinator.now()
        if slices.begin() { takeCommands() } else { perform(machine.awaitSlice()) }
    }

    /// Takes commands while the slice lasts. The rest waits for the next one.
    private func takeCommands() {
        machine.sliceBegins()
        commandsUntilClockRead = Self.commandsPerClockRead
        var isHeldBack = false
        while input.readableBytes > 0 {
            guard mayTake() else {
                isHeldBack = true
                break
            }
            guard takeCommand() else { break }
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
        let action = machine.nextCommand(isRedisBusy: listener.commands.coordinator.isRedisBusy)
        if action != .take { perform(action) }
        return action == .take
    }

    /// Makes `takeCommands` read the clock after the current command, which may take long.
    func markAsLong() { commandsUntilClockRead = 0 }

    /// Takes commands in the slice that was awaited.
    private func continueInSlice() {
        if machine.sliceGranted() == .take { takeCommands() }
        perform(machine.sliceUsed())
    }

    /// Takes the commands received so far, then continues to read.
    private func resume() {
        var action = machine.resume(inputLength: input.readableBytes, isRedisBusy: listener.commands.coordinator.isRedisBusy)
        if action == .take {
            process()
            slices.end()
            if writer.buffer.count > 0 { perform(machine.scheduleFlush()) }
            action = machine.resumeReading(isRedisBusy: listener.commands.coordinator.isRedisBusy)
        }
        perform(action)
    }

    /// Takes the next command from the input, and the takes that repeat it.
    /// - Returns: `false` if more bytes are needed, or the connection closes.
    private func takeCommand() -> Bool {
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
            let repeatCount = takes.appendRepeats(of: tag, length: length, in: bytes, limit: limit)
            for _ in 0..<repeatCount { _ = machine.replies.append() }
            arrivals.recordRepeats(repeatCount)
            return .command(consumed: length * (1 + repeatCount))
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

    /// Cancels the pending calls, and releases everything.
    private func end() {
        slices.cancel()
        slices.end()
        let pendingCalls = machine.end()
        context = nil
        completions = nil
        takes = PlainTakes()
        stallTimer?.cancel()
        loginTimer?.cancel()
        lingerTimer?.cancel()
        listener.connectionClosed(self)
        for call in pendingCalls { listener.cancel(call) }
        listener.unfollow(followed.sorted { $0.key < $1.key }.map { ($0.key, $0.value && machine.endedBy == .client) })
        followed = [:]
        if let followerID = session.followerID { listener.unfollow(followerID) }
        session.followerID = nil
    }
}

// MARK: - Channel

extension RESPConnection {
    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        slices.clientName = session.caller?.clientName ?? ""
        completions = RESPCompletions(connection: self)
        PeerLiveness.watch(context.channel)
        listener.connectionOpened(self)
        awaitLogin()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        perform(machine.channelClosed(inputLength: input.readableBytes))
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted? = event as? TLSUserEvent {
            session.isSecured = true
            awaitLogin()
        }
        if case ChannelEvent.inputClosed = event { perform(machine.inputEnded(inputLength: input.readableBytes)) }
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
        // The channel reuses its buffer once nothing else references it.
        if input.readableBytes == 0 { input = ByteBuffer() }
    }

    func read(context: ChannelHandlerContext) {
        perform(
            machine.readRequested(inputLength: input.readableBytes, isRedisBusy: listener.commands.coordinator.isRedisBusy))
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        stallTimer?.cancel()
        stallTimer = nil
        perform(machine.writabilityChanged(context.channel.isWritable))
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        perform(machine.channelClosed(inputLength: input.readableBytes))
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // When a client exits, its operating system sends a FIN or an RST. So a silent client may still be running.
        if PeerLiveness.indicatesUnreachablePeer(error) { machine.clientVanished() }
        context.close(promise: nil)
    }
}
