internal import Interlock
internal import InterlockCore

extension BreakerRoom {
    /// Looks after services apart from their callers, as the outage monitor does.
    /// - Parameter isWell: what a probe would find now.
    func startProbes(_ isWell: @escaping (SimulatedService) -> Bool) {
        for desk in desks {
            guard let probe = desk.service.definition.probe else { continue }
            // Of a fleet the first sidecar is elected; while it is down nobody probes, and what it found lapses.
            guard probe.origin == .all || sidecar.number == 0 else { continue }
            let watch = OutageWatch(unhealthyAfter: probe.unhealthyAfter, healthyAfter: probe.healthyAfter)
            planProbe(of: desk, watch, isWell)
        }
    }

    private func planProbe(of desk: Desk, _ watch: OutageWatch, _ isWell: @escaping (SimulatedService) -> Bool) {
        let interval = desk.service.definition.probe?.interval.wholeMilliseconds ?? 0
        sidecar.timer(at: now.advanced(byMilliseconds: interval)) { [unowned self] in
            var watch = watch
            let snapshot = desk.breaker.snapshot
            let isOpenByOutage = snapshot.state != .closed && snapshot.cause == BreakerCause.outage.rawValue
            guard let finding = watch.saw(isWell(desk.service) ? .good : .bad("down"), isOpenByOutage: isOpenByOutage) else {
                return planProbe(of: desk, watch, isWell)
            }
            outage(desk, finding) { [self] in
                watch.told(finding)
                planProbe(of: desk, watch, isWell)
            }
        }
    }

    /// What was found out. While Redis is away an outage opens the breaker for this sidecar alone.
    private func outage(_ desk: Desk, _ finding: OutageFinding, told: @escaping () -> Void) {
        guard let probe = desk.service.definition.probe else { return }
        let quorum = probe.origin == .all ? sidecars() / 2 + 1 : nil
        let lapse = probe.outageLapse.wholeMilliseconds
        let operation: BreakerOperation =
            switch finding {
            case .down(let reason): .down(reason: reason, lapse: lapse, quorum: quorum)
            case .up:
                .up(
                    expect: desk.breaker.snapshot.generation, isFollowedByTrial: probe.isFollowedByTrial, quorum: quorum)
            }
        run(operation, at: desk) { [self] result in
            switch (finding, result) {
            case (.up, _): desk.breaker.recoverAlone(from: .outage)
            case (.down, .failure): desk.breaker.tripAlone(.outage, forMilliseconds: lapse, now: now)
            case (.down, .success): break
            }
            told()
        }
    }
}
