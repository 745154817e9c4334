import Hiredis
import InterlockCore
import InterlockJudge

/// Takes from limits, for itself or for tenants, and waits for its turn or not.
final class LimitClient: ServiceClient {
    override func act() {
        let place = Int.random(in: services.indices, using: &random)
        guard !world.profile.services[place].limits.isEmpty else { return rest() }
        if random.happens(0.02) { return tell(["LIMIT.PEEK", services[place]]) { [self] _ in rest() } }
        let cost: Int64 = random.happens(0.1) ? Int64.random(in: 2...3, using: &random) : 1
        let subject = world.profile.habits.tenant(&random)
        let wait = world.profile.habits.wait(upTo: 1500, &random)
        var words = ["LIMIT.TAKE", services[place]]
        if cost != 1 { words += ["COST", "\(cost)"] }
        if let subject { words += ["SUBJECT", "t\(subject)"] }
        if wait > 0 { words += ["WAIT", "\(wait)"] }
        let operation = Operation.take(service: firstService + place, cost: cost, subject: subject, wait: wait)
        if wait > 0, random.happens(0.05) {
            plan(after: .milliseconds(Int64.random(in: 1...wait, using: &random))) { [self] in
                hangUp()
                // Also what the end of its call has planned.
                forgetPlans()
                rest()
            }
        }
        ask([(number, operation)], words) { reply in
            guard let numbers = reply.array?.compactMap(\.integer), numbers.count == 5 else { return [.failed(code: "?")] }
            return [
                numbers[0] == 0
                    ? .done(.taken(limit: numbers[1], remaining: numbers[2], resetAfter: numbers[4]))
                    : .refused(.limited(retryAfter: numbers[3]))
            ]
        } completion: { [self] _ in
            forgetPlans()
            rest()
        }
    }
}
