internal import DequeModule
internal import NIOCore

/// A server's clock as one connection knows it: it was looked at just now, and goes on as this side's does. What it is said to show is
/// behind it by as long as the look took and the command takes. What it is said to show is ahead of it by no more than the clock loses
/// between two looks, 8.3 % of that time at most where chrony sets it right by and by, or than it was set back since the last one.
///
/// It is known only to a connection that certainly goes to a primary, and only `delay` after that was certain: a fence above what it
/// shows, less `delay`, is above all that were given before that primary took over.
struct ServerClock {
    private var seen: (microseconds: Int64, at: NIODeadline)?
    private let delay: TimeAmount
    private var knownFrom = NIODeadline.distantFuture
    /// When a command was sent that only a primary carries out.
    private var provenAt: NIODeadline?

    /// A proof counts for so long.
    private static let proofTime = TimeAmount.seconds(1)
    /// It is looked at again after so long while commands tell it, and not known any more when it could not be.
    private static let lookInterval = TimeAmount.milliseconds(500)
    private static let longestAge = TimeAmount.milliseconds(1200)
    /// A look that took longer says too little.
    private static let longestLook = TimeAmount.milliseconds(50)

    /// - Parameter delay: for so long after the first proof nothing is known of it.
    init(delay: TimeAmount) {
        self.delay = delay
    }

    /// What it shows, in microseconds since 1970; `nil`: that is not known, or not yet.
    func microseconds(at now: NIODeadline) -> Int64? {
        guard let seen, now - seen.at <= Self.longestAge, now >= knownFrom, let provenAt, now - provenAt <= Self.proofTime
        else { return nil }
        return seen.microseconds + (now - seen.at).nanoseconds / 1000
    }

    /// Whether it is time to look at it again.
    func isOld(now: NIODeadline) -> Bool { seen.map { now - $0.at >= Self.lookInterval } ?? true }

    /// - Parameter sentAt: when the look began that it was seen by.
    mutating func see(_ microseconds: Int64, sentAt: NIODeadline, now: NIODeadline) {
        if now - sentAt <= Self.longestLook { seen = (microseconds, now) }
    }

    /// The server was a primary when it carried out a command that was sent then. After a while without a proof it may have become one just
    /// now.
    mutating func prove(sentAt: NIODeadline, now: NIODeadline) {
        if provenAt.map({ sentAt - $0 > Self.proofTime }) ?? true { knownFrom = now + delay + Self.longestLook }
        provenAt = max(provenAt ?? sentAt, sentAt)
    }

    /// The server may have taken over from another: it is to be looked at anew.
    mutating func doubt() {
        seen = nil
        provenAt = nil
    }
}

/// One connection's conversation with Redis, without I/O: commands become bytes to be sent, bytes that came become replies,
/// matched to their commands in order, and what waits too long fails. It reads no clock; the time is handed in.
final class RedisExchange {
    /// A command that was sent and awaits its reply.
    private struct Pending {
        var sentAt: NIODeadline
        var timeout: TimeAmount
        /// Whether only a primary carries it out.
        var isProof: Bool
        /// `nil` once it has timed out: the reply is still to come and belongs to nobody.
        var receive: ((Result<RedisReply, RedisError>) -> Void)?

        var deadline: NIODeadline { sentAt + timeout }
    }

    private let maximumPending: Int
    private let commandTimeout: TimeAmount
    private let parser: ReplyParser
    private var encoder = CommandEncoder()
    private var pending = Deque<Pending>()
    private var lastRead: NIODeadline

    /// By the digests of scripts, how many commands had been sent when their source was last.
    private var sources: [String: Int64] = [:]

    /// What is to be sent; whoever sends it calls `clearOutgoing`.
    private(set) var outgoing = ByteBuffer()
    /// How many commands are in `outgoing`.
    private(set) var unsent = 0
    /// When to call `expire`; no pending command is due earlier. `nil`: nothing is pending.
    private(set) var nextExpiry: NIODeadline?
    /// Why the connection is to be closed; from then on nothing is sent or received. `nil`: it is not.
    private(set) var closeReason: RedisError?
    /// How many commands await their reply.
    var awaited: Int { pending.count }
    /// How many commands were sent, scripts that went again with their source twice.
    var commandsSent: Int64 = 0
    /// `nil`: nobody wants to know.
    var clock: ServerClock?
    /// A command has told the server's clock, or would have, and it is to be looked at again.
    var isClockOld = false
    /// Whether the link is logging in. The link alone knows how many commands that takes, and explains why a replica is
    /// refused.
    var isLoggingIn = false
    /// Called with each reply that answers no command: what a subscription brings.
    var onPush: ((RedisReply) -> Void)?
    /// Called with each error by which Redis says that it cannot, or may not, serve.
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

    /// Appends a command to `outgoing`; `completion` is called exactly once, possibly at once. Sends a script by its
    /// digest. If the server does not know it, sends it again with its source, or by digest if another call has sent
    /// the source since.
    func send<Command: RedisCommand>(
        _ command: Command, timeout: TimeAmount?, now: NIODeadline,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        send(command, isAgain: false, timeout: timeout, now: now, completion: completion)
    }

    /// - Parameter isAgain: it stands behind another's source. Should the server not know the script even then, it sends its own.
    private func send<Command: RedisCommand>(
        _ command: Command, isAgain: Bool, timeout: TimeAmount?, now: NIODeadline,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        guard admit(completion) else { return }
        command.encode(into: &encoder)
        enqueue(&encoder, command, isAgain: isAgain, timeout: timeout, now: now, completion: completion)
    }

    /// Appends a command that has been encoded already: `written`, which is used up.
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
        enqueue(&encoder, timeout: timeout, now: now) { $0.tell(completion, decodedBy: command) }
    }

    /// Appends a command whose reply comes by `onPush`, as those of a subscription do.
    func sendWithoutReply(_ words: [String]) {
        for word in words { encoder.append(word) }
        encoder.format(into: &outgoing)
    }

    private func admit<Reply>(_ completion: (Result<Reply, RedisError>) -> Void) -> Bool {
        guard closeReason != nil || pending.count >= maximumPending && !isLoggingIn else { return true }
        refuse(completion)
        return false
    }

    /// By itself, so that the callers ask for the type of the result, which is not known when they are compiled, only when they need it.
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
            else { return result.tell(completion, decodedBy: command) }
            // In what is left of its time.
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
        let tellsTime = clock != nil && written.tellsTime
        if tellsTime, clock?.isOld(now: now) ?? false { isClockOld = true }
        written.format(into: &outgoing, serverTime: tellsTime ? clock?.microseconds(at: now) : nil)
        let command = Pending(sentAt: now, timeout: timeout ?? commandTimeout, isProof: tellsTime, receive: receive)
        pending.append(command)
        commandsSent += 1
        unsent += 1
        if nextExpiry.map({ command.deadline < $0 }) ?? true { nextExpiry = command.deadline }
    }

    /// What was in `outgoing` has been sent.
    func clearOutgoing() {
        outgoing.clear()
        unsent = 0
    }

    // MARK: Receiving

    /// Takes bytes from the wire and hands their replies out. Bytes that are no RESP2 close the connection.
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
                return close(reason: RedisError(.protocolViolation, "Redis sent a reply that no command asked for"))
            }
            return onPush(reply)
        }
        if command.isProof { note(reply, command) }
        command.receive?(.success(reply))
        guard case .error(let error) = reply, case .server(let condition) = error.code else { return }
        if condition.isUnavailability { onRefusal?(error) }
        // A replica that was a primary before: the next connection may find the new primary.
        if error.isDemotion, !isLoggingIn { close(reason: error) }
    }

    private func note(_ reply: RedisReply, _ command: Pending) {
        if case .error = reply { return }
        // It changed nothing, which a replica may say too.
        if let number = reply.integer, number < 1 { return }
        clock?.prove(sentAt: command.sentAt, now: lastRead)
    }

    // MARK: Ends

    /// Fails what is due. O(n) in pending commands, once per timeout at most while all have the same.
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
        // Nothing at all for a timeout after a command was due: the peer is gone without saying so.
        if let oldest = pending.first, oldest.receive == nil {
            // A command that had little time left says nothing about the peer.
            let end = max(oldest.deadline, lastRead) + max(oldest.timeout, commandTimeout)
            if end <= now {
                close(reason: RedisError(.answerLost, "Redis has not answered for too long; the connection was given up"))
            } else {
                next = min(next ?? end, end)
            }
        }
        nextExpiry = next
        for receive in late {
            receive(.failure(RedisError(.timedOut, "Redis did not answer in time; the command may have been carried out")))
        }
    }

    /// The connection is to be closed. The first reason stands.
    func close(reason: RedisError) {
        guard closeReason == nil else { return }
        closeReason = reason
    }

    /// The connection is gone: whatever is pending fails with `answerLost`. Returns why it is gone.
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
    fileprivate func tell<Command: RedisCommand>(
        _ completion: (Result<Command.Reply, RedisError>) -> Void, decodedBy command: Command
    ) {
        switch self {
        case .failure(let error): completion(.failure(error))
        case .success(.error(let error)) where !(command is AnyCommand): completion(.failure(error))
        case .success(let reply): completion(Result<_, RedisError> { () throws(RedisError) in try command.decode(reply) })
        }
    }
}
