internal import InterlockJudge
internal import InterlockCore

extension LoadClient {
    /// Makes the call that was permitted: it takes its time, and then its outcome is reported.
    func call(_ service: Int, permit: PermitNumber, id: String, now: Instant) {
        let length = engine.random.duration(in: engine.plan.hold).nanosecondsRounded
        let end = Instant(nanoseconds: now.nanoseconds + length)
        guard end > now else { return report(service, permit: permit, id: id, due: end) }
        plan(at: end) { [self] in report(service, permit: permit, id: id, due: end) }
    }

    private func report(_ service: Int, permit: PermitNumber, id: String, due: Instant) {
        guard !engine.random.happens(engine.plan.conduct.leavesUnreported) else { return becomeFree() }
        let isOK = !engine.callFails(service)
        ask(
            .report(service: service, permit: permit, isOK: isOK),
            .report(service: engine.name(ofService: service), permit: id, isOK: isOK), due: due)
    }

    func callProxy(_ service: Int, due: Instant) {
        guard let door = engine.proxy else { return becomeFree() }
        let operation = Operation.proxied(service: service)
        isProxying = true
        engine.invoked(operation, by: self)
        door.get(service, sidecar: sidecar, timeout: engine.patience) { [self] ending in
            isProxying = false
            engine.ended(operation, ending, due: due, by: self)
            becomeFree()
        }
    }
}
