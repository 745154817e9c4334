internal import Interlock
internal import InterlockCore

/// A client of breakers: asks for a permit, makes the call, and reports what became of it. Some never do, or too late.
final class BreakerClient: ServiceCaller {
    private unowned let crowd: BreakerCrowd

    init(crowd: BreakerCrowd, fleet: SimulatedFleet) {
        self.crowd = crowd
        super.init(fleet: fleet) { [unowned crowd] in crowd.isStopping }
    }

    private var habits: BreakerCrowd.Habits { crowd.habits }

    override func call() {
        guard connect(wandering: habits.wanders) else { return think(50...100) }
        let service = crowd.simulated[world.pick(crowd.simulated.count)]
        // Those who wait through a pause of the limit are not simulated.
        let mayWait = service.definition.onLimit.action != .trip
        let wait = mayWait && world.happens(habits.waits) ? world.draw(1...habits.wait) : 0
        invoke(.permit(service: crowd.number(of: service), wait: wait))
        connection?.ask { sidecar, answer -> (() -> Void)? in
            sidecar.room(PermitRoom.self)?.acquire(service, wait: wait, answer: answer)
        } completion: { [unowned self] (result: Result<PermitRoom.Answer, ClientConnection.Closed>) in
            switch result {
            case .success(.granted(let id, let state)):
                let permit = crowd.nextPermit()
                end(.done(.permitted(permit, state: state)))
                use(service, id: id, permit)
            case .success(.open(let retryAfter)):
                end(.refused(.open(retryAfter: retryAfter)))
                // Some come back just then.
                think(retryAfter > 0 && world.happens(0.3) ? retryAfter...retryAfter : habits.thinking)
            case .success(.limited(let retryAfter)):
                end(.refused(.limited(retryAfter: retryAfter)))
                think(habits.thinking)
            case .success(.failed(let code)):
                end(.failed(code: code))
                think(1...100)
            case .failure:
                end(.unknown(reason: "closed"))
                think(1...100)
            }
        }
        mayVanish(habits.vanishes, within: max(wait, 1), thinking: habits.thinking)
    }

    private func use(_ service: SimulatedService, id: String, _ permit: PermitNumber) {
        if world.happens(habits.forgets) { return think(habits.thinking) }
        let report = crowd.upstreams[service.index].call()
        var duration = report.latencyMilliseconds ?? 0
        if world.happens(habits.overstays) {
            duration += world.draw(0...2 * service.definition.permitLifetime.wholeMilliseconds)
        }
        world.schedule(after: duration * SimulatedWorld.millisecond + world.draw(0...SimulatedWorld.millisecond)) {
            [unowned self] in
            tell(service, id: id, permit, report)
        }
    }

    private func tell(_ service: SimulatedService, id: String, _ permit: PermitNumber, _ report: OutcomeReport) {
        // A permit is known to the sidecar that gave it.
        guard connection?.isOpen ?? false else { return think(habits.thinking) }
        let isOK = service.definition.breaker.judged(report.outcome, status: report.status) != .error
        invoke(.report(service: crowd.number(of: service), permit: permit, isOK: isOK))
        connection?.ask { sidecar, answer -> (() -> Void)? in
            sidecar.room(PermitRoom.self)?.report(permit: id, report, answer: answer)
            return nil
        } completion: { [unowned self] (result: Result<PermitRoom.ReportAnswer, ClientConnection.Closed>) in
            switch result {
            case .success(.state(let state)): end(.done(.reported(state: state)))
            case .success(.failed(let code)): end(.failed(code: code))
            case .failure: end(.unknown(reason: "closed"))
            }
            think(habits.thinking)
        }
    }
}
