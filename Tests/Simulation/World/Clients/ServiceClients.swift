import InterlockCore
import InterlockJudge
import RedisClient

/// A client that uses services.
class ServiceClient: ListenerClient {
    /// The number of the first service in the history.
    let firstService: Int
    /// The fleet's services, in the order of their numbers in the history.
    let services: [String]

    init(
        world: WorldState, number: Int, sidecars: Range<Int>, random: SeededRandom, firstService: Int, services: [String],
        clientProtocol: ClientProtocol? = nil
    ) {
        self.firstService = firstService
        self.services = services
        super.init(world: world, number: number, sidecars: sidecars, random: random, clientProtocol: clientProtocol)
    }
}

/// Takes from limits, for itself or for tenants, with or without a wait.
final class LimitClient: ServiceClient {
    override func act() {
        let index = Int.random(in: services.indices, using: &random)
        guard !world.profile.services[index].limits.isEmpty else { return pauseThenAct() }
        if random.happens(0.02) { return inspect(index) }
        let cost: Int64 = random.happens(0.1) ? Int64.random(in: 2...3, using: &random) : 1
        let subject = world.profile.serviceBehavior.tenant(&random)
        let waitMilliseconds = world.profile.serviceBehavior.waitMilliseconds(upTo: 1500, &random)
        var arguments = ["LIMIT.TAKE", services[index]]
        if cost != 1 { arguments += ["COST", "\(cost)"] }
        if let subject { arguments += ["SUBJECT", "t\(subject)"] }
        if waitMilliseconds > 0 { arguments += ["WAIT", "\(waitMilliseconds)"] }
        let operation = Operation.take(
            service: firstService + index, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds)
        if waitMilliseconds > 0, random.happens(0.05) {
            schedule(after: .milliseconds(Int64.random(in: 1...waitMilliseconds, using: &random))) { [self] in
                hangUp()
                // Also cancels everything that the call scheduled when it ended.
                cancelScheduled()
                pauseThenAct()
            }
        }
        guard shouldPipeline() else { return perform(operation, arguments, times: 1) }
        // A refusal that waits for an earlier reply would be outdated.
        pipelined { perform(operation, arguments, times: waitMilliseconds > 0 ? 1 : LockClient.maximumLocks) }
    }

    /// Sends a query that changes nothing.
    private func inspect(_ index: Int) {
        // The sidecar answers `LIMIT.PEEK` over HTTP in a task, and tasks do not run in simulated time.
        sendUnrecorded(clientProtocol == .http ? ["PING", "look"] : ["LIMIT.PEEK", services[index]]) { [self] _ in pauseThenAct()
        }
    }

    /// Sends several copies of a call together, and continues when all have ended.
    private func perform(_ operation: Operation, _ arguments: [String], times: Int) {
        var remainingCount = times
        for index in 0..<times {
            perform([(number + index, operation)], arguments) { reply in
                guard let numbers = reply.array?.compactMap(\.integer), numbers.count == 5 else { return [.failed(code: "?")] }
                return [
                    numbers[0] == 0
                        ? .done(.taken(limit: numbers[1], remaining: numbers[2], resetAfterMilliseconds: numbers[4]))
                        : .refused(.limited(retryAfterMilliseconds: numbers[3]))
                ]
            } completion: { [self] _ in
                remainingCount -= 1
                guard remainingCount == 0 else { return }
                cancelScheduled()
                pauseThenAct()
            }
        }
    }
}

/// Acquires permits, makes calls and reports most of the outcomes.
final class PermitClient: ServiceClient {
    override func act() {
        let index = Int.random(in: services.indices, using: &random)
        let subject = world.profile.serviceBehavior.tenant(&random)
        let waitMilliseconds = world.profile.serviceBehavior.waitMilliseconds(
            upTo: world.profile.serviceBehavior.maximumPermitWaitMilliseconds, &random)
        var arguments = ["PERMIT.ACQUIRE", services[index]]
        if let subject { arguments += ["SUBJECT", "t\(subject)"] }
        if waitMilliseconds > 0 { arguments += ["WAIT", "\(waitMilliseconds)"] }
        let service = firstService + index
        var granted: (number: PermitNumber, id: String)?
        let operation = Operation.permit(service: service, subject: subject, waitMilliseconds: waitMilliseconds)
        perform([(number, operation)], arguments) { [world] reply in
            guard let parts = reply.array, parts.count == 4, let word = parts[1].text,
                let state = parts[2].text.flatMap(BreakerSnapshot.State.init),
                let retryAfterMilliseconds = parts[3].integer
            else { return [.failed(code: "?")] }
            if parts[0].integer == 1 {
                let permit = world.nextPermit()
                granted = (permit, word)
                return [.done(.permitted(permit, state: state))]
            }
            switch word {
            case "limited": return [.refused(.limited(retryAfterMilliseconds: retryAfterMilliseconds))]
            case "open": return [.refused(.open(retryAfterMilliseconds: retryAfterMilliseconds))]
            case "busy": return [.refused(.busy(retryAfterMilliseconds: retryAfterMilliseconds))]
            default: return [.refused(.other(word))]
            }
        } completion: { [self] _ in
            guard let (permit, id) = granted else { return pauseThenAct() }
            call(index, permit: permit, id: id)
        }
    }

    /// Makes the permitted call, and usually reports its outcome.
    private func call(_ index: Int, permit: PermitNumber, id: String) {
        let outcome = world.upstreams[index].call(random: &random)
        schedule(after: .milliseconds(outcome.durationMilliseconds)) { [self] in
            guard !random.happens(0.04) else { return pauseThenAct() }
            var arguments = [
                "PERMIT.REPORT", services[index], id, outcome.isOK ? "OK" : "ERROR", "LATENCY",
                "\(outcome.durationMilliseconds)",
            ]
            if let retryAfterMilliseconds = outcome.retryAfterMilliseconds {
                arguments += ["STATUS", "503", "RETRYAFTER", "\(retryAfterMilliseconds)"]
            }
            let operation = Operation.report(service: firstService + index, permit: permit, isOK: outcome.isOK)
            perform([(number, operation)], arguments) { reply in
                guard let state = reply.text.flatMap(BreakerSnapshot.State.init) else { return [.failed(code: "?")] }
                return [.done(.reported(state: state))]
            } completion: { [self] _ in
                pauseThenAct()
            }
        }
    }
}
