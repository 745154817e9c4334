internal import CoreMetrics
internal import InterlockCore

/// Those who wait: for a place, or through a pause of the service.
extension PermitCoordinator {
    // MARK: Places

    /// Gives free places to those who wait for one, and ends the waits that are over.
    func settlePlaces(of service: GuardedService) {
        // What a settlement itself sets free is seen by its next round.
        guard service.bulkhead.waitingCount > 0, !service.isSettlingPlaces else { return }
        service.isSettlingPlaces = true
        defer { service.isSettlingPlaces = false }
        let now = runtime.time.now()
        while true {
            let settlement = service.bulkhead.settle(now: now)
            if settlement.admitted.isEmpty, settlement.expired.isEmpty { break }
            let admitted = settlement.admitted.compactMap { waiting[$0] }
            for request in admitted { request.hasPlace = true }
            for request in settlement.expired.compactMap({ waiting[$0] }) {
                release(request)
                refuseBusy(request, now: now)
            }
            for request in admitted where !request.isOver { askBreaker(request, now: now) }
        }
        planPlaces(of: service)
    }

    func planPlaces(of service: GuardedService) {
        guard let deadline = service.bulkhead.nextDeadline else { return }
        let next = min(deadline, service.permits.nextLapse ?? deadline)
        service.placeAlarm.set(at: next, on: runtime.deadlines) { [unowned self, unowned service] in
            dropLapsed(of: service, now: runtime.time.now())
            settlePlaces(of: service)
            planPlaces(of: service)
        }
    }

    // MARK: Pauses

    /// A newcomer stands behind those who wait through a pause.
    func lineUp(_ request: PermitRequest, now: Instant) {
        let service = request.service
        if pause(request, earliest: now, now: now) { return resume(service) }
        let gate = service.gate(now: now)
        refuse(request, gate.reason, retryAfter: gate.retryMilliseconds(now: now), now: now)
    }

    /// It waits through a pause. `false`: it cannot.
    func pause(_ request: PermitRequest, earliest: Instant, now: Instant) -> Bool {
        let service = request.service
        guard let deadline = deadline(of: request),
            service.paused.insert(
                request.number, of: request.subject, isBack: request.hasWaited, deadline: deadline, earliest: earliest)
        else { return false }
        request.stage = .pause
        request.hasWaited = true
        planResumption(of: service, now: now)
        return true
    }

    /// Sends those who waited through a pause when it is over, and refuses those for whom it lasts too long.
    func resume(_ service: GuardedService) {
        guard !service.paused.isEmpty else { return }
        let now = runtime.time.now()
        let gate = service.gate(now: now)
        let decision = service.paused.decide(gate, now: now)
        for refusal in decision.refused {
            guard let request = waiting[refusal.number] else { continue }
            refuse(request, gate.reason, retryAfter: refusal.retryAfter, now: now)
        }
        for request in decision.sent.compactMap({ waiting[$0] }) where !request.isOver { askBreaker(request, now: now) }
        planResumption(of: service, now: now)
    }

    private func planResumption(of service: GuardedService, now: Instant) {
        guard let next = service.paused.nextWakeUp(service.gate(now: now), now: now) else { return }
        planResumption(of: service, at: next)
    }

    func planResumption(of service: GuardedService, at instant: Instant) {
        service.pauseAlarm.set(at: instant, on: runtime.deadlines) { [unowned self, unowned service] in resume(service) }
    }

    // MARK: Ends

    /// Nobody is left waiting for a place or through a pause.
    func failWaiting(_ service: GuardedService, _ error: InterlockError) {
        for number in service.bulkhead.leaveAll() + service.paused.leaveAll() {
            guard let request = waiting[number] else { continue }
            fail(request, error)
        }
    }

    /// Permits that nobody will report any more do not stay for want of a newcomer.
    func dropLapsed(of services: [GuardedService]) {
        let now = runtime.time.now()
        for service in services {
            dropLapsed(of: service, now: now)
            settlePlaces(of: service)
        }
    }

    /// The configuration changed.
    func reconsider(_ service: GuardedService) {
        settlePlaces(of: service)
        resume(service)
    }
}

extension GuardedService {
    /// Who waits at the limit waits through the pause that the limit makes.
    var pausesAtLimit: Bool {
        definition.onLimit.action == .trip && breaker.snapshot.forced == nil && !breaker.settings.isMetricsOnly
    }

    /// Calls that wait for a place, or through a pause.
    var permitsWaiting: Int { bulkhead.waitingCount + paused.count }

    /// What the breaker does to those who wait.
    func gate(now: Instant) -> PausedCalls.Gate {
        switch breaker.admission(now: now) {
        case .allow: breaker.actingState(now: now) == .closed ? .clear : .trial
        // Another cause's trials are asked for one by one; who gets none is refused.
        case .askForTrial: .clear
        case .refuse(let retryAfter):
            isPausedByLimit(now: now)
                ? .paused(until: now.advanced(byMilliseconds: retryAfter)) : .refusing(retryAfter: retryAfter)
        }
    }

    private func isPausedByLimit(now: Instant) -> Bool {
        if let trip = breaker.ownTrip(now: now) { trip.cause == .limit } else { breaker.isOpenByLimit }
    }
}

extension PausedCalls.Gate {
    fileprivate var reason: PermitAnswer.Reason {
        switch self {
        case .clear, .trial: .limited
        case .paused, .refusing: .open
        }
    }
}

extension InterlockError {
    static let goingDown = InterlockError(.unavailable, "this sidecar is going down")

    static func unconfigured(_ service: String) -> InterlockError {
        InterlockError(.unknownService, "the service \(service) is no longer configured")
    }
}
