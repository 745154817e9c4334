package import Interlock
internal import InterlockCore
package import InterlockJudge
internal import InterlockProcesses
internal import NIOConcurrencyHelpers
internal import RedisClient

/// Executes a `FaultPlan` on a fleet that the harness started.
///
/// The injector records a fault before it causes the fault, and records its end once the damage is repaired: a killed
/// process is ready, a stopped one answers, Redis serves, its clock shows the intended time. Clients that were cut off
/// may still be reconnecting then. Everything is repaired before `run` returns, even after cancellation. A failed
/// repair is reported as a violation with the reason, and no further fault begins.
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
    private let note: @Sendable (HistoryEvent.Kind) async -> Void
    private let state = NIOLockedValueBox(State())

    /// - Parameters:
    ///   - plan: a plan for as many sidecars as the fleet has, with kinds that the fleet was started for.
    ///   - hotKeys: the hash tags of the keys that carry load.
    ///   - time: the clock of `Violation.at`.
    ///   - vanish: disconnects this many clients without notice; `nil` if the run has no clients that can vanish.
    ///   - log: receives one line per action, with its time since the start of the run.
    ///   - note: records an event in the history of the run before it returns.
    package init(
        fleet: SpawnedFleet, plan: FaultPlan, hotKeys: [String] = [], time: TimeSource = .system,
        vanish: (@Sendable (Int) async -> Void)? = nil,
        log: @escaping @Sendable (String) -> Void = { _ in }, note: @escaping @Sendable (HistoryEvent.Kind) async -> Void
    ) {
        self.fleet = fleet
        self.plan = plan
        var seen: Set<HashSlot> = []
        hotSlots = hotKeys.map { HashSlot(ofKey: $0) }.filter { seen.insert($0).inserted }
        self.time = time
        self.vanish = vanish
        self.log = log
        self.note = note
    }

    /// Causes and repairs all faults of the plan. Returns when the last is repaired, or soon after cancellation.
    /// - Parameter start: the start of the run.
    package func run(since start: ContinuousClock.Instant = .now) async -> Outcome {
        let faults = plan.faults.filter { isPossible($0) }
        await withTaskGroup(of: Void.self) { group in
            // Faults with the same target follow each other, however long the repair takes.
            for (_, sequence) in Dictionary(grouping: faults, by: \.action.target) {
                group.addTask {
                    for fault in sequence { await execute(fault, since: start) }
                }
            }
        }
        return state.withLockedValue { state in
            state.outcome.faults.sort { $0.began < $1.began }
            return state.outcome
        }
    }

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
        // The processes use the real clock. Cancellation ends the sleep early, which the guard below detects.
        try? await Task.sleep(until: start + fault.start, clock: .continuous)
        guard !Task.isCancelled, !isBroken else { return }
        guard ContinuousClock.now - start + fault.duration <= plan.calmStart else {
            logLine("skipped because the previous repair took too long: \(fault)", since: start)
            return
        }
        await note(.faultBegan(fault: fault.number, fault.kind, sidecar: fault.sidecar))
        let began = logLine("begins: \(fault)", since: start)
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
            // The fault is not repaired, so its end is not recorded.
            logLine("not repaired: #\(fault.number): \(failure)", since: start)
            let reason = (failure as? RedisServerError)?.reason ?? "\(failure)"
            let violation = Violation(.recovery, at: time.now(), "the fleet did not recover after \(fault.action): \(reason)")
            state.withLockedValue { state in
                state.isBroken = true
                state.outcome.violations.append(violation)
            }
        } else {
            await note(.faultEnded(fault: fault.number))
        }
        let ended = logLine("ended: #\(fault.number)", since: start)
        let report = FaultReport(
            number: fault.number, kind: fault.kind, sidecar: fault.sidecar, began: began, ended: ended)
        state.withLockedValue { $0.outcome.faults.append(report) }
    }

    private var isBroken: Bool { state.withLockedValue { $0.isBroken } }

    /// - Returns: the seconds since the start of the run.
    @discardableResult
    private func logLine(_ line: String, since start: ContinuousClock.Instant) -> Double {
        let now = ContinuousClock.now - start
        log("\(now.wholeMilliseconds) ms: \(line)")
        return Double(now.wholeMilliseconds) / 1000
    }
}

extension FaultInjector {
    /// The time that Redis may take to exit, and a client to vanish.
    private static let timeout = Duration.seconds(30)
    /// The time that Redis may take to load its data file on a busy machine.
    private static let restartTimeout = Duration.seconds(60)

    func inject(_ action: FaultAction) async throws {
        switch action {
        case .kill(let sidecar): try await fleet.sidecars[sidecar].kill()
        case .pause(let sidecar): await fleet.sidecars[sidecar].pause()
        case .redisRestart(.terminated): try await redis("ends") { await $0.stop() }
        case .redisRestart(.killed), .redisWipe(.killed): try await redis("is gone") { await $0.kill() }
        case .redisWipe(.flushed): try await ask(["FLUSHALL"])
        case .redisPause: await fleet.server.pause()
        case .failover(let loss, let serverIndex):
            try await fleet.sentinels?.losePrimary(loss)
            try await fleet.cluster?.losePrimary(loss, serverIndex: serverIndex)
        case .reshard(let count, let serverIndex):
            try await fleet.cluster?.reshard(hot(count, from: serverIndex), serverIndex: serverIndex)
        case .nodeJoin(let count): try await fleet.cluster?.join(taking: hot(count, from: 0))
        case .nodeLeave(let serverIndex): try await fleet.cluster?.leave(serverIndex: serverIndex)
        case .partition(let sidecar, let refuses):
            await fleet.proxies[sidecar].set(.partition(refusesConnections: refuses))
        case .delay(let sidecar, let fixed, let jitter):
            let flow = FaultFlow.delayed(fixed: .milliseconds(fixed), jitter: .milliseconds(jitter))
            await fleet.proxies[sidecar].set(.init(requests: flow, answers: flow))
        case .trickle(let sidecar, let bytes, let pause):
            let flow = FaultFlow.throttled(bytes: bytes, every: .milliseconds(pause))
            await fleet.proxies[sidecar].set(.init(requests: flow, answers: flow))
        case .reset(let sidecar, let manner, _): await fleet.proxies[sidecar].breakConnections(manner)
        case .clock(let seconds): try await fleet.clock?.jump(bySeconds: seconds, of: fleet.redis)
        case .vanish(let clients):
            guard let vanish else { break }
            try await runToCompletion(within: Self.timeout, "\(clients) clients vanish") { await vanish(clients) }
        }
    }

    /// Waits until the fault has lasted as long as planned, by the real clock of the processes. Repeats resets in the
    /// meantime.
    func sustain(_ fault: PlannedFault) async throws {
        let end = ContinuousClock.now + fault.duration
        if case .reset(let sidecar, let manner, let pause) = fault.action {
            while true {
                let next = ContinuousClock.now + .milliseconds(pause)
                guard next < end else { break }
                // The planned pause between two resets.
                try await Task.sleep(until: next, clock: .continuous)
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
            try await ask(["PING"])
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

    /// Returns up to `count` hash slots, starting with those that hold the names of the run.
    private func hot(_ count: Int, from serverIndex: Int) -> [HashSlot] {
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

    private func redis(_ expectation: String, _ action: @escaping @Sendable (RedisServer) async -> Void) async throws {
        try await runToCompletion(within: Self.timeout, "Redis \(expectation)") { [server = fleet.server] in await action(server)
        }
    }

    /// Sends a command to Redis directly, not through a proxy.
    private func ask(_ arguments: [String]) async throws {
        _ = try await RedisClient.ask(arguments, at: fleet.redis)
    }
}

extension FaultInjector.Outcome {
    /// - Parameter recoveries: the time in milliseconds until every sidecar served again, by fault number.
    func reports(recoveries: [Int: Int64]) -> [FaultReport] {
        faults.map { fault in
            var fault = fault
            fault.recoveredAfter = recoveries[fault.number].map { Double($0) / 1000 }
            return fault
        }
    }
}

extension CheckReport {
    /// Returns the report with the failed repairs added.
    func adding(_ found: [Violation]) -> CheckReport {
        var report = self
        report.violations += found
        report.violationCount += found.count
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
