package import Interlock
internal import InterlockCore
package import InterlockJudge
internal import InterlockProcesses
internal import NIOConcurrencyHelpers
internal import RedisClient

/// Executes a `FaultPlan` on a fleet that the harness started.
///
/// The injector records a fault before it causes the fault, and records the end once the damage is repaired: a killed
/// process is ready, a stopped one answers, Redis serves, its clock shows the intended time. Clients that lost their
/// connections may still be reconnecting then. The injector repairs every fault before `run` returns, even after
/// cancellation. It reports a failed repair as a violation with the reason, and begins no further fault.
package struct FaultInjector: Sendable {
    /// The faults of a run and the repairs that failed.
    package struct Outcome: Sendable {
        /// The faults in the order in which they began.
        package var faults: [FaultReport] = []
        package var violations: [Violation] = []
        /// The planned kinds that this machine or fleet cannot cause, each with the reason.
        package var unsupported: [FaultKind: String] = [:]
    }

    private struct State {
        var outcome = Outcome()
        var isBroken = false
    }

    let fleet: SpawnedFleet
    /// The hash slots of the cluster that carry load.
    let hotSlots: [HashSlot]
    let vanish: (@Sendable (Int) async -> Void)?
    private let plan: FaultPlan
    private let time: TimeSource
    private let log: @Sendable (String) -> Void
    private let recordEvent: @Sendable (HistoryEvent.Kind) async -> Void
    private let state = NIOLockedValueBox(State())

    /// Creates an injector for one run.
    /// - Parameters:
    ///   - plan: a plan for as many sidecars as the fleet has, with kinds that the fleet was started for.
    ///   - hotKeys: the hash tags of the keys that carry load.
    ///   - time: the clock of `Violation.at`.
    ///   - vanish: a closure that disconnects this many clients without notice; `nil` if the run has no clients that
    ///     can vanish.
    ///   - log: a closure that receives one line per action, and one for each kind of fault that cannot be injected.
    ///   - recordEvent: a closure that records an event in the history of the run before it returns.
    package init(
        fleet: SpawnedFleet, plan: FaultPlan, hotKeys: [String] = [], time: TimeSource = .system,
        vanish: (@Sendable (Int) async -> Void)? = nil,
        log: @escaping @Sendable (String) -> Void = { _ in },
        recordEvent: @escaping @Sendable (HistoryEvent.Kind) async -> Void
    ) {
        self.fleet = fleet
        self.plan = plan
        var knownSlots: Set<HashSlot> = []
        hotSlots = hotKeys.map { HashSlot(ofKey: $0) }.filter { knownSlots.insert($0).inserted }
        self.time = time
        self.vanish = vanish
        self.log = log
        self.recordEvent = recordEvent
    }

    /// Causes and repairs all faults of the plan. Returns when the last is repaired, or soon after cancellation.
    /// - Parameter start: the start of the run.
    package func run(since start: ContinuousClock.Instant = .now) async -> Outcome {
        let faults = plan.faults.filter { isPossible($0) }
        await withTaskGroup(of: Void.self) { group in
            // A fault begins only after the repair of the previous fault with the same target.
            for (_, faultSequence) in Dictionary(grouping: faults, by: \.action.target) {
                group.addTask {
                    for fault in faultSequence { await execute(fault, since: start) }
                }
            }
        }
        return state.withLockedValue { state in
            state.outcome.faults.sort { $0.beganSeconds < $1.beganSeconds }
            return state.outcome
        }
    }

    /// Returns whether this fleet can cause the fault. Records the reason if it cannot.
    private func isPossible(_ fault: PlannedFault) -> Bool {
        let reason: String? =
            switch fault.kind.requirement {
            case .clients: vanish == nil ? "this run has no clients that can vanish" : nil
            case .adjustableClock:
                fleet.clock == nil ? fleet.unsupported[fault.kind] ?? "the fleet was started without an adjustable clock" : nil
            case .replicas:
                fleet.sentinels == nil && fleet.cluster == nil
                    ? "the fleet was started with a single server, so there is no replica to promote" : nil
            case .cluster: fleet.cluster == nil ? "the fleet was started without a cluster" : nil
            case .proxies: fleet.proxies.isEmpty ? "the fleet was started without proxies" : nil
            case .processes, .durableWrites: nil
            case nil: "only simulations inject this fault"
            }
        guard let reason else { return true }
        let isNew = state.withLockedValue { $0.outcome.unsupported.updateValue(reason, forKey: fault.kind) == nil }
        if isNew { log("missing: \(fault.kind.rawValue): \(reason)") }
        return false
    }

    private func execute(_ fault: PlannedFault, since start: ContinuousClock.Instant) async {
        guard !isBroken else { return }
        // The processes use the real clock. Cancellation ends the sleep early, and the guard below detects that.
        try? await Task.sleep(until: start + fault.start, clock: .continuous)
        guard !Task.isCancelled, !isBroken else { return }
        guard ContinuousClock.now - start + fault.duration <= plan.calmStart else {
            logLine("skipped because the previous repair took too long: \(fault)", since: start)
            return
        }
        await recordEvent(.faultBegan(fault: fault.number, fault.kind, sidecar: fault.sidecar))
        let beganSeconds = logLine("begins: \(fault)", since: start)
        var failure: (any Error)?
        do {
            try await inject(fault.action)
            try await sustain(fault)
        } catch is CancellationError {
            logLine("cut short: #\(fault.number)", since: start)
        } catch {
            failure = error
        }
        do {
            // A separate task repairs the fault even if this task was cancelled.
            try await Task { try await repair(fault.action) }.value
        } catch {
            failure = failure ?? error
        }
        if let failure {
            // The damage persists, so the end of the fault is not recorded.
            logLine("not repaired: #\(fault.number): \(failure)", since: start)
            let reason = (failure as? RedisServerError)?.reason ?? "\(failure)"
            let violation = Violation(.recovery, at: time.now(), "the fleet did not recover after \(fault.action): \(reason)")
            state.withLockedValue { state in
                state.isBroken = true
                state.outcome.violations.append(violation)
            }
        } else {
            await recordEvent(.faultEnded(fault: fault.number))
        }
        let endedSeconds = logLine("ended: #\(fault.number)", since: start)
        let report = FaultReport(
            number: fault.number, kind: fault.kind, sidecar: fault.sidecar,
            beganSeconds: beganSeconds, endedSeconds: endedSeconds)
        state.withLockedValue { $0.outcome.faults.append(report) }
    }

    private var isBroken: Bool { state.withLockedValue { $0.isBroken } }

    /// Logs a line with the time since the start of the run.
    /// - Returns: that time in seconds.
    @discardableResult
    private func logLine(_ line: String, since start: ContinuousClock.Instant) -> Double {
        let milliseconds = (ContinuousClock.now - start).wholeMilliseconds
        log("\(milliseconds) ms: \(line)")
        return Double(milliseconds) / 1000
    }
}

extension FaultInjector {
    /// The time that Redis may take to exit, and the time that clients may take to vanish.
    private static let timeout = Duration.seconds(30)
    /// The time that Redis may take to load its data file on a busy machine.
    private static let restartTimeout = Duration.seconds(60)

    func inject(_ action: FaultAction) async throws {
        switch action {
        case .kill(let sidecar): try await fleet.sidecars[sidecar].kill()
        case .pause(let sidecar): await fleet.sidecars[sidecar].pause()
        case .redisRestart(.terminated): try await controlRedis(until: "ends") { await $0.stop() }
        case .redisRestart(.killed), .redisWipe(.killed): try await controlRedis(until: "is gone") { await $0.kill() }
        case .redisWipe(.flushed): try await sendToRedis(["FLUSHALL"])
        case .redisPause: await fleet.server.pause()
        case .failover(let loss, let serverIndex):
            try await fleet.sentinels?.losePrimary(loss)
            try await fleet.cluster?.losePrimary(loss, serverIndex: serverIndex)
        case .reshard(let count, let serverIndex):
            try await fleet.cluster?.reshard(slotsWithLoad(count, startingAt: serverIndex), serverIndex: serverIndex)
        case .nodeJoin(let count): try await fleet.cluster?.join(taking: slotsWithLoad(count, startingAt: 0))
        case .nodeLeave(let serverIndex): try await fleet.cluster?.leave(serverIndex: serverIndex)
        case .partition(let sidecar, let refuses):
            await fleet.proxies[sidecar].set(.partition(refusesConnections: refuses))
        case .delay(let sidecar, let fixedMilliseconds, let jitterMilliseconds):
            let flow = FaultFlow.delayed(
                fixed: .milliseconds(fixedMilliseconds), jitter: .milliseconds(jitterMilliseconds))
            await fleet.proxies[sidecar].set(.init(requests: flow, replies: flow))
        case .trickle(let sidecar, let bytes, let pauseMilliseconds):
            let flow = FaultFlow.throttled(bytes: bytes, every: .milliseconds(pauseMilliseconds))
            await fleet.proxies[sidecar].set(.init(requests: flow, replies: flow))
        case .reset(let sidecar, let manner, _): await fleet.proxies[sidecar].breakConnections(manner)
        case .clock(let seconds): try await fleet.clock?.jump(bySeconds: seconds, of: fleet.redis)
        case .vanish(let clients):
            guard let vanish else { break }
            try await runToCompletion(within: Self.timeout, "\(clients) clients vanish") { await vanish(clients) }
        }
    }

    /// Waits until the fault has lasted for its planned duration, by the real clock of the processes. Repeats resets
    /// during that time.
    func sustain(_ fault: PlannedFault) async throws {
        let end = ContinuousClock.now + fault.duration
        if case .reset(let sidecar, let manner, let pauseMilliseconds) = fault.action {
            while true {
                let nextReset = ContinuousClock.now + .milliseconds(pauseMilliseconds)
                guard nextReset < end else { break }
                // The plan determines the pause between two resets.
                try await Task.sleep(until: nextReset, clock: .continuous)
                await fleet.proxies[sidecar].breakConnections(manner)
            }
        }
        // Cancellation ends the fault early.
        try await Task.sleep(until: end, clock: .continuous)
    }

    /// Repairs the damage, however far `inject` got, and waits until the fleet works again.
    func repair(_ action: FaultAction) async throws {
        switch action {
        case .kill(let sidecar): try await fleet.sidecars[sidecar].start()
        case .pause(let sidecar):
            await fleet.sidecars[sidecar].resume()
            try await fleet.sidecars[sidecar].waitUntilAnswering()
        case .redisRestart: try await restart(keepingData: true)
        case .redisWipe(.killed): try await restart(keepingData: false)
        case .redisPause:
            await fleet.server.resume()
            try await sendToRedis(["PING"])
        case .failover:
            try await fleet.sentinels?.recover()
            try await fleet.cluster?.recover()
        case .nodeJoin: try await fleet.cluster?.removeAddedShard()
        case .nodeLeave: try await fleet.cluster?.restoreRemovedShard()
        case .partition(let sidecar, _), .delay(let sidecar, _, _), .trickle(let sidecar, _, _):
            await fleet.proxies[sidecar].set(.free)
        case .clock(let seconds) where seconds < 0:
            try await fleet.clock?.jump(bySeconds: -seconds, of: fleet.redis)
        case .redisWipe(.flushed), .reset, .reshard, .clock, .vanish: break
        }
    }

    /// Returns up to `count` hash slots, starting with those that carry load. The index of the server decides which of
    /// them comes first.
    private func slotsWithLoad(_ count: Int, startingAt serverIndex: Int) -> [HashSlot] {
        var slots: [HashSlot] = []
        for number in 0..<count where slots.count < min(count, HashSlot.count) {
            let hotSlot = hotSlots.isEmpty ? nil : hotSlots[(serverIndex * 7 + number) % hotSlots.count]
            let slot = number < hotSlots.count ? hotSlot : HashSlot(Int64(number * 7 % HashSlot.count))
            if let slot, !slots.contains(slot) { slots.append(slot) }
        }
        return slots
    }

    private func restart(keepingData: Bool) async throws {
        try await runToCompletion(within: Self.restartTimeout, "Redis serves again") { [server = fleet.server] in
            try await server.restart(keepingData: keepingData)
        }
    }

    /// Performs an action on the Redis server, and waits a limited time until it has ended.
    /// - Parameter expectation: the expected effect on Redis, for the error message.
    private func controlRedis(
        until expectation: String, _ action: @escaping @Sendable (RedisServer) async -> Void
    ) async throws {
        try await runToCompletion(within: Self.timeout, "Redis \(expectation)") { [server = fleet.server] in
            await action(server)
        }
    }

    /// Sends a command to Redis directly, not through a proxy.
    private func sendToRedis(_ arguments: [String]) async throws {
        _ = try await RedisClient.ask(arguments, at: fleet.redis)
    }
}

extension FaultInjector.Outcome {
    /// Returns the reports of the faults, with the times of recovery.
    /// - Parameter recoveryMilliseconds: the time in milliseconds until every sidecar served again, by fault number.
    func reports(recoveryMilliseconds: [Int: Int64]) -> [FaultReport] {
        faults.map { fault in
            var fault = fault
            fault.recoveredAfterSeconds = recoveryMilliseconds[fault.number].map { Double($0) / 1000 }
            return fault
        }
    }
}

extension CheckReport {
    /// Returns the report with further violations, such as failed repairs.
    func adding(_ newViolations: [Violation]) -> CheckReport {
        var report = self
        report.violations += newViolations
        report.violationCount += newViolations.count
        return report
    }

    /// Returns the report with violation times counted from `start`, like the times of its faults.
    func counted(from start: Instant) -> CheckReport {
        var report = self
        for index in report.violations.indices {
            report.violations[index].at = Instant(
                nanoseconds: report.violations[index].at.nanoseconds - start.nanoseconds)
        }
        return report
    }
}
