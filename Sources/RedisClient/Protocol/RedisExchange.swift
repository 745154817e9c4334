internal import DequeModule
internal import NIOCore

/// An estimate of a server's clock on one connection: the last reading, advanced by the local clock. It lags the
/// server's clock by at most the duration of the reading plus that of the command. It leads the server's clock by at
/// most the amount that the server's clock loses between two readings: 8.3 % of the interval while chrony slews the
/// clock, or the amount by which it was set back since the last reading.
///
/// The estimate is available only on a connection whose server has proved to be a primary, and only after `delay` has
/// passed since the first proof. A fence above the estimate minus `delay` is then above all fences issued before that
/// primary took over.
struct ServerClock {
    private var reading: (microseconds: Int64, at: NIODeadline)?
    private let delay: TimeAmount
    /// The end of the delay after the first proof.
    private var availableFrom = NIODeadline.distantFuture
    /// The send time of the last command that proved the server to be a primary.
    private var provenAt: NIODeadline?

    /// How long a proof is valid.
    private static let proofLifetime = TimeAmount.seconds(1)
    /// The age of a reading at which a command that carries the time triggers a new one.
    private static let readInterval = TimeAmount.milliseconds(500)
    /// The age of a reading at which the estimate becomes unavailable.
    private static let maximumAge = TimeAmount.milliseconds(1200)
    /// The maximum duration of a reading that is precise enough.
    private static let maximumReadDuration = TimeAmount.milliseconds(50)

    /// Creates a clock without a reading.
    /// - Parameter delay: the time after the first proof for which no estimate is available.
    init(delay: TimeAmount) {
        self.delay = delay
    }

    /// Returns the estimate as Unix time in microseconds; `nil` if it is not available.
    func microseconds(at now: NIODeadline) -> Int64? {
        guard let reading, now - reading.at <= Self.maximumAge, now >= availableFrom, let provenAt,
            now - provenAt <= Self.proofLifetime
        else { return nil }
        return reading.microseconds + (now - reading.at).nanoseconds / 1000
    }

    /// Returns whether a new reading is due.
    func isStale(now: NIODeadline) -> Bool { reading.map { now - $0.at >= Self.readInterval } ?? true }

    /// Records a reading, unless it took too long to be precise.
    /// - Parameter sentAt: the time of the request for the reading.
    mutating func record(_ microseconds: Int64, sentAt: NIODeadline, now: NIODeadline) {
        if now - sentAt <= Self.maximumReadDuration { reading = (microseconds, now) }
    }

    /// Records that the server was a primary when it ran a command sent at `sentAt`. After a gap without proofs, the
    /// server may have been promoted only recently, so the delay starts again.
    mutating func recordProof(sentAt: NIODeadline, now: NIODeadline) {
        if provenAt.map({ sentAt - $0 > Self.proofLifetime }) ?? true { availableFrom = now + delay + Self.maximumReadDuration }
        provenAt = max(provenAt ?? sentAt, sentAt)
    }

    /// Discards the reading and the proof, because the server may have taken over from another.
    mutating func invalidate() {
        reading = nil
        provenAt = nil
    }
}

/// The protocol state of one connection to Redis, without I/O. Encodes commands, parses replies, matches replies to
/// commands in order, and fails commands that time out. Callers pass the current time.
final class RedisExchange {
    /// A command that was sent and awaits its reply.
    private struct Pending {
        var sentAt: NIODeadline
        var timeout: TimeAmount
        /// Whether a reply proves that the server is a primary.
        var provesPrimary: Bool
        /// The callback for the reply; `nil` once the command has timed out, because a late reply is discarded.
        var receive: ((Result<RedisReply, RedisError>) -> Void)?

        var deadline: NIODeadline { sentAt + timeout }
    }

    private let maximumPending: Int
    private let commandTimeout: TimeAmount
    private let parser: ReplyParser
    private var encoder = CommandEncoder()
    private var pending = Deque<Pending>()
    private var lastRead: NIODeadline

    /// The value of `sentCommandCount` when a script's source was last sent, by the script's digest.
    private var sentCountsBeforeSource: [String: Int64] = [:]

    /// The bytes to send. Call `clearOutgoing` after sending them.
    private(set) var outgoing = ByteBuffer()
    /// The number of commands in `outgoing`.
    private(set) var unsentCount = 0
    /// The time at which to call `expire`; `nil` if no command is pending. No pending command expires earlier.
    private(set) var nextExpiry: NIODeadline?
    /// The reason to close the connection; `nil` while it is open. Once it is set, the exchange sends and delivers
    /// nothing.
    private(set) var closeReason: RedisError?
    /// The number of commands in flight.
    var pendingCount: Int { pending.count }
    /// The number of commands sent. A script that was sent again with its source counts twice.
    var sentCommandCount: Int64 = 0
    /// The estimate of the server's clock; `nil` if it is not used.
    var clock: ServerClock?
    /// Whether a command that carries the server's time found a stale reading.
    var isClockStale = false
    /// Whether the link is logging in. The commands of a login are exempt from `maximumPending`. The error of a demoted
    /// server does not close the connection then, because the link reports the reason.
    var isLoggingIn = false
    /// Called with each reply that does not belong to a command, such as a message of a subscription.
    var onPush: ((RedisReply) -> Void)?
    /// Called with each error that means that Redis cannot serve or denies access.
    var onRefusal: ((RedisError) -> Void)?
    /// Called once per read from the wire with the round-trip time of the oldest command that it answers.
    var onRoundTrip: ((TimeAmount) -> Void)?

    init(maximumPending: Int, commandTimeout: Duration, replyLimits: ReplyLimits, now: NIODeadline) {
        self.maximumPending = maximumPending
        self.commandTimeout = TimeAmount(commandTimeout)
        parser = ReplyParser(limits: replyLimits)
        lastRead = now
    }

    func timeSinceLastRead(now: NIODeadline) -> TimeAmount { now - lastRead }

    // MARK: Sending

    /// Appends a command to `outgoing`. Calls `completion` exactly once, possibly before this method returns. Sends a
    /// script by its digest. If the server does not know the script, sends it again with its source, or by its digest
    /// if another call has sent the source in the meantime.
    func send<Command: RedisCommand>(
        _ command: Command, timeout: TimeAmount?, now: NIODeadline,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        send(command, isRetry: false, timeout: timeout, now: now, completion: completion)
    }

    /// Appends a command, with a script by its digest.
    /// - Parameter isRetry: whether the command is sent by digest a second time, after another command carried the
    ///   source. If the server still does not know the script, the command is sent with the source.
    private func send<Command: RedisCommand>(
        _ command: Command, isRetry: Bool, timeout: TimeAmount?, now: NIODeadline,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        guard admit(completion) else { return }
        command.encode(into: &encoder)
        enqueue(&encoder, command, isRetry: isRetry, timeout: timeout, now: now, completion: completion)
    }

    /// Appends a command that is already encoded in `encodedCommand`, and clears `encodedCommand`.
    func send<Command: RedisCommand>(
        _ command: Command, encodedCommand: inout CommandEncoder, timeout: TimeAmount?, now: NIODeadline,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        guard admit(completion) else { return encodedCommand.clear() }
        enqueue(&encodedCommand, command, isRetry: false, timeout: timeout, now: now, completion: completion)
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

    /// Appends a command whose confirmations arrive in `onPush`, such as `SUBSCRIBE`.
    func sendWithoutReply(_ arguments: [String]) {
        for word in arguments { encoder.append(word) }
        encoder.format(into: &outgoing)
    }

    /// Returns whether a command may be sent; if not, fails it.
    private func admit<Reply>(_ completion: (Result<Reply, RedisError>) -> Void) -> Bool {
        guard closeReason != nil || pending.count >= maximumPending && !isLoggingIn else { return true }
        failUnsent(completion)
        return false
    }

    /// Fails a command that is not sent. Not inlined, so that callers fetch the metadata of the generic result type
    /// only on this path.
    @inline(never)
    private func failUnsent<Reply>(_ completion: (Result<Reply, RedisError>) -> Void) {
        if let closeReason {
            completion(.failure(RedisError(.notConnected, closeReason.message)))
        } else {
            completion(.failure(RedisError(.overloaded, "\(pending.count) commands already await replies from Redis")))
        }
    }

    private func enqueue<Command: RedisCommand>(
        _ encodedCommand: inout CommandEncoder, _ command: Command, isRetry: Bool, timeout: TimeAmount?, now: NIODeadline,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        let deadline = now + (timeout ?? commandTimeout)
        let precedingCommandCount = sentCommandCount
        enqueue(&encodedCommand, timeout: timeout, now: now) { [weak self] result in
            guard case .success(.error(let error)) = result, error.code == .server(.noScript), let self,
                let digest = command.scriptDigest
            else { return result.deliver(completion, decodedBy: command) }
            // The retry gets the remaining time of the command.
            let remaining = max(deadline - self.lastRead, .nanoseconds(1))
            if !isRetry, let sentBefore = self.sentCountsBeforeSource[digest], sentBefore > precedingCommandCount {
                return self.send(command, isRetry: true, timeout: remaining, now: self.lastRead, completion: completion)
            }
            self.sentCountsBeforeSource[digest] = self.sentCommandCount
            self.send(source: command, timeout: remaining, now: self.lastRead, completion: completion)
        }
    }

    private func enqueue(
        _ encodedCommand: inout CommandEncoder, timeout: TimeAmount?, now: NIODeadline,
        receive: @escaping (Result<RedisReply, RedisError>) -> Void
    ) {
        let carriesServerTime = clock != nil && encodedCommand.carriesServerTime
        if carriesServerTime, clock?.isStale(now: now) ?? false { isClockStale = true }
        encodedCommand.format(into: &outgoing, serverTimeMicroseconds: carriesServerTime ? clock?.microseconds(at: now) : nil)
        let command = Pending(
            sentAt: now, timeout: timeout ?? commandTimeout, provesPrimary: carriesServerTime, receive: receive)
        pending.append(command)
        sentCommandCount += 1
        unsentCount += 1
        if nextExpiry.map({ command.deadline < $0 }) ?? true { nextExpiry = command.deadline }
    }

    /// Clears `outgoing`, because its bytes were sent.
    func clearOutgoing() {
        outgoing.clear()
        unsentCount = 0
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

    /// Delivers a reply to the oldest pending command, or to `onPush` if no command is pending.
    private func deliver(_ reply: RedisReply) {
        guard let command = pending.popFirst() else {
            guard let onPush else {
                return close(reason: RedisError(.protocolViolation, "Redis sent a reply although no command was pending"))
            }
            return onPush(reply)
        }
        if command.provesPrimary { recordProof(of: command, by: reply) }
        command.receive?(.success(reply))
        guard case .error(let error) = reply, case .server(let condition) = error.code else { return }
        if condition.isUnavailability { onRefusal?(error) }
        // The server was demoted. The next connection may reach the new primary.
        if error.isDemotion, !isLoggingIn { close(reason: error) }
    }

    private func recordProof(of command: Pending, by reply: RedisReply) {
        if case .error = reply { return }
        // A replica may send such a reply too, so it proves nothing.
        if let number = reply.integer, number < 1 { return }
        clock?.recordProof(sentAt: command.sentAt, now: lastRead)
    }

    // MARK: Timeouts and closing

    /// Fails the expired commands. O(n) in pending commands. If all timeouts are equal, it is called at most once per
    /// timeout.
    func expire(now: NIODeadline) {
        var expired: [(Result<RedisReply, RedisError>) -> Void] = []
        var nextDeadline: NIODeadline?
        for index in pending.indices {
            guard let receive = pending[index].receive else { continue }
            guard pending[index].deadline <= now else {
                nextDeadline = min(nextDeadline ?? pending[index].deadline, pending[index].deadline)
                continue
            }
            pending[index].receive = nil
            expired.append(receive)
        }
        // If no bytes have arrived for another timeout after a command expired, the peer is unreachable.
        if let oldest = pending.first, oldest.receive == nil {
            // A command with a short timeout does not close the connection earlier.
            let closeDeadline = max(oldest.deadline, lastRead) + max(oldest.timeout, commandTimeout)
            if closeDeadline <= now {
                close(reason: RedisError(.replyLost, "Redis did not answer for too long; the connection was closed"))
            } else {
                nextDeadline = min(nextDeadline ?? closeDeadline, closeDeadline)
            }
        }
        nextExpiry = nextDeadline
        for receive in expired {
            receive(.failure(RedisError(.timedOut, "Redis did not answer in time; the command may have been executed")))
        }
    }

    /// Requests that the connection is closed. Has no effect after the first call.
    func close(reason: RedisError) {
        guard closeReason == nil else { return }
        closeReason = reason
    }

    /// Fails every pending command with `replyLost`, because the connection was lost, and returns the reason.
    func connectionLost() -> RedisError {
        let reason = closeReason ?? RedisError(.replyLost, "the other side closed the connection")
        closeReason = reason
        nextExpiry = nil
        let commandError = RedisError(.replyLost, "\(reason.message); the command may have been executed")
        let failedCommands = pending
        pending.removeAll()
        for command in failedCommands { command.receive?(.failure(commandError)) }
        onPush = nil
        return reason
    }
}

extension Result where Success == RedisReply, Failure == RedisError {
    /// Decodes the reply for `command` and passes the result to `completion`.
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
