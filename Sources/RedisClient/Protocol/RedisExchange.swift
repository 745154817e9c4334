internal import DequeModule
internal import NIOCore

/// An estimate of a server's clock on one connection: the last reading, advanced by the local clock. It lags the
/// server's clock by at most the duration of the reading plus that of the command. It leads by no more than the
/// server's clock loses between two readings: at most 8.3 % of that time where chrony slews it, or the amount by which
/// it was set back since the last reading.
///
/// The estimate is available only on a connection that certainly reaches a primary, and only `delay` after that became
/// certain: a fence above the estimate, less `delay`, is above all fences that were issued before that primary took
/// over.
struct ServerClock {
    private var seen: (microseconds: Int64, at: NIODeadline)?
    private let delay: TimeAmount
    private var knownFrom = NIODeadline.distantFuture
    /// The time at which the last command that only a primary runs was sent.
    private var provenAt: NIODeadline?

    /// The time for which a proof is valid.
    private static let proofTime = TimeAmount.seconds(1)
    /// The age at which commands that carry the time request a new reading. Without one, the estimate expires at
    /// `longestAge`.
    private static let readInterval = TimeAmount.milliseconds(500)
    private static let longestAge = TimeAmount.milliseconds(1200)
    /// The longest duration of a reading that is precise enough.
    private static let longestRead = TimeAmount.milliseconds(50)

    /// - Parameter delay: the time after the first proof for which no estimate is available.
    init(delay: TimeAmount) {
        self.delay = delay
    }

    /// Returns the estimate in microseconds since 1970, or `nil` if it is not available.
    func microseconds(at now: NIODeadline) -> Int64? {
        guard let seen, now - seen.at <= Self.longestAge, now >= knownFrom, let provenAt, now - provenAt <= Self.proofTime
        else { return nil }
        return seen.microseconds + (now - seen.at).nanoseconds / 1000
    }

    /// Returns whether the clock is due for another reading.
    func isOld(now: NIODeadline) -> Bool { seen.map { now - $0.at >= Self.readInterval } ?? true }

    /// - Parameter sentAt: the time at which the reading began.
    mutating func record(_ microseconds: Int64, sentAt: NIODeadline, now: NIODeadline) {
        if now - sentAt <= Self.longestRead { seen = (microseconds, now) }
    }

    /// Records that the server was a primary when it ran a command sent at `sentAt`. After a gap without proofs it may
    /// only just have become one, so that the delay starts anew.
    mutating func prove(sentAt: NIODeadline, now: NIODeadline) {
        if provenAt.map({ sentAt - $0 > Self.proofTime }) ?? true { knownFrom = now + delay + Self.longestRead }
        provenAt = max(provenAt ?? sentAt, sentAt)
    }

    /// Discards the reading and the proof, because the server may have taken over from another.
    mutating func doubt() {
        seen = nil
        provenAt = nil
    }
}

/// One connection's conversation with Redis, without I/O. Encodes commands, parses replies, matches replies to commands
/// in order, and fails commands that time out. Reads no clock: callers pass the time.
final class RedisExchange {
    /// A command that was sent and awaits its reply.
    private struct Pending {
        var sentAt: NIODeadline
        var timeout: TimeAmount
        /// Whether only a primary runs the command.
        var isProof: Bool
        /// The callback for the reply, or `nil` once the command has timed out and its reply is to be discarded.
        var receive: ((Result<RedisReply, RedisError>) -> Void)?

        var deadline: NIODeadline { sentAt + timeout }
    }

    private let maximumPending: Int
    private let commandTimeout: TimeAmount
    private let parser: ReplyParser
    private var encoder = CommandEncoder()
    private var pending = Deque<Pending>()
    private var lastRead: NIODeadline

    /// The number of commands sent before the last one that carried a script's source, by the script's digest.
    private var sources: [String: Int64] = [:]

    /// The bytes to send. The sender calls `clearOutgoing` afterwards.
    private(set) var outgoing = ByteBuffer()
    /// The number of commands in `outgoing`.
    private(set) var unsent = 0
    /// The time at which to call `expire`, or `nil` if nothing is pending. No pending command is due earlier.
    private(set) var nextExpiry: NIODeadline?
    /// The reason to close the connection, or `nil` while it is open. Once set, nothing is sent or received.
    private(set) var closeReason: RedisError?
    /// The number of commands that await their reply.
    var awaited: Int { pending.count }
    /// The number of commands sent. A script that was sent again with its source counts twice.
    var commandsSent: Int64 = 0
    /// The estimate of the server's clock, or `nil` if it is not used.
    var clock: ServerClock?
    /// Whether a command that carries the server's time has found the reading too old.
    var isClockOld = false
    /// Whether the link is logging in. Only the link knows how many commands that takes and explains the refusal of a
    /// replica.
    var isLoggingIn = false
    /// Called with each reply that answers no command, as messages of a subscription do.
    var onPush: ((RedisReply) -> Void)?
    /// Called with each error that says that Redis cannot serve, or denies access.
    var onRefusal: ((RedisError) -> Void)?
    /// Called once per read with the time that the oldest answered command took.
    var onRoundTrip: ((TimeAmount) -> Void)?

    init(maximumPending: Int, commandTimeout: Duration, replyLimits: ReplyLimits, now: NIODeadline) {
        self.maximumPending = maximumPending
        self.commandTimeout = TimeAmount(commandTimeout)
        parser = ReplyParser(limits: replyLimits)
        lastRead = now
    }

    func timeSinceLastRead(now: NIODeadline) -> TimeAmount { now - lastRead }

    // MARK: Sending

    /// Appends a command to `outgoing`. `completion` is called exactly once, possibly at once. Sends a script by its
    /// digest. If the server does not know it, sends it again with its source, or by digest if another call has sent
    /// the source since.
    func send<Command: RedisCommand>(
        _ command: Command, timeout: TimeAmount?, now: NIODeadline,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        send(command, isAgain: false, timeout: timeout, now: now, completion: completion)
    }

    /// - Parameter isAgain: whether the command follows one that carried the source. If the server does not know the
    ///   script even then, the command is sent with its own source.
    private func send<Command: RedisCommand>(
        _ command: Command, isAgain: Bool, timeout: TimeAmount?, now: NIODeadline,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        guard admit(completion) else { return }
        command.encode(into: &encoder)
        enqueue(&encoder, command, isAgain: isAgain, timeout: timeout, now: now, completion: completion)
    }

    /// Appends a command that is already encoded in `written`, and clears `written`.
    func send<Command: RedisCommand>(
        _ command: Command, written: inout CommandEncoder, timeout: TimeAmount?, now: NIODeadline,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        guard admit(completion) else { return written.clear() }
        enqueue(&written, command, isAgain: false, timeout: timeout, now: now, completion: completion)
    }

    /// Appends a command with the source of its script.
    func send<Command: RedisCommand>(
        source command: Command, timeout: TimeAmount?, now: NIODeadline,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        guard admit(completion) else { return }
        command.encodeWithSource(into: &encoder)
        enqueue(&encoder, timeout: timeout, now: now) { $0.deliver(completion, decodedBy: command) }
    }

    /// Appends a command whose confirmation arrives in `onPush`, as for subscriptions.
    func sendWithoutReply(_ words: [String]) {
        for word in words { encoder.append(word) }
        encoder.format(into: &outgoing)
    }

    private func admit<Reply>(_ completion: (Result<Reply, RedisError>) -> Void) -> Bool {
        guard closeReason != nil || pending.count >= maximumPending && !isLoggingIn else { return true }
        refuse(completion)
        return false
    }

    /// Separate and not inlined, so that callers fetch the metadata of the generic result type only on this path.
    @inline(never)
    private func refuse<Reply>(_ completion: (Result<Reply, RedisError>) -> Void) {
        if let closeReason {
            completion(.failure(RedisError(.notConnected, closeReason.message)))
        } else {
            completion(.failure(RedisError(.overloaded, "\(pending.count) commands already await replies from Redis")))
        }
    }

    private func enqueue<Command: RedisCommand>(
        _ written: inout CommandEncoder, _ command: Command, isAgain: Bool, timeout: TimeAmount?, now: NIODeadline,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        let end = now + (timeout ?? commandTimeout)
        let number = commandsSent
        enqueue(&written, timeout: timeout, now: now) { [weak self] result in
            guard case .success(.error(let error)) = result, error.code == .server(.noScript), let self,
                let digest = command.scriptDigest
            else { return result.deliver(completion, decodedBy: command) }
            // The retry gets the rest of the command's time.
            let left = max(end - self.lastRead, .nanoseconds(1))
            if !isAgain, let source = self.sources[digest], source > number {
                return self.send(command, isAgain: true, timeout: left, now: self.lastRead, completion: completion)
            }
            self.sources[digest] = self.commandsSent
            self.send(source: command, timeout: left, now: self.lastRead, completion: completion)
        }
    }

    private func enqueue(
        _ written: inout CommandEncoder, timeout: TimeAmount?, now: NIODeadline,
        receive: @escaping (Result<RedisReply, RedisError>) -> Void
    ) {
        let reportsTime = clock != nil && written.reportsTime
        if reportsTime, clock?.isOld(now: now) ?? false { isClockOld = true }
        written.format(into: &outgoing, serverTime: reportsTime ? clock?.microseconds(at: now) : nil)
        let command = Pending(sentAt: now, timeout: timeout ?? commandTimeout, isProof: reportsTime, receive: receive)
        pending.append(command)
        commandsSent += 1
        unsent += 1
        if nextExpiry.map({ command.deadline < $0 }) ?? true { nextExpiry = command.deadline }
    }

    /// Clears `outgoing` after it was sent.
    func clearOutgoing() {
        outgoing.clear()
        unsent = 0
    }

    // MARK: Receiving

    /// Parses bytes from the wire and delivers their replies. Closes the connection if they are not valid RESP2.
    func receive(_ bytes: UnsafeRawBufferPointer, now: NIODeadline) {
        lastRead = now
        if let onRoundTrip, let oldest = pending.first { onRoundTrip(now - oldest.sentAt) }
        do throws(RedisError) {
            try parser.feed(bytes)
            while closeReason == nil, let reply = try parser.next() { deliver(reply) }
        } catch {
            close(reason: error)
        }
    }

    private func deliver(_ reply: RedisReply) {
        guard let command = pending.popFirst() else {
            guard let onPush else {
                return close(reason: RedisError(.protocolViolation, "Redis sent a reply although no command was pending"))
            }
            return onPush(reply)
        }
        if command.isProof { note(reply, command) }
        command.receive?(.success(reply))
        guard case .error(let error) = reply, case .server(let condition) = error.code else { return }
        if condition.isUnavailability { onRefusal?(error) }
        // The server was a primary before; the next connection may find the new one.
        if error.isDemotion, !isLoggingIn { close(reason: error) }
    }

    private func note(_ reply: RedisReply, _ command: Pending) {
        if case .error = reply { return }
        // The command changed nothing, and a replica may reply the same.
        if let number = reply.integer, number < 1 { return }
        clock?.prove(sentAt: command.sentAt, now: lastRead)
    }

    // MARK: Timeouts and closing

    /// Fails the commands that are due. O(n) in pending commands, at most once per timeout if all have the same.
    func expire(now: NIODeadline) {
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
        // If nothing at all arrived for a timeout after a command was due, the peer is gone.
        if let oldest = pending.first, oldest.receive == nil {
            // A command that had little time left says nothing about the peer.
            let end = max(oldest.deadline, lastRead) + max(oldest.timeout, commandTimeout)
            if end <= now {
                close(reason: RedisError(.answerLost, "Redis did not answer for too long; the connection was closed"))
            } else {
                next = min(next ?? end, end)
            }
        }
        nextExpiry = next
        for receive in late {
            receive(.failure(RedisError(.timedOut, "Redis did not answer in time; the command may have been carried out")))
        }
    }

    /// Marks the connection to be closed. The first reason is kept.
    func close(reason: RedisError) {
        guard closeReason == nil else { return }
        closeReason = reason
    }

    /// Fails every pending command with `answerLost`, because the connection is gone, and returns the reason.
    func connectionLost() -> RedisError {
        let reason = closeReason ?? RedisError(.answerLost, "the other side closed the connection")
        closeReason = reason
        nextExpiry = nil
        let lost = RedisError(.answerLost, "\(reason.message); the command may have been carried out")
        let failed = pending
        pending.removeAll()
        for command in failed { command.receive?(.failure(lost)) }
        onPush = nil
        return reason
    }
}

extension Result where Success == RedisReply, Failure == RedisError {
    fileprivate func deliver<Command: RedisCommand>(
        _ completion: (Result<Command.Reply, RedisError>) -> Void, decodedBy command: Command
    ) {
        switch self {
        case .failure(let error): completion(.failure(error))
        case .success(.error(let error)) where !(command is AnyCommand): completion(.failure(error))
        case .success(let reply): completion(Result<_, RedisError> { () throws(RedisError) in try command.decode(reply) })
        }
    }
}
