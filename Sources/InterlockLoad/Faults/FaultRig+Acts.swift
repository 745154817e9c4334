internal import Hiredis
internal import InterlockProcesses

extension FaultRig {
    /// How long Redis may take to end, and a client to vanish.
    private static let patience = Duration.seconds(30)
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
            try await finishing(within: Self.patience, "\(clients) clients vanish") { await vanish(clients) }
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
    func mend(_ act: FaultAct) async throws {
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
        case .partition(let sidecar, _), .delay(let sidecar, _, _), .trickle(let sidecar, _, _):
            await fleet.proxies[sidecar].set(.free)
        case .clock(let seconds) where seconds < 0:
            try await fleet.clock?.jump(bySeconds: -seconds, of: fleet.redis)
        case .redisWipe(.flushed), .reset, .clock, .vanish: break
        }
    }

    private func restart(keepingData: Bool) async throws {
        try await finishing(within: Self.restartPatience, "Redis serves again") { [server = fleet.server] in
            try await server.restart(keepingData: keepingData)
        }
    }

    private func redis(_ expectation: String, _ act: @escaping @Sendable (RedisServer) async -> Void) async throws {
        try await finishing(within: Self.patience, "Redis \(expectation)") { [server = fleet.server] in await act(server) }
    }

    /// Past all proxies.
    private func ask(_ words: [String]) async throws {
        let client = RedisClient(configuration: fleet.redis)
        let outcome: Result<RedisReply, any Error>
        do {
            try await client.connect()
            outcome = .success(try await client.send(AnyCommand(words)))
        } catch {
            outcome = .failure(error)
        }
        await client.close()
        _ = try outcome.get()
    }
}
