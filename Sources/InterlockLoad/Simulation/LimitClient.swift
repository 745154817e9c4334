internal import InterlockCore

/// A client of limits: takes from one, now and then more than one at a time, or waits for its turn.
final class LimitClient: ServiceCaller {
    private unowned let crowd: LimitCrowd

    init(crowd: LimitCrowd, fleet: SimulatedFleet) {
        self.crowd = crowd
        super.init(fleet: fleet) { [unowned crowd] in crowd.isStopping }
    }

    private var habits: LimitCrowd.Habits { crowd.habits }

    override func call() {
        guard connect(wandering: habits.wanders) else { return think(50...100) }
        let service = crowd.simulated[world.pick(crowd.simulated.count)]
        let needsSubject = !service.definition.limits.contains { !$0.isPerSubject }
        let subject = needsSubject || world.happens(0.5) ? world.pick(4) : nil
        let cost = world.happens(0.85) ? 1 : world.draw(1...3)
        let wait = world.happens(habits.waits) ? world.draw(habits.wait) : 0
        invoke(.take(service: crowd.number(of: service), cost: cost, subject: subject, wait: wait))
        connection?.ask { sidecar, answer -> (() -> Void)? in
            guard let room = sidecar.room(LimitRoom.self) else { return nil }
            let id = room.ask(service, cost: cost, subject: subject.map { "s\($0)" }, wait: wait) { decision, _ in
                answer(decision)
            }
            return { room.cancel(id, of: service) }
        } completion: { [unowned self] (result: Result<LimitRoom.Answer, ClientConnection.Closed>) in
            ended(result)
        }
        mayVanish(habits.vanishes, within: wait, thinking: habits.thinking)
    }

    private func ended(_ result: Result<LimitRoom.Answer, ClientConnection.Closed>) {
        switch result {
        case .success(.decided(let answer)):
            guard let retryAfter = answer.retryAfter else {
                end(.done(.taken(limit: answer.limit, remaining: answer.remaining, resetAfter: answer.resetAfter)))
                return think(habits.thinking)
            }
            end(.refused(.limited(retryAfter: retryAfter)))
            // Some do as they are told, and come back just then.
            think(retryAfter > 0 && retryAfter < 5000 && world.happens(0.3) ? retryAfter...retryAfter : habits.thinking)
        case .success(.failed(let code)):
            end(.failed(code: code))
            think(1...100)
        case .failure:
            end(.unknown(reason: "closed"))
            think(1...100)
        }
    }
}
