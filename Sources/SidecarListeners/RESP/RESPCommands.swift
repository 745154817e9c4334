internal import CoreMetrics
package import Interlock
internal import InterlockCore
internal import NIOCore
internal import SidecarSettings
package import SidecarTelemetry

/// Runs the commands of the RESP API: checks role and arity, parses the arguments, and makes one typed call.
package final class RESPCommands {
    let calls: CoordinatorCalls
    /// The channel that `SUBSCRIBE` accepts.
    let eventChannel: String
    let table = RESPCommandTable()
    private let probe: ProbeReadings.Lookup
    private let liveView: LiveView.Source
    /// The number of calls of each command since the last report, in the order of `RESPCommandTable.metricNames`.
    private var counts: [Int]
    private let counters: [Counter]
    let times: CommandTimes
    /// The tracer; `nil` if no command is traced.
    private let tracer: Tracer?

    package init(
        coordinator: Coordinator, probe: @escaping ProbeReadings.Lookup = { _ in nil }, liveView: @escaping LiveView.Source,
        metrics: PrometheusRegistry = PrometheusRegistry(), tracer: Tracer? = nil
    ) {
        times = CommandTimes(in: metrics)
        self.tracer = tracer
        self.probe = probe
        self.liveView = liveView
        calls = coordinator.callsOnEventLoop()
        eventChannel = coordinator.keys.events
        let names = RESPCommandTable.metricNames
        counters = names.map { Counter(label: "interlock_resp_commands_total", dimensions: [("command", $0)]) }
        counts = Array(repeating: 0, count: names.count)
        calls.metricsRefreshActions.append { [weak self] in self?.reportCounts() }
    }

    /// Adds the counts to the metrics. Incrementing a metric for each command would cost a tenth of the command's time.
    private func reportCounts() {
        for (index, counter) in counters.enumerated() where counts[index] > 0 {
            counter.increment(by: counts[index])
            counts[index] = 0
        }
    }

    /// Starts one command; its reply goes to `connection` under `tag`.
    func run(_ request: RESPRequest, tag: UInt64, on connection: RESPConnection) {
        guard !connection.session.isInRefusedTransaction else { return refuseInTransaction(request, tag, connection) }
        guard let entry = table[request.nameKey] else {
            counts[RESPCommandTable.unknown] += 1
            connection.recordArrival(RESPCommandTable.unknown, tag)
            guard !request.isWord(0, "MULTI") else { return beginRefusing(tag, connection) }
            let hint = unknownCommandHint(request)
            connection.reply(tag) { $0.error("ERR", "unknown command '\(Excerpt(request.text(0)))'; \(hint)") }
            return
        }
        counts[entry.command.rawValue] += 1
        connection.recordArrival(entry.command.rawValue, tag)
        if let role = entry.role {
            guard let caller = connection.session.caller else {
                connection.reply(tag) { $0.error("NOAUTH", "send an API key first: AUTH key, or AUTH name key") }
                return
            }
            guard role == .use || caller.role == .admin else {
                connection.reply(tag) { $0.error("NOPERM", "\(entry.name) needs a key with the role admin") }
                return
            }
        }
        guard entry.arity.contains(request.count) else {
            connection.reply(tag) {
                $0.error("ERR", "wrong number of arguments for '\(entry.name.lowercased())'; usage: \(entry.usage)")
            }
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

    private func unknownCommandHint(_ request: RESPRequest) -> String {
        // Lock libraries for Redis start with these commands.
        if request.isWord(0, "SET") || request.isWord(0, "SETNX") { return "to acquire a lock, use LOCK.ACQUIRE" }
        let closest = ConfigurationText.closest(to: request.text(0), among: RESPCommandTable.lowercaseNames)
        return closest.map { "did you mean \($0.uppercased())?" } ?? "see COMMAND LIST"
    }

    /// Begins to reject a transaction: its commands must run together or not at all, so none of them runs. The replies
    /// are those of a Redis transaction whose commands cannot be queued, which every client can parse: `OK`, an error
    /// for each command, and `EXECABORT`. Many clients whose `MULTI` fails send no `EXEC`.
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
        let ttl = try RESPOptions.ttl(request, 2)
        var lock = LockRequest(name: name, ttl: ttl)
        guard request.count > 3 else {
            let completion = traced(.acquire, tag, connection, name.text, completions.lock(tag)) { $0.answered }
            connection.note(calls.acquireLock(lock, completion: completion), for: tag)
            return
        }
        let options = try RESPOptions(
            request, from: 3, allowed: [.wait, .owner, .label, .linked, .shared, .permits, .also, .traceparent])
        lock.wait = try options.milliseconds(.wait) ?? 0
        lock.owner = try options.name(.owner)
        lock.label = try options.name(.label)
        lock.mode = try options.lockMode()
        let isLinked = options.has(.linked)
        // Checked first: a lease that cannot be followed would have to be released again.
        if isLinked { try connection.checkFollowLimit() }
        if let others = try options.names(.also) {
            let joint = JointLockRequest(names: [name] + others, template: lock)
            let completion = jointLock(tag, connection, isLinked: isLinked)
            let reported = traced(.acquire, tag, connection, name.text, completion, wait: lock.wait, by: options) { $0.answered }
            connection.note(calls.acquireLocks(joint, completion: reported), for: tag)
        } else {
            let completion = isLinked ? completions.linkedLock(tag) : completions.lock(tag)
            let reported = traced(.acquire, tag, connection, name.text, completion, wait: lock.wait, by: options) { $0.answered }
            connection.note(calls.acquireLock(lock, completion: reported), for: tag)
        }
    }

    /// Traces a command if it is sampled.
    /// - Parameters:
    ///   - subject: the name of the lock or the service.
    ///   - wait: the maximum wait, in milliseconds.
    ///   - options: the command's options, which may include `TRACEPARENT`; `nil` if there are no options.
    ///   - answered: returns the step's observer of the answer.
    /// - Returns: the given completion, or one that ends a span when the command is answered.
    private func traced<Answer>(
        _ step: StepTrace.Step, _ tag: UInt64, _ connection: RESPConnection, _ subject: @autoclosure () -> String,
        _ completion: Completion<Answer>,
        wait: Int64 = 0, by options: RESPOptions? = nil, _ answered: (StepTrace) -> (Answer) -> Void
    ) -> Completion<Answer> {
        guard let tracer else { return completion }
        let parent = options?.text(.traceparent).flatMap { TraceContext(traceparent: $0) }
        guard let span = tracer.begin(step.command.name, kind: .server, parent: parent) else { return completion }
        span.set("rpc.system", "redis")
        let step = StepTrace(step, subject(), wait: wait, of: span, calls: calls)
        let observe = answered(step)
        return completion.reported { answer in
            observe(answer)
            connection.traced(tag, by: span.context)
            if let failure = step.failure { span.fail(failure) }
            span.end()
        }
    }

    private func jointLock(_ tag: UInt64, _ connection: RESPConnection, isLinked: Bool) -> Completion<JointLockResult> {
        Completion(tag: tag) { tag, answer in
            guard connection.isOpen else { return false }
            if case .granted(let leases) = answer, isLinked || connection.receivesLosses {
                do throws(InterlockError) {
                    try connection.follow(leases, isLinked: isLinked)
                } catch {
                    guard !isLinked else {
                        connection.reply(tag) { $0.error(error) }
                        return false
                    }
                }
            }
            return connection.reply(tag) { $0.locks(answer) }
        }
    }

    private func renewLock(
        _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection, _ completions: RESPCompletions
    ) throws(InterlockError) {
        let name = try RESPOptions.name(request.text(1), parameter: "name")
        let ttl = try RESPOptions.ttl(request, 3)
        let fence = try Self.fence(request, from: 4)
        calls.renewLock(name, token: request.text(2), ttl: ttl, fence: fence, completion: completions.renew(tag))
    }

    private func releaseLock(
        _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection, _ completions: RESPCompletions
    ) throws(InterlockError) {
        let name = try RESPOptions.name(request.text(1), parameter: "name")
        let fence = try Self.fence(request, from: 3)
        calls.releaseLock(name, token: request.text(2), fence: fence, completion: completions.release(tag))
    }

    /// Returns the value of `FENCE`, which restricts the command to one grant; `nil` for the current grant.
    private static func fence(_ request: RESPRequest, from start: Int) throws(InterlockError) -> Int64? {
        guard request.count > start else { return nil }
        return try RESPOptions(request, from: start, allowed: [.fence]).integer(.fence, in: RequestLimits.fences)
    }

    private func breakLock(
        _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection, _ completions: RESPCompletions
    ) throws(InterlockError) {
        let name = try RESPOptions.name(request.text(1), parameter: "name")
        let fence = try Self.fence(request, from: 2)
        let by = connection.session.caller?.name ?? ""
        calls.breakLock(name, by: by, fence: fence, completion: completions.release(tag))
    }

    private func inspectLock(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) throws(InterlockError) {
        let name = try RESPOptions.name(request.text(1), parameter: "name")
        let completion = Completion<Result<LockInformation?, InterlockError>>(tag: tag) { tag, answer in
            connection.reply(tag) { writer in
                switch answer {
                case .failure(let error): writer.error(error)
                case .success(nil): writer.null()
                case .success(let information?): writer.lock(information)
                }
            }
        }
        calls.inspectLock(name, completion: completion)
    }

    private func listLocks(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) throws(InterlockError) {
        let hasCursor = request.count > 1 && request.integer(1) != nil
        let options = try RESPOptions(request, from: hasCursor ? 2 : 1, allowed: [.match, .count])
        let count = try options.integer(.count, in: 1...1000) ?? 100
        let completion = Completion<Result<LockPage, InterlockError>>(tag: tag) { tag, answer in
            connection.reply(tag) { writer in
                switch answer {
                case .failure(let error): writer.error(error)
                case .success(let page):
                    writer.array(2)
                    writer.bulk(page.cursor)
                    writer.array(page.names.count)
                    for name in page.names { writer.bulk(name) }
                }
            }
        }
        calls.listLocks(
            cursor: hasCursor ? request.text(1) : "0", matching: options.text(.match) ?? "*", count: Int(count),
            completion: completion)
    }

    private func listGrants(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) throws(InterlockError) {
        let name = request.count > 1 ? try RESPOptions.name(request.text(1), parameter: "name") : nil
        let grants = calls.grants(of: name)
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
        let cost = try options.integer(.cost, in: LimitRequest.costs) ?? 1
        let subject = try options.name(.subject)
        let wait = try options.milliseconds(.wait) ?? 0
        let completion = options.has(.named) ? namedLimit(tag, connection) : completions.take(tag)
        let call = calls.take(
            service, cost: cost, subject: subject, waitMilliseconds: wait, now: connection.now,
            completion: traced(.take, tag, connection, request.text(1), completion, wait: wait, by: options) { $0.answered })
        connection.note(call, for: tag)
    }

    /// Takes in one call with the adjacent takes. A traced take is a separate call.
    private func takeBatched(
        _ request: RESPRequest, _ service: ServiceReference, _ tag: UInt64, _ connection: RESPConnection,
        _ completions: RESPCompletions
    ) {
        guard let tracer, tracer.isNextSampled else { return connection.take(service, tag: tag) }
        connection.submitTakes()
        let completion = traced(.take, tag, connection, request.text(1), completions.take(tag)) { $0.answered }
        _ = calls.take(
            service, cost: 1, subject: nil, waitMilliseconds: 0, now: connection.now, completion: completion)
    }

    private func peek(
        _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection, _ completions: RESPCompletions
    ) throws(InterlockError) {
        let options = try RESPOptions(request, from: 2, allowed: [.subject, .descriptor, .named])
        let completion = options.has(.named) ? namedLimit(tag, connection) : completions.take(tag)
        guard let descriptor = options.text(.descriptor) else {
            return calls.peek(
                service: request.text(1), subject: try options.name(.subject), completion: completion)
        }
        guard !options.has(.subject) else {
            throw InterlockError(
                .invalid, "SUBJECT and DESCRIPTOR cannot be combined: a subject belongs to a service, a descriptor to a domain")
        }
        calls.peek(domain: request.text(1), descriptor: descriptor, completion: completion)
    }

    /// Returns a completion that replies with the decision and name of the limit that binds.
    private func namedLimit(_ tag: UInt64, _ connection: RESPConnection) -> Completion<TakeResult> {
        Completion(tag: tag) { tag, answer in
            connection.reply(tag) { writer in
                switch answer {
                // A combined call contains plain takes only, so this decision is about one take.
                case .decided(let answer), .decidedBatch(let answer, _, _):
                    writer.namedLimit(answer)
                case .failed(let error): writer.error(error)
                }
            }
        }
    }

    private func listLimits(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) throws(InterlockError) {
        let subject = try RESPOptions(request, from: 2, allowed: [.subject]).name(.subject)
        let completion = Completion<Result<[LimitState], InterlockError>>(tag: tag) { tag, answer in
            connection.reply(tag) { writer in
                switch answer {
                case .failure(let error): writer.error(error)
                case .success(let states):
                    writer.array(states.count)
                    for state in states { writer.limit(state) }
                }
            }
        }
        calls.listLimits(service: request.text(1), subject: subject, completion: completion)
    }

    private func throttle(
        _ request: RESPRequest, _ tag: UInt64, _ completions: RESPCompletions
    ) throws(InterlockError) {
        let key = try RESPOptions.name(request.text(1), parameter: "key")
        let burst = try RESPOptions.integer(request, 2, parameter: "max_burst", in: ThrottleRequest.bursts)
        let count = try RESPOptions.integer(request, 3, parameter: "count", in: ThrottleRequest.counts)
        let period = try RESPOptions.integer(request, 4, parameter: "period", in: ThrottleRequest.periods)
        let quantity =
            request.count > 5 ? try RESPOptions.integer(request, 5, parameter: "quantity", in: ThrottleRequest.quantities) : 1
        let throttle = ThrottleRequest(key: key, maximumBurst: burst, count: count, period: period, quantity: quantity)
        guard let throttle else {
            throw InterlockError(
                .invalid,
                "at \(count) in \(period) seconds a burst of \(burst) would take more than a hundred years to refill; "
                    + "use a smaller max_burst or a higher rate")
        }
        calls.throttle(throttle, completion: completions.throttle(tag))
    }

    private func acquirePermit(
        _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection, _ completions: RESPCompletions
    ) throws(InterlockError) {
        let completion = completions.permit(tag)
        let service = try connection.service(request, 1)
        guard request.count > 2 else {
            _ = calls.acquirePermit(
                service, cost: 1, subject: nil, waitMilliseconds: 0, now: connection.now,
                completion: traced(.permit, tag, connection, request.text(1), completion) { $0.answered })
            return
        }
        let options = try RESPOptions(request, from: 2, allowed: [.cost, .subject, .wait, .traceparent])
        let cost = try options.integer(.cost, in: LimitRequest.costs) ?? 1
        let subject = try options.name(.subject)
        let wait = try options.milliseconds(.wait) ?? 0
        let call = calls.acquirePermit(
            service, cost: cost, subject: subject, waitMilliseconds: wait, now: connection.now,
            completion: traced(.permit, tag, connection, request.text(1), completion, wait: wait, by: options) { $0.answered })
        connection.note(call, for: tag)
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
        calls.reportPermit(
            service: request.text(1), permit: permit, report, completion: completions.outcome(tag))
    }

    // MARK: Breakers

    private func breakerState(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) throws(InterlockError) {
        let status = try calls.breaker(service: request.text(1)).get()
        connection.reply(tag) { $0.breaker(status, probe: probe(status.service)) }
    }

    private func breakerList(_ tag: UInt64, _ connection: RESPConnection) {
        let all = calls.allBreakers()
        connection.reply(tag) { writer in
            writer.array(all.count)
            for status in all { writer.breaker(status, probe: probe(status.service)) }
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
        let completion = Completion<Result<BreakerStatus, InterlockError>>(tag: tag) { tag, answer in
            connection.reply(tag) { writer in
                switch answer {
                case .failure(let error): writer.error(error)
                case .success: writer.simple("OK")
                }
            }
        }
        let by = connection.session.caller?.name ?? ""
        calls.forceBreaker(
            service: request.text(1), to: state, forMilliseconds: milliseconds, reason: options.text(.reason) ?? "", by: by,
            completion: completion)
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

    private func probe(_ reading: ProbeReading) {
        map(7)
        bulk("prober")
        bulk(reading.prober.rawValue)
        bulk("finding")
        bulkOrNull(reading.last?.finding.rawName)
        bulk("reason")
        bulkOrNull(reading.last?.finding.reason?.description)
        bulk("at_ms")
        integerOrNull(reading.last?.atMilliseconds)
        bulk("duration_ms")
        integerOrNull(reading.last?.duration.wholeMilliseconds)
        bulk("failures")
        integer(Int64(reading.failures))
        bulk("successes")
        integer(Int64(reading.successes))
    }
}
