internal import Interlock
internal import InterlockCore

/// The completions that write each kind of reply. They are created once for each connection, so that a command
/// allocates no closure.
final class RESPCompletions {
    private let lock: (UInt64, LockResult) -> Bool
    private let linkedLock: (UInt64, LockResult) -> Bool
    /// Handles the end of a followed lease.
    let leaseEnded: (LeaseEnd) -> Void
    private let renew: (UInt64, RenewResult) -> Bool
    private let release: (UInt64, ReleaseResult) -> Bool
    private let take: (UInt64, TakeResult) -> Bool
    private let throttle: (UInt64, Result<ThrottleResult, InterlockError>) -> Bool
    private let permit: (UInt64, PermitResult) -> Bool
    private let outcome: (UInt64, Result<BreakerSnapshot.State, InterlockError>) -> Bool

    init(connection: RESPConnection) {
        lock = { tag, result in
            // If the lease cannot be followed, the client notices a loss with its next command.
            if case .granted(let lease) = result, connection.receivesLosses {
                try? connection.follow(lease, isLinked: false)
            }
            return connection.reply(tag) { $0.lock(result) }
        }
        leaseEnded = { connection.leaseEnded($0) }
        linkedLock = { tag, result in
            if case .granted(let lease) = result {
                // If the client has left, `false` makes the coordinator release the lease.
                guard connection.isOpen else { return false }
                do throws(InterlockError) {
                    try connection.follow(lease, isLinked: true)
                } catch {
                    connection.reply(tag) { $0.error(error) }
                    return false
                }
            }
            return connection.reply(tag) { $0.lock(result) }
        }
        renew = { tag, result in
            connection.reply(tag) { writer in
                switch result {
                case .renewed(let validMilliseconds): writer.integer(validMilliseconds)
                case .lost: writer.null()
                case .failed(let error): writer.error(error)
                }
            }
        }
        release = { tag, result in
            connection.reply(tag) { writer in
                switch result {
                case .released: writer.integer(1)
                case .lost: writer.integer(0)
                case .failed(let error): writer.error(error)
                }
            }
        }
        take = { tag, result in
            switch result {
            case .decided(let decision): return connection.reply(tag) { $0.limits(decision, count: 1, step: 0) }
            case .decidedBatch(let decision, let count, let step):
                return connection.reply(tag, count: count) { writer, replies in
                    var first = decision
                    first.remaining = decision.remaining(after: replies.lowerBound, step: step)
                    writer.limits(first, count: replies.count, step: step)
                }
            case .failed(let error): return connection.reply(tag) { $0.error(error) }
            }
        }
        throttle = { tag, result in
            connection.reply(tag) { writer in
                switch result {
                case .success(let throttling):
                    writer.array(5)
                    writer.integer(throttling.isLimited ? 1 : 0)
                    writer.integer(throttling.limit)
                    writer.integer(throttling.remaining)
                    writer.integer(throttling.retryAfterSeconds)
                    writer.integer(throttling.resetAfterSeconds)
                case .failure(let error): writer.error(error)
                }
            }
        }
        permit = { tag, result in
            connection.reply(tag) { writer in
                switch result {
                case .granted(let id, let state):
                    writer.array(4)
                    writer.integer(1)
                    writer.bulk(id.description)
                    writer.bulk(state.rawValue)
                    writer.integer(-1)
                case .refused(let reason, let state, let retryAfterMilliseconds):
                    writer.array(4)
                    writer.integer(0)
                    writer.bulk(reason.rawValue)
                    writer.bulk(state.rawValue)
                    writer.integer(retryAfterMilliseconds)
                case .failed(let error): writer.error(error)
                }
            }
        }
        outcome = { tag, result in
            connection.reply(tag) { writer in
                switch result {
                case .success(let state): writer.bulk(state.rawValue)
                case .failure(let error): writer.error(error)
                }
            }
        }
    }

    func lock(_ tag: UInt64) -> Completion<LockResult> { Completion(tag: tag, deliver: lock) }
    /// Returns the completion for a lease that is renewed until its connection ends.
    func linkedLock(_ tag: UInt64) -> Completion<LockResult> { Completion(tag: tag, deliver: linkedLock) }
    func renew(_ tag: UInt64) -> Completion<RenewResult> { Completion(tag: tag, deliver: renew) }
    func release(_ tag: UInt64) -> Completion<ReleaseResult> { Completion(tag: tag, deliver: release) }
    func take(_ tag: UInt64) -> Completion<TakeResult> { Completion(tag: tag, deliver: take) }
    func throttle(_ tag: UInt64) -> Completion<Result<ThrottleResult, InterlockError>> {
        Completion(tag: tag, deliver: throttle)
    }
    func permit(_ tag: UInt64) -> Completion<PermitResult> { Completion(tag: tag, deliver: permit) }
    func outcome(_ tag: UInt64) -> Completion<Result<BreakerSnapshot.State, InterlockError>> {
        Completion(tag: tag, deliver: outcome)
    }
}

extension CallDecision {
    /// Returns what remains after `calls` more calls, each of which leaves `step` less.
    fileprivate func remaining(after calls: Int, step: Int64) -> Int64 { max(0, remaining - step * Int64(calls)) }
}

extension RESPWriter {
    /// Writes the limits' decision about `count` consecutive calls, each of which leaves `step` less. The common parts
    /// of the replies are encoded once.
    func limits(_ decision: CallDecision, count: Int, step: Int64) {
        let start = buffer.count
        array(5)
        integer(decision.isAllowed ? 0 : 1)
        integer(decision.limit)
        let head = start..<buffer.count
        integer(decision.remaining)
        let next = buffer.count
        integer(decision.reportedRetryAfterMilliseconds)
        integer(decision.resetAfterMilliseconds)
        let tail = next..<buffer.count
        for call in 1..<max(1, count) {
            buffer.repeatBytes(head)
            integer(decision.remaining(after: call, step: step))
            buffer.repeatBytes(tail)
        }
    }

    /// Writes the limits' decision about one call, with the name of the limit that binds.
    func namedLimit(_ decision: CallDecision) {
        array(6)
        integer(decision.isAllowed ? 0 : 1)
        integer(decision.limit)
        integer(decision.remaining)
        integer(decision.reportedRetryAfterMilliseconds)
        integer(decision.resetAfterMilliseconds)
        bulkOrNull(decision.limitName)
    }

    /// Writes the state of one limit.
    func limit(_ state: LimitState) {
        let decision = state.callDecision
        map(10)
        bulk("name")
        bulkOrNull(decision.limitName)
        bulk("algorithm")
        bulk(state.algorithm)
        bulk("window_ms")
        integer(state.window.wholeMilliseconds)
        bulk("per_subject")
        integer(state.isPerSubject ? 1 : 0)
        bulk("shadow")
        integer(state.isShadow ? 1 : 0)
        bulk("limited")
        integer(decision.isAllowed ? 0 : 1)
        bulk("limit")
        integer(decision.limit)
        bulk("remaining")
        integer(decision.remaining)
        bulk("retry_after_ms")
        integer(decision.reportedRetryAfterMilliseconds)
        bulk("reset_after_ms")
        integer(decision.resetAfterMilliseconds)
    }

    /// Writes the reply to a lock request.
    func lock(_ result: LockResult) {
        switch result {
        case .granted(let lease):
            array(3)
            bulk(lease.token)
            integer(lease.fence)
            integer(lease.validMilliseconds)
        case .held: null()
        case .failed(let error): self.error(error)
        }
    }

    /// Writes the public information about a lock.
    func lock(_ information: LockInformation) {
        map(9)
        bulk("label")
        bulkOrNull(information.label)
        bulk("fence")
        integerOrNull(information.fence)
        bulk("ttl_ms")
        integer(information.ttlMilliseconds)
        bulk("holders")
        integer(Int64(information.holders))
        bulk("waiters")
        integer(Int64(information.waiters))
        bulk("mode")
        bulkOrNull(information.mode?.rawName)
        bulk("permits")
        integerOrNull(information.mode?.permits.map(Int64.init))
        bulk("leases")
        array(information.leases.count)
        for lease in information.leases {
            map(3)
            bulk("label")
            bulk(lease.label)
            bulk("fence")
            integerOrNull(lease.fence)
            bulk("ttl_ms")
            integer(lease.ttlMilliseconds)
        }
        bulk("queue")
        array(information.queue.count)
        for sidecar in information.queue {
            map(2)
            bulk("sidecar")
            bulk(sidecar.id)
            bulk("waiters")
            integerOrNull(sidecar.waiters.map(Int64.init))
        }
    }

    /// Writes one of the last grants.
    func grant(_ grant: GrantRecord) {
        map(9)
        bulk("name")
        bulk(grant.name)
        bulk("label")
        bulk(grant.label)
        bulk("mode")
        bulk(grant.mode.rawName)
        bulk("permits")
        integerOrNull(grant.mode.permits.map(Int64.init))
        bulk("fence")
        integer(grant.fence)
        bulk("granted_ms")
        integer(grant.grantedMilliseconds)
        bulk("waited_ms")
        integer(grant.waitedMilliseconds)
        bulk("ended_ms")
        integerOrNull(grant.endedMilliseconds)
        bulk("end")
        bulkOrNull(grant.end?.rawValue)
    }

    /// Writes the reply to a request for several locks.
    func locks(_ result: JointLockResult) {
        switch result {
        case .granted(let leases):
            array(leases.count)
            for lease in leases {
                array(4)
                bulk(lease.name)
                bulk(lease.token)
                integer(lease.fence)
                integer(lease.validMilliseconds)
            }
        case .held: null()
        case .failed(let error): self.error(error)
        }
    }

    /// Writes an error of the coordinator, with the code that programs switch on.
    func error(_ error: InterlockError) {
        switch error.code {
        case .invalid, .unavailable, .unreplicated, .unknownService: self.error(error.code.rawValue, error.message)
        default: self.error(InterlockError.Code.other.rawValue, error.message)
        }
    }
}
