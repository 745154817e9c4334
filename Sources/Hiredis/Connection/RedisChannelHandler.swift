internal import DequeModule
internal import NIOCore

/// One connection's life: encodes commands, matches replies to them in order, and fails what is left when it ends.
///
/// Confined to its channel's event loop. Commands that are sent within one tick of the loop leave in one write.
final class RedisChannelHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// A command that was sent and awaits its reply.
    private struct Pending {
        var sentAt: NIODeadline
        var timeout: TimeAmount
        /// `nil` once it has timed out: the reply is still to come and belongs to nobody.
        var receive: ((Result<RedisReply, RedisError>) -> Void)?

        var deadline: NIODeadline { sentAt + timeout }
    }

    private let maximumPending: Int
    private let commandTimeout: TimeAmount
    private let parser: ReplyParser
    private var encoder = CommandEncoder()
    private var outgoing = ByteBuffer()
    private var isFlushScheduled = false
    private var unflushed = 0
    /// A tick with more commands than this is written in parts, so that Redis works on the first while this side is still
    /// busy with the rest: on two cores that is worth a third of the throughput of small scripts.
    static let largestFlush = 16
    private var pending = Deque<Pending>()
    /// When the next look at the timeouts is due; no pending command is due earlier.
    private var nextExpiry: (deadline: NIODeadline, task: Scheduled<Void>)?
    private var context: ChannelHandlerContext?
    private var lastRead = NIODeadline.now()
    /// Why the connection is being closed, when this side decided to.
    private var closeReason: RedisError?

    /// How many commands were sent, scripts that went again with their source twice.
    var commandsSent: Int64 = 0
    /// Called once, after every pending command has failed.
    var onClose: ((RedisError) -> Void)?
    /// Called with each reply that answers no command: what a subscription brings.
    var onPush: ((RedisReply) -> Void)?
    /// Called once per read with the time that the oldest answered command took.
    var onRoundTrip: ((TimeAmount) -> Void)?

    init(configuration: RedisConfiguration) {
        maximumPending = configuration.maximumPending
        commandTimeout = TimeAmount(configuration.commandTimeout)
        parser = ReplyParser(limits: configuration.replyLimits)
    }

    var isOpen: Bool { context != nil && closeReason == nil }

    /// Sends a command; `completion` is called exactly once, on the event loop, possibly at once.
    func send<Command: RedisCommand>(
        _ command: Command,
        timeout: TimeAmount? = nil,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        guard admit(completion) else { return }
        command.encode(into: &encoder)
        enqueue(timeout: timeout) { completion($0.decoded(by: command)) }
    }

    /// Sends a script by its digest, and once more with its source when the server does not know it.
    func send<Command: ScriptCommand>(
        script command: Command,
        timeout: TimeAmount? = nil,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        guard admit(completion) else { return }
        command.encode(into: &encoder)
        enqueue(timeout: timeout) { [weak self] result in
            guard case .success(.error(let error)) = result, error.code == .server(.noScript), let self else {
                return completion(result.decoded(by: command))
            }
            guard self.admit(completion) else { return }
            command.encodeWithSource(into: &self.encoder)
            self.enqueue(timeout: timeout) { completion($0.decoded(by: command)) }
        }
    }

    /// Writes a command whose reply comes by `onPush`, as those of a subscription do.
    func sendWithoutReply(_ words: [String]) {
        for word in words { encoder.append(word) }
        encoder.format(into: &outgoing)
        scheduleFlush()
    }

    /// Ends the connection; everything pending fails with `answerLost`.
    func close(reason: RedisError) {
        guard closeReason == nil else { return }
        closeReason = reason
        context?.close(promise: nil)
    }

    /// When the last bytes came.
    var timeSinceLastRead: TimeAmount { .now() - lastRead }

    private func admit<Reply>(_ completion: (Result<Reply, RedisError>) -> Void) -> Bool {
        guard isOpen else {
            completion(.failure(RedisError(.notConnected, closeReason?.message ?? "Redis is not connected")))
            return false
        }
        guard pending.count < maximumPending else {
            completion(.failure(RedisError(.overloaded, "\(pending.count) commands already await replies from Redis")))
            return false
        }
        return true
    }

    private func enqueue(timeout: TimeAmount?, receive: @escaping (Result<RedisReply, RedisError>) -> Void) {
        encoder.format(into: &outgoing)
        let command = Pending(sentAt: .now(), timeout: timeout ?? commandTimeout, receive: receive)
        pending.append(command)
        commandsSent += 1
        unflushed += 1
        if unflushed < Self.largestFlush { scheduleFlush() } else { flush() }
        scheduleExpiry(at: command.deadline)
    }

    private func scheduleFlush() {
        guard !isFlushScheduled, let context else { return }
        isFlushScheduled = true
        context.eventLoop.assumeIsolated().execute { [weak self] in self?.flush() }
    }

    private func flush() {
        isFlushScheduled = false
        unflushed = 0
        guard let context, outgoing.readableBytes > 0 else { return }
        context.writeAndFlush(wrapOutboundOut(outgoing), promise: nil)
        outgoing.clear()
    }
}

// MARK: - Timeouts

extension RedisChannelHandler {
    /// Plans a look at the timeouts unless an earlier one is planned: O(1), and for commands of one timeout no new timer.
    private func scheduleExpiry(at deadline: NIODeadline) {
        guard let context, nextExpiry.map({ deadline < $0.deadline }) ?? true else { return }
        nextExpiry?.task.cancel()
        let task = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [weak self] () -> Void in
            self?.expire()
        }
        nextExpiry = (deadline, task)
    }

    /// O(n) in pending commands, once per timeout at most while all have the same.
    private func expire() {
        nextExpiry = nil
        let now = NIODeadline.now()
        var late: [(Result<RedisReply, RedisError>) -> Void] = []
        var next: NIODeadline?
        for index in pending.indices {
            guard let receive = pending[index].receive else { continue }
            guard pending[index].deadline <= now else {
                next = min(next ?? pending[index].deadline, pending[index].deadline)
                continue
            }
            pending[index].receive = nil
            late.append(receive)
        }
        // Nothing at all for a timeout after a command was due: the peer is gone without saying so.
        if let oldest = pending.first, oldest.receive == nil, oldest.sentAt + oldest.timeout + oldest.timeout <= now,
            timeSinceLastRead > oldest.timeout
        {
            close(reason: RedisError(.answerLost, "Redis has not answered for too long; the connection was given up"))
        }
        for receive in late {
            receive(.failure(RedisError(.timedOut, "Redis did not answer in time; the command may have been carried out")))
        }
        if let next { scheduleExpiry(at: next) }
    }
}

// MARK: - ChannelInboundHandler

extension RedisChannelHandler {
    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = unwrapInboundIn(data)
        lastRead = .now()
        if let onRoundTrip, let oldest = pending.first { onRoundTrip(lastRead - oldest.sentAt) }
        do {
            try buffer.withUnsafeReadableBytes { bytes in
                try parser.feed(bytes)
            }
            while let reply = try parser.next() {
                deliver(reply)
            }
        } catch let error as RedisError {
            close(reason: error)
        } catch {
            close(reason: RedisError(.protocolViolation, "\(error)"))
        }
    }

    private func deliver(_ reply: RedisReply) {
        guard let command = pending.popFirst() else {
            guard let onPush else {
                return close(reason: RedisError(.protocolViolation, "Redis sent a reply that no command asked for"))
            }
            return onPush(reply)
        }
        command.receive?(.success(reply))
        if case .error(let error) = reply, error.code == .server(.readOnly) {
            // A replica that was a primary before: the next connection may find the new primary.
            close(reason: error)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        close(reason: RedisError(.connectionFailed, "the connection to Redis failed: \(error)"))
    }

    func channelInactive(context: ChannelHandlerContext) {
        let reason = closeReason ?? RedisError(.answerLost, "Redis closed the connection")
        closeReason = reason
        let lost = RedisError(.answerLost, "\(reason.message); the command may have been carried out")
        nextExpiry?.task.cancel()
        nextExpiry = nil
        let failed = pending
        pending.removeAll()
        for command in failed { command.receive?(.failure(lost)) }
        onClose?(reason)
        onClose = nil
        onPush = nil
        context.fireChannelInactive()
    }
}

extension Result where Success == RedisReply, Failure == RedisError {
    fileprivate func decoded<Command: RedisCommand>(by command: Command) -> Result<Command.Reply, RedisError> {
        switch self {
        case .failure(let error): return .failure(error)
        case .success(.error(let error)) where !(command is AnyCommand): return .failure(error)
        case .success(let reply):
            do throws(RedisError) {
                return .success(try command.decode(reply))
            } catch {
                return .failure(error)
            }
        }
    }
}
