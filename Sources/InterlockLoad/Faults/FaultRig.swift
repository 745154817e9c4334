package import Interlock
internal import InterlockCore
package import InterlockJudge
internal import InterlockProcesses
internal import NIOConcurrencyHelpers
internal import RedisClient

/// Carries a `FaultPlan` out on a fleet of the harness's own.
///
/// A fault is noted before it is made, and noted as over when what it broke is whole again: a killed process is ready again, a
/// stopped one answers again, Redis serves again, its clock shows what it is to show. A client that was cut off may still be
/// reconnecting then. Everything is repaired when `run` returns, also on cancellation. What cannot be repaired in time is a
/// violation with the log of who failed, and the last fault of the run.
package struct FaultRig: Sendable {
    /// What was broken, and what did not become whole again.
    package struct Outcome: Sendable {
        /// In the order in which they began.
        package var faults: [FaultReport] = []
        package var violations: [Violation] = []
        /// The kinds that were planned and that this machine has not got what it takes for, and what that is.
        package var missing: [FaultKind: String] = [:]
    }

    private struct State {
        var outcome = Outcome()
        var isBroken = false
    }

    let fleet: OwnFleet
    /// The slots of a cluster that there is load in.
    let hotSlots: [HashSlot]
    let vanish: (@Sendable (Int) async -> Void)?
    private let plan: FaultPlan
    private let time: TimeSource
    private let log: @Sendable (String) -> Void
    private let note: @Sendable (HistoryEvent.What) async -> Void
    private let state = NIOLockedValueBox(State())

    /// - Parameters:
    ///   - plan: made for as many sidecars as the fleet has, and of kinds that it was started for.
    ///   - hotKeys: what there is load on, as the hash tags of its keys have it.
    ///   - time: the clock of `Violation.at`.
    ///   - vanish: makes this many clients vanish without a word; `nil`: there are none that could.
    ///   - log: takes a line for everything that is done, with its time from the beginning of the run.
    ///   - note: records in the run's history, before it returns.
    package init(
        fleet: OwnFleet, plan: FaultPlan, hotKeys: [String] = [], time: TimeSource = .system,
        vanish: (@Sendable (Int) async -> Void)? = nil,
        log: @escaping @Sendable (String) -> Void = { _ in }, note: @escaping @Sendable (HistoryEvent.What) async -> Void
    ) {
        self.fleet = fleet
        self.plan = plan
        var known: Set<HashSlot> = []
        hotSlots = hotKeys.map { HashSlot(ofKey: $0) }.filter { known.insert($0).inserted }
        self.time = time
        self.vanish = vanish
        self.log = log
        self.note = note
    }

    /// Makes and mends all faults of the plan; returns when the last is over, or soon after it was cancelled.
    /// - Parameter start: when the run began.
    package func run(since start: ContinuousClock.Instant = .now) async -> Outcome {
        let faults = plan.faults.filter { isPossible($0) }
        await withTaskGroup(of: Void.self) { group in
            // Faults of one target follow each other, however long the mending takes.
            for (_, own) in Dictionary(grouping: faults, by: \.act.target) {
                group.addTask {
                    for fault in own { await carryOut(fault, since: start) }
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
            case .clients: vanish == nil ? "there are no clients that could vanish" : nil
            case .movableClock:
                fleet.clock == nil ? fleet.missing[fault.kind] ?? "the fleet was started without a clock that moves" : nil
            case .replicas:
                fleet.sentinels == nil && fleet.cluster == nil
                    ? "the fleet was started with one server, and neither is promoted" : nil
            case .cluster: fleet.cluster == nil ? "the fleet was started without a cluster" : nil
            case .proxies: fleet.proxies.isEmpty ? "the fleet was started without proxies" : nil
            case .processes, .keptData: nil
            case nil: "simulations alone cause it"
            }
        guard let reason else { return true }
        let isNew = state.withLockedValue { $0.outcome.missing.updateValue(reason, forKey: fault.kind) == nil }
        if isNew { log("missing: \(fault.kind.rawValue): \(reason)") }
        return false
    }

    private func carryOut(_ fault: PlannedFault, since start: ContinuousClock.Instant) async {
        guard !isBroken else { return }
        // It begins by the real clock, which the processes live by. Cancelled is as good as over.
        try? await Task.sleep(until: start + fault.begins, clock: .continuous)
        guard !Task.isCancelled, !isBroken else { return }
        guard ContinuousClock.now - start + fault.lasts <= plan.calmFrom else {
            say("left out, as the mending before it took too long: \(fault)", since: start)
            return
        }
        await note(.faultBegan(fault: fault.number, fault.kind, sidecar: fault.sidecar))
        let began = say("begins: \(fault)", since: start)
        var failure: (any Error)?
        do {
            try await make(fault.act)
            try await keep(fault)
        } catch is CancellationError {
            say("cut short: #\(fault.number)", since: start)
        } catch {
            failure = error
        }
        do {
            // In a task of its own: it is repaired also when this one was cancelled.
            try await Task { try await repair(fault.act) }.value
        } catch {
            failure = failure ?? error
        }
        if let failure {
            // It has not become whole: its end is not noted.
            say("not repaired: #\(fault.number): \(failure)", since: start)
            let reason = (failure as? RedisServerError)?.reason ?? "\(failure)"
            let violation = Violation(.recovery, at: time.now(), "after \(fault.act) all is not whole again: \(reason)")
            state.withLockedValue { state in
                state.isBroken = true
                state.outcome.violations.append(violation)
            }
        } else {
            await note(.faultEnded(fault: fault.number))
        }
        let ended = say("ended: #\(fault.number)", since: start)
        let report = FaultReport(
            number: fault.number, kind: fault.kind, sidecar: fault.sidecar, began: began, ended: ended)
        state.withLockedValue { $0.outcome.faults.append(report) }
    }

    private var isBroken: Bool { state.withLockedValue { $0.isBroken } }

    /// - Returns: when, in seconds from the beginning of the run.
    @discardableResult
    private func say(_ line: String, since start: ContinuousClock.Instant) -> Double {
        let now = ContinuousClock.now - start
        log("\(now.wholeMilliseconds) ms: \(line)")
        return Double(now.wholeMilliseconds) / 1000
    }
}

extension FaultRig {
    /// How long Redis may take to end, and a client to vanish.
    private static let timeout = Duration.seconds(30)
    /// How long Redis may take to read its file, on a machine that is busy.
    private static let restartPatience = Duration.seconds(60)

    /// Breaks it.
    func make(_ act: FaultAct) async throws {
        switch act {
        case .kill(let sidecar): try await fleet.sidecars[sidecar].kill()
        case .pause(let sidecar): await fleet.sidecars[sidecar].pause()
        case .redisRestart(.terminated): try await redis("ends") { await $0.stop() }
        case .redisRestart(.killed), .redisWipe(.killed): try await redis("is gone") { await $0.kill() }
        case .redisWipe(.flushed): try await ask(["FLUSHALL"])
        case .redisPause: await fleet.server.pause()
        case .failover(let loss, let place):
            try await fleet.sentinels?.losePrimary(loss)
            try await fleet.cluster?.losePrimary(loss, place: place)
        case .reshard(let count, let place): try await fleet.cluster?.reshard(hot(count, from: place), place: place)
        case .nodeJoin(let count): try await fleet.cluster?.join(taking: hot(count, from: 0))
        case .nodeLeave(let place): try await fleet.cluster?.leave(place: place)
        case .partition(let sidecar, let refuses):
            await fleet.proxies[sidecar].set(.partition(refusesConnections: refuses))
        case .delay(let sidecar, let fixed, let jitter):
            let flow = FaultFlow.delayed(fixed: .milliseconds(fixed), jitter: .milliseconds(jitter))
            await fleet.proxies[sidecar].set(.init(requests: flow, answers: flow))
        case .trickle(let sidecar, let bytes, let pause):
            let flow = FaultFlow.trickling(bytes: bytes, every: .milliseconds(pause))
            await fleet.proxies[sidecar].set(.init(requests: flow, answers: flow))
        case .reset(let sidecar, let manner, _): await fleet.proxies[sidecar].breakConnections(manner)
        case .clock(let seconds): try await fleet.clock?.jump(bySeconds: seconds, of: fleet.redis)
        case .vanish(let clients):
            guard let vanish else { break }
            try await finishing(within: Self.timeout, "\(clients) clients vanish") { await vanish(clients) }
        }
    }

    /// Lets it last, from now on, as long as it was planned: real processes live by the real clock.
    func keep(_ fault: PlannedFault) async throws {
        let end = ContinuousClock.now + fault.lasts
        if case .reset(let sidecar, let manner, let pause) = fault.act {
            while true {
                let next = ContinuousClock.now + .milliseconds(pause)
                guard next < end else { break }
                // Between two resets, as planned.
                try await Task.sleep(until: next, clock: .continuous)
                await fleet.proxies[sidecar].breakConnections(manner)
            }
        }
        // The fault's length itself. Cancelled, it is over.
        try await Task.sleep(until: end, clock: .continuous)
    }

    /// Makes it whole again, in whatever state `make` left it, and waits until it is.
    func repair(_ act: FaultAct) async throws {
        switch act {
        case .kill(let sidecar): try await fleet.sidecars[sidecar].start()
        case .pause(let sidecar):
            await fleet.sidecars[sidecar].resume()
            try await fleet.sidecars[sidecar].answer()
        case .redisRestart: try await restart(keepingData: true)
        case .redisWipe(.killed): try await restart(keepingData: false)
        case .redisPause:
            await fleet.server.resume()
            try await ask(["PING"])
        case .failover:
            try await fleet.sentinels?.mend()
            try await fleet.cluster?.mend()
        case .nodeJoin: try await fleet.cluster?.leaveAgain()
        case .nodeLeave: try await fleet.cluster?.joinAgain()
        case .partition(let sidecar, _), .delay(let sidecar, _, _), .trickle(let sidecar, _, _):
            await fleet.proxies[sidecar].set(.free)
        case .clock(let seconds) where seconds < 0:
            try await fleet.clock?.jump(bySeconds: -seconds, of: fleet.redis)
        case .redisWipe(.flushed), .reset, .reshard, .clock, .vanish: break
        }
    }

    /// So many slots, of which those come first that the run's names are in.
    private func hot(_ count: Int, from place: Int) -> [HashSlot] {
        var slots: [HashSlot] = []
        for number in 0..<count where slots.count < min(count, HashSlot.count) {
            let own = hotSlots.isEmpty ? nil : hotSlots[(place * 7 + number) % hotSlots.count]
            let slot = number < hotSlots.count ? own : HashSlot(Int64(number * 7 % HashSlot.count))
            if let slot, !slots.contains(slot) { slots.append(slot) }
        }
        return slots
    }

    private func restart(keepingData: Bool) async throws {
        try await finishing(within: Self.restartPatience, "Redis serves again") { [server = fleet.server] in
            try await server.restart(keepingData: keepingData)
        }
    }

    private func redis(_ expectation: String, _ act: @escaping @Sendable (RedisServer) async -> Void) async throws {
        try await finishing(within: Self.timeout, "Redis \(expectation)") { [server = fleet.server] in await act(server) }
    }

    /// Past all proxies.
    private func ask(_ words: [String]) async throws {
        _ = try await RedisClient.ask(words, at: fleet.redis)
    }
}

extension FaultRig.Outcome {
    /// - Parameter recoveries: after how many ms every sidecar served again, by the fault's number.
    func reports(recoveries: [Int: Int64]) -> [FaultReport] {
        faults.map { fault in
            var fault = fault
            fault.recoveredAfter = recoveries[fault.number].map { Double($0) / 1000 }
            return fault
        }
    }
}

extension CheckReport {
    /// With what the fault rig found broken for good.
    func adding(_ found: [Violation]) -> CheckReport {
        var report = self
        report.violations += found
        report.violationCount += found.count
        return report
    }

    /// With the times of violations from the beginning of the run, as those of its faults are.
    func counted(from start: Instant) -> CheckReport {
        var report = self
        for place in report.violations.indices {
            report.violations[place].at = Instant(nanoseconds: report.violations[place].at.nanoseconds - start.nanoseconds)
        }
        return report
    }
}
