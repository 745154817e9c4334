internal import CoreMetrics
package import Interlock
internal import InterlockCore
internal import NIOCore
internal import SidecarSettings
package import SidecarTelemetry

/// Runs the commands of the RESP API: checks role and arity, parses the arguments, and makes one typed call.
package final class RESPCommands {
    let coordinator: LoopBoundCoordinator
    /// The channel that `SUBSCRIBE` accepts.
    let eventChannel: String
    let table = RESPCommandTable()
    private let probe: ProbeReadings.Lookup
    private let liveView: LiveView.Source
    /// The number of runs of each command since the last report, in the order of `RESPCommandTable.metricNames`.
    private var runCounts: [Int]
    private let counters: [Counter]
    let times: CommandTimes
    /// The tracer; `nil` if tracing is off.
    private let tracer: Tracer?

    package init(
        coordinator: Coordinator, probe: @escaping ProbeReadings.Lookup = { _ in nil }, liveView: @escaping LiveView.Source,
        metrics: PrometheusRegistry = PrometheusRegistry(), tracer: Tracer? = nil
    ) {
        times = CommandTimes(in: metrics)
        self.tracer = tracer
        self.probe = probe
        self.liveView = liveView
        self.coordinator = coordinator.loopBound()
        eventChannel = coordinator.keys.events
        let names = RESPCommandTable.metricNames
        counters = names.map { Counter(label: "interlock_resp_commands_total", dimensions: [("command", $0)]) }
        runCounts = Array(repeating: 0, count: names.count)
        self.coordinator.metricsRefreshActions.append { [weak self] in self?.reportCounts() }
    }

    /// Adds the counts to the metrics. Incrementing a metric for each command would cost a tenth of the command's time.
    private func reportCounts() {
        for (index, counter) in counters.enumerated() where runCounts[index] > 0 {
            counter.increment(by: runCounts[index])
            runCounts[index] = 0
        }
    }

    /// Starts one command, whose reply goes to `connection` under `tag`.
    func run(_ request: RESPRequest, tag: UInt64, on connection: RESPConnection) {
        guard !connection.session.isInRefusedTransaction else { return refuseInTransaction(request, tag, connection) }
        guard let entry = table[request.nameKey] else {
            runCounts[RESPCommandTable.unknown] += 1
            connection.recordArrival(RESPCommandTable.unknown, tag)
            guard !request.isWord(0, "MULTI") else { return beginRefusing(tag, connection) }
            let hint = unknownCommandHint(request)
            connection.reply(tag) { $0.error("ERR", "unknown command '\(Excerpt(request.text(0)))'; \(hint)") }
            return
        }
        runCounts[entry.command.rawValue] += 1
        connection.recordArrival(entry.command.rawValue, tag)
        if let (code, message) = refusal(of: entry, argumentCount: request.count, by: connection.session.caller) {
            connection.reply(tag) { $0.error(code, message) }
            return
        }
        if entry.command.isUnboundedListing {
            guard !connection.isChannelClosed else { return }
            connection.markAsLong()
        }
        guard let completions = connection.completions else { return }
        // Commands start in the order of their arrival.
        if entry.command != .limitTake { connection.submitTakes() }
        do throws(InterlockError) {
            try run(entry.command, request, tag: tag, on: connection, completions)
        } catch {
            connection.reply(tag) { $0.error(error) }
        }
    }

    /// Returns the error of a command that its caller may not run, or that has a wrong number of arguments.
    private func refusal(
        of entry: RESPCommandTable.Entry, argumentCount: Int, by caller: AccessControl.Caller?
    ) -> (code: String, message: String)? {
        if let role = entry.role {
            guard let caller else { return ("NOAUTH", "send an API key first: AUTH key, or AUTH name key") }
            guard role == .use || caller.role == .admin else {
                return ("NOPERM", "\(entry.name) needs a key with the role admin")
            }
        }
        guard entry.arity.contains(argumentCount) else {
            return ("ERR", "wrong number of arguments for '\(entry.name.lowercased())'; usage: \(entry.usage)")
        }
        return nil
    }

    private func unknownCommandHint(_ request: RESPRequest) -> String {
        // Lock libraries for Redis start with these commands.
        if request.isWord(0, "SET") || request.isWord(0, "SETNX") { return "to acquire a lock, use LOCK.ACQUIRE" }
        let closest = ConfigurationText.closest(to: request.text(0), among: RESPCommandTable.lowercaseNames)
        return closest.map { "did you mean \($0.uppercased())?" } ?? "see COMMAND LIST"
    }

    /// Begins to reject a transaction: its commands must run together or not at all, so none of them runs. The replies
    /// are those of a Redis transaction whose commands cannot be queued, which every client can parse: `OK`, an error
    /// for each command, and `EXECABORT`. An error reply to `MULTI` would not do, because many clients then send no
    /// `EXEC`.
    private func beginRefusing(_ tag: UInt64, _ connection: RESPConnection) {
        connection.session.isInRefusedTransaction = true
        connection.reply(tag) { $0.simple("OK") }
    }

    private func refuseInTransaction(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) {
        let isReset = request.isWord(0, "RESET") || request.isWord(0, "QUIT")
        let isEnd = isReset || request.isWord(0, "EXEC") || request.isWord(0, "DISCARD")
        connection.session.isInRefusedTransaction = !isEnd
        if isReset { return run(request, tag: tag, on: connection) }
        connection.reply(tag) { writer in
            if request.isWord(0, "MULTI") {
                writer.error("ERR", "MULTI calls can not be nested")
            } else if request.isWord(0, "EXEC") {
                writer.error("EXECABORT", "Transaction discarded: a sidecar has no transactions, and no command was run")
            } else if isEnd {
                writer.simple("OK")
            } else {
                writer.error("ERR", "not run: a sidecar has no transactions; end this one with EXEC or DISCARD")
            }
        }
    }

    private func run(
        _ command: RESPCommandTable.Command, _ request: RESPRequest, tag: UInt64, on connection: RESPConnection,
        _ completions: RESPCompletions
    ) throws(InterlockError) {
        switch command {
        case .limitTake: try take(request, tag, connection, completions)
        case .permitAcquire: try acquirePermit(request, tag, connection, completions)
        case .lockAcquire: try acquireLock(request, tag, connection, completions)
        case .lockRelease: try releaseLock(request, tag, connection, completions)
        case .lockRenew: try renewLock(request, tag, connection, completions)
        case .lockInfo: try inspectLock(request, tag, connection)
        case .lockList: try listLocks(request, tag, connection)
        case .lockBreak: try breakLock(request, tag, connection, completions)
        case .lockGrants: try listGrants(request, tag, connection)
        case .limitPeek: try peek(request, tag, connection, completions)
        case .limitList: try listLimits(request, tag, connection)
        case .throttle: try throttle(request, tag, completions)
        case .permitReport: try reportPermit(request, tag, connection, completions)
        case .breakerState: try breakerState(request, tag, connection)
        case .breakerList: breakerList(tag, connection)
        case .breakerForce: try forceBreaker(request, tag, connection)
        case .fleetList: listFleet(tag, connection)
        case .liveView: try showLiveView(liveView, request, tag, connection)
        case .ping, .echo, .auth, .hello, .client, .command, .info, .select, .quit, .reset, .subscribe, .unsubscribe:
            try runConnectionCommand(command, request, tag, connection)
        }
    }

    // MARK: Locks

    private func acquireLock(
        _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection, _ completions: RESPCompletions
    ) throws(InterlockError) {
        let name = try RESPOptions.name(request.text(1), parameter: "name")
        let ttlMilliseconds = try RESPOptions.ttlMilliseconds(request, 2)
        var lock = LockRequest(name: name, ttlMilliseconds: ttlMilliseconds)
        guard request.count > 3 else {
            let completion = tracedCompletion(
                .acquire, tag, connection, name.text, completions.lock(tag)
            ) { $0.stepAnswered }
            connection.recordPendingCall(coordinator.acquireLock(lock, completion: completion), for: tag)
            return
        }
        let options = try RESPOptions(
            request, from: 3, allowed: [.wait, .owner, .label, .linked, .shared, .permits, .also, .traceparent])
        lock.waitMilliseconds = try options.milliseconds(.wait) ?? 0
        lock.owner = try options.name(.owner)
        lock.label = try options.name(.label)
        lock.mode = try options.lockMode()
        let isLinked = options.has(.linked)
        // The check comes first, because a lease that cannot be followed would have to be released again.
        if isLinked { try connection.checkFollowLimit() }
        if let others = try options.names(.also) {
            let joint = JointLockRequest(names: [name] + others, template: lock)
            let completion = jointLock(tag, connection, isLinked: isLinked)
            let observed = tracedCompletion(
                .acquire, tag, connection, name.text, completion, waitMilliseconds: lock.waitMilliseconds, by: options
            ) { $0.stepAnswered }
            connection.recordPendingCall(coordinator.acquireLocks(joint, completion: observed), for: tag)
        } else {
            let completion = isLinked ? completions.linkedLock(tag) : completions.lock(tag)
            let observed = tracedCompletion(
                .acquire, tag, connection, name.text, completion, waitMilliseconds: lock.waitMilliseconds, by: options
            ) { $0.stepAnswered }
            connection.recordPendingCall(coordinator.acquireLock(lock, completion: observed), for: tag)
        }
    }

    /// Begins a span for a command, if it is sampled.
    /// - Parameters:
    ///   - name: the name of the lock or the service.
    ///   - waitMilliseconds: the maximum wait.
    ///   - options: the command's options, which may include `TRACEPARENT`; `nil` if there are no options.
    ///   - makeObserver: returns the step's observer of the result.
    /// - Returns: the given completion, or one that also ends the span.
    private func tracedCompletion<Value>(
        _ step: StepTrace.Step, _ tag: UInt64, _ connection: RESPConnection, _ name: @autoclosure () -> String,
        _ completion: Completion<Value>,
        waitMilliseconds: Int64 = 0, by options: RESPOptions? = nil, _ makeObserver: (StepTrace) -> (Value) -> Void
    ) -> Completion<Value> {
        guard let tracer else { return completion }
        let parent = options?.text(.traceparent).flatMap { TraceContext(traceparent: $0) }
        guard let span = tracer.begin(step.command.name, kind: .server, parent: parent) else { return completion }
        span.set("rpc.system", "redis")
        let step = StepTrace(step, name(), waitMilliseconds: waitMilliseconds, of: span, coordinator: coordinator)
        let observe = makeObserver(step)
        return completion.reported { result in
            observe(result)
            connection.recordTrace(tag, by: span.context)
            if let failure = step.failure { span.fail(failure) }
            span.end()
        }
    }

    /// Returns a completion that follows the leases of several locks if needed, and replies with them.
    private func jointLock(_ tag: UInt64, _ connection: RESPConnection, isLinked: Bool) -> Completion<JointLockResult> {
        Completion(tag: tag) { tag, result in
            guard connection.isOpen else { return false }
            if case .granted(let leases) = result, isLinked || connection.receivesLosses {
                do throws(InterlockError) {
                    try connection.follow(leases, isLinked: isLinked)
                } catch {
                    guard !isLinked else {
                        connection.reply(tag) { $0.error(error) }
                        return false
                    }
                }
            }
            return connection.reply(tag) { $0.locks(result) }
        }
    }

    private func renewLock(
        _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection, _ completions: RESPCompletions
    ) throws(InterlockError) {
        let name = try RESPOptions.name(request.text(1), parameter: "name")
        let ttlMilliseconds = try RESPOptions.ttlMilliseconds(request, 3)
        let fence = try Self.fence(request, from: 4)
        coordinator.renewLock(
            name, token: request.text(2), ttlMilliseconds: ttlMilliseconds, fence: fence,
            completion: completions.renew(tag))
    }

    private func releaseLock(
        _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection, _ completions: RESPCompletions
    ) throws(InterlockError) {
        let name = try RESPOptions.name(request.text(1), parameter: "name")
        let fence = try Self.fence(request, from: 3)
        coordinator.releaseLock(name, token: request.text(2), fence: fence, completion: completions.release(tag))
    }

    /// Returns the value of `FENCE`, which restricts the command to one grant; `nil` for the current grant.
    private static func fence(_ request: RESPRequest, from start: Int) throws(InterlockError) -> Int64? {
        guard request.count > start else { return nil }
        return try RESPOptions(request, from: start, allowed: [.fence]).integer(.fence, in: RequestLimits.fenceRange)
    }

    private func breakLock(
        _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection, _ completions: RESPCompletions
    ) throws(InterlockError) {
        let name = try RESPOptions.name(request.text(1), parameter: "name")
        let fence = try Self.fence(request, from: 2)
        let callerName = connection.session.caller?.name ?? ""
        coordinator.breakLock(name, by: callerName, fence: fence, completion: completions.release(tag))
    }

    private func inspectLock(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) throws(InterlockError) {
        let name = try RESPOptions.name(request.text(1), parameter: "name")
        let completion = Completion<Result<LockInformation?, InterlockError>>(tag: tag) { tag, result in
            connection.reply(tag) { writer in
                switch result {
                case .failure(let error): writer.error(error)
                case .success(nil): writer.null()
                case .success(let information?): writer.lock(information)
                }
            }
        }
        coordinator.inspectLock(name, completion: completion)
    }

    private func listLocks(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) throws(InterlockError) {
        let hasCursor = request.count > 1 && request.integer(1) != nil
        let options = try RESPOptions(request, from: hasCursor ? 2 : 1, allowed: [.match, .count])
        let count = try options.integer(.count, in: 1...1000) ?? 100
        let completion = Completion<Result<LockPage, InterlockError>>(tag: tag) { tag, result in
            connection.reply(tag) { writer in
                switch result {
                case .failure(let error): writer.error(error)
                case .success(let page):
                    writer.array(2)
                    writer.bulk(page.cursor)
                    writer.array(page.names.count)
                    for name in page.names { writer.bulk(name) }
                }
            }
        }
        coordinator.listLocks(
            cursor: hasCursor ? request.text(1) : "0", matching: options.text(.match) ?? "*", count: Int(count),
            completion: completion)
    }

    private func listGrants(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) throws(InterlockError) {
        let name = request.count > 1 ? try RESPOptions.name(request.text(1), parameter: "name") : nil
        let grants = coordinator.grants(of: name)
        connection.reply(tag) { writer in
            writer.array(grants.count)
            for grant in grants { writer.grant(grant) }
        }
    }

    // MARK: Limits and permits

    private func take(
        _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection, _ completions: RESPCompletions
    ) throws(InterlockError) {
        let service = try connection.service(request, 1)
        guard request.count > 2 else { return takeBatched(request, service, tag, connection, completions) }
        connection.submitTakes()
        let options = try RESPOptions(request, from: 2, allowed: [.cost, .subject, .wait, .named, .traceparent])
        let cost = try options.integer(.cost, in: LimitRequest.costRange) ?? 1
        let subject = try options.name(.subject)
        let waitMilliseconds = try options.milliseconds(.wait) ?? 0
        let completion = options.has(.named) ? namedLimit(tag, connection) : completions.take(tag)
        let call = coordinator.take(
            service, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds, now: connection.now,
            completion: tracedCompletion(
                .take, tag, connection, request.text(1), completion, waitMilliseconds: waitMilliseconds, by: options
            ) { $0.stepAnswered })
        connection.recordPendingCall(call, for: tag)
    }

    /// Takes in one call with the adjacent takes. A take with a span is a separate call.
    private func takeBatched(
        _ request: RESPRequest, _ service: ServiceReference, _ tag: UInt64, _ connection: RESPConnection,
        _ completions: RESPCompletions
    ) {
        guard let tracer, tracer.drawSamplingDecision() else { return connection.take(service, tag: tag) }
        connection.submitTakes()
        let completion = tracedCompletion(
            .take, tag, connection, request.text(1), completions.take(tag)
        ) { $0.stepAnswered }
        _ = coordinator.take(
            service, cost: 1, subject: nil, waitMilliseconds: 0, now: connection.now, completion: completion)
    }

    private func peek(
        _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection, _ completions: RESPCompletions
    ) throws(InterlockError) {
        let options = try RESPOptions(request, from: 2, allowed: [.subject, .descriptor, .named])
        let completion = options.has(.named) ? namedLimit(tag, connection) : completions.take(tag)
        guard let descriptor = options.text(.descriptor) else {
            return coordinator.peek(
                service: request.text(1), subject: try options.name(.subject), completion: completion)
        }
        guard !options.has(.subject) else {
            throw InterlockError(
                .invalid, "SUBJECT and DESCRIPTOR cannot be combined: a subject belongs to a service, a descriptor to a domain")
        }
        coordinator.peek(domain: request.text(1), descriptor: descriptor, completion: completion)
    }

    /// Returns a completion that replies with the decision and name of the limit that binds.
    private func namedLimit(_ tag: UInt64, _ connection: RESPConnection) -> Completion<TakeResult> {
        Completion(tag: tag) { tag, result in
            connection.reply(tag) { writer in
                switch result {
                // Only plain takes are combined, so this decision is about one take.
                case .decided(let decision), .decidedBatch(let decision, _, _):
                    writer.namedLimit(decision)
                case .failed(let error): writer.error(error)
                }
            }
        }
    }

    private func listLimits(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) throws(InterlockError) {
        let subject = try RESPOptions(request, from: 2, allowed: [.subject]).name(.subject)
        let completion = Completion<Result<[LimitState], InterlockError>>(tag: tag) { tag, result in
            connection.reply(tag) { writer in
                switch result {
                case .failure(let error): writer.error(error)
                case .success(let states):
                    writer.array(states.count)
                    for state in states { writer.limit(state) }
                }
            }
        }
        coordinator.listLimits(service: request.text(1), subject: subject, completion: completion)
    }

    private func throttle(
        _ request: RESPRequest, _ tag: UInt64, _ completions: RESPCompletions
    ) throws(InterlockError) {
        let key = try RESPOptions.name(request.text(1), parameter: "key")
        let burst = try RESPOptions.integer(request, 2, parameter: "max_burst", in: ThrottleRequest.burstRange)
        let count = try RESPOptions.integer(request, 3, parameter: "count", in: ThrottleRequest.countRange)
        let period = try RESPOptions.integer(request, 4, parameter: "period", in: ThrottleRequest.periodSecondsRange)
        let quantity =
            request.count > 5 ? try RESPOptions.integer(request, 5, parameter: "quantity", in: ThrottleRequest.quantityRange) : 1
        let throttle = ThrottleRequest(key: key, maximumBurst: burst, count: count, period: period, quantity: quantity)
        guard let throttle else {
            throw InterlockError(
                .invalid,
                "at \(count) in \(period) seconds a burst of \(burst) would take more than a hundred years to refill; "
                    + "use a smaller max_burst or a higher rate")
        }
        coordinator.throttle(throttle, completion: completions.throttle(tag))
    }

    private func acquirePermit(
        _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection, _ completions: RESPCompletions
    ) throws(InterlockError) {
        let completion = completions.permit(tag)
        let service = try connection.service(request, 1)
        guard request.count > 2 else {
            _ = coordinator.acquirePermit(
                service, cost: 1, subject: nil, waitMilliseconds: 0, now: connection.now,
                completion: tracedCompletion(.permit, tag, connection, request.text(1), completion) { $0.stepAnswered })
            return
        }
        let options = try RESPOptions(request, from: 2, allowed: [.cost, .subject, .wait, .traceparent])
        let cost = try options.integer(.cost, in: LimitRequest.costRange) ?? 1
        let subject = try options.name(.subject)
        let waitMilliseconds = try options.milliseconds(.wait) ?? 0
        let call = coordinator.acquirePermit(
            service, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds, now: connection.now,
            completion: tracedCompletion(
                .permit, tag, connection, request.text(1), completion, waitMilliseconds: waitMilliseconds, by: options
            ) { $0.stepAnswered })
        connection.recordPendingCall(call, for: tag)
    }

    private func reportPermit(
        _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection, _ completions: RESPCompletions
    ) throws(InterlockError) {
        guard let permit = PermitID(request.text(2)) else {
            throw InterlockError(.invalid, "permit: expected the 32 hexadecimal digits that PERMIT.ACQUIRE returned")
        }
        guard let outcome = Outcome(rawValue: request.text(3).lowercased()) else {
            throw InterlockError(.invalid, "outcome: expected OK, ERROR or IGNORE, got \"\(Excerpt(request.text(3)))\"")
        }
        let options = try RESPOptions(request, from: 4, allowed: [.latency, .status, .retryAfter])
        let report = OutcomeReport(
            outcome: outcome, latencyMilliseconds: try options.milliseconds(.latency),
            status: try options.integer(.status, in: 100...599).map(Int.init),
            retryAfterMilliseconds: try options.milliseconds(.retryAfter))
        coordinator.reportPermit(
            service: request.text(1), permit: permit, report, completion: completions.outcome(tag))
    }

    // MARK: Breakers

    private func breakerState(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) throws(InterlockError) {
        let status = try coordinator.breaker(service: request.text(1)).get()
        connection.reply(tag) { $0.breaker(status, probe: probe(status.service)) }
    }

    private func breakerList(_ tag: UInt64, _ connection: RESPConnection) {
        let breakers = coordinator.allBreakers()
        connection.reply(tag) { writer in
            writer.array(breakers.count)
            for status in breakers { writer.breaker(status, probe: probe(status.service)) }
        }
    }

    private func forceBreaker(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) throws(InterlockError) {
        let word = request.text(2).lowercased()
        let state = BreakerSnapshot.Forced(rawValue: word)
        guard state != nil || word == "auto" else {
            throw InterlockError(
                .invalid, "state: expected OPEN, CLOSED, DISABLED or AUTO, got \"\(Excerpt(request.text(2)))\"")
        }
        let options = try RESPOptions(request, from: 3, allowed: [.duration, .reason])
        let milliseconds = try options.integer(.duration, in: 1...RequestLimits.maximumMilliseconds)
        let completion = Completion<Result<BreakerStatus, InterlockError>>(tag: tag) { tag, result in
            connection.reply(tag) { writer in
                switch result {
                case .failure(let error): writer.error(error)
                case .success: writer.simple("OK")
                }
            }
        }
        let callerName = connection.session.caller?.name ?? ""
        coordinator.forceBreaker(
            service: request.text(1), to: state, forMilliseconds: milliseconds, reason: options.text(.reason) ?? "",
            by: callerName, completion: completion)
    }
}

extension RESPWriter {
    /// Writes a breaker's status as a map.
    fileprivate func breaker(_ status: BreakerStatus, probe: ProbeReading?) {
        map(17)
        bulk("service")
        bulk(status.service)
        bulk("state")
        bulk(status.state.rawValue)
        bulk("fleet_state")
        bulk(status.fleet.state.rawValue)
        bulk("cause")
        bulk(status.fleet.cause)
        bulk("since_ms")
        integer(status.fleet.sinceMilliseconds)
        bulk("until_ms")
        integer(status.fleet.untilMilliseconds)
        bulk("generation")
        integer(status.fleet.generation)
        bulk("failure_rate")
        double(status.fleet.failureRate)
        bulk("slow_rate")
        double(status.fleet.slowRate)
        bulk("calls")
        integer(status.fleet.calls)
        bulk("trips")
        integer(status.fleet.trips)
        bulk("forced")
        bulkOrNull(status.fleet.forced?.rawValue)
        bulk("forced_until_ms")
        integer(status.fleet.forcedUntilMilliseconds)
        bulk("reason")
        bulk(status.fleet.reason)
        bulk("by")
        bulk(status.fleet.changedBy)
        bulk("own_cause")
        bulkOrNull(status.ownCause)
        bulk("probe")
        if let probe { self.probe(probe) } else { null() }
    }

    /// Writes the reading of a service's probes as a map.
    private func probe(_ reading: ProbeReading) {
        map(7)
        bulk("prober")
        bulk(reading.prober.rawValue)
        bulk("finding")
        bulkOrNull(reading.lastProbe?.finding.rawName)
        bulk("reason")
        bulkOrNull(reading.lastProbe?.finding.reason?.description)
        bulk("at_ms")
        integerOrNull(reading.lastProbe?.atMilliseconds)
        bulk("duration_ms")
        integerOrNull(reading.lastProbe?.duration.wholeMilliseconds)
        bulk("failures")
        integer(Int64(reading.failureCount))
        bulk("successes")
        integer(Int64(reading.successCount))
    }
}
