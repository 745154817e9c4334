internal import Hiredis
internal import InterlockCore

extension BreakerCoordinator {
    // MARK: The limit

    /// A call met a limit of this service, which has room again after so many milliseconds: before that nobody need try.
    func limitReached(_ service: GuardedService, retryAfter: Int64) {
        let definition = service.definition
        guard definition.onLimit.action == .trip, !definition.breaker.isMetricsOnly, !service.isTripUnderWay else { return }
        let snapshot = service.breaker.snapshot
        // Of what another cause has opened, its trials have the last word: the limit's own way back asks for none.
        guard snapshot.forced == nil,
            snapshot.state == .closed || (snapshot.state == .halfOpen && service.breaker.isOpenByLimit)
        else { return }
        service.isTripUnderWay = true
        let least = Duration.milliseconds(min(retryAfter, Self.longestLimitPause))
        let pause = max(definition.onLimit.pause.lowerBound, least)...max(definition.onLimit.pause.upperBound, least)
        let operation = BreakerOperation.trip(.limit, expect: snapshot.generation, openFor: pause, pause: nil)
        run(operation, on: service) { [self] result in
            service.isTripUnderWay = false
            guard case .failure(let error) = result, error.isUnavailability else { return }
            let range = pause.lowerBound.wholeMilliseconds...pause.upperBound.wholeMilliseconds
            tripAlone(service, .limit, forMilliseconds: .random(in: range, using: &runtime.entropy))
        }
    }

    /// The limit grants again: a breaker that only the limit opened has nothing more to wait for.
    func limitHasRoom(_ service: GuardedService, isAgain: Bool = false) {
        guard service.breaker.isOpenByLimit, !service.isTripUnderWay, actingState(of: service) == .halfOpen else { return }
        service.isTripUnderWay = true
        run(.close(.limit, expect: service.breaker.snapshot.generation), on: service) { [self] result in
            service.isTripUnderWay = false
            // The breaker half-opened in the meantime, under a new generation.
            if case .success(let reply) = result, !reply.isDone, !isAgain { limitHasRoom(service, isAgain: true) }
        }
    }

    // MARK: Forced states

    /// - Parameter milliseconds: for how long; `nil`: until `AUTO`.
    func force(
        _ service: GuardedService, to state: BreakerSnapshot.Forced?, forMilliseconds milliseconds: Int64?, reason: String,
        by: String, completion: Completion<Result<BreakerStatus, InterlockError>>
    ) {
        guard state != nil || milliseconds == nil else {
            completion(.failure(InterlockError(.invalid, "AUTO has no end: force a state FOR a time, or AUTO without")))
            return
        }
        guard reason.utf8.count <= BreakerSnapshot.longestReason else {
            completion(
                .failure(
                    InterlockError(
                        .invalid,
                        "reason: expected at most \(BreakerSnapshot.longestReason) bytes of UTF-8, got \(reason.utf8.count)")))
            return
        }
        if let wrong = BreakerSnapshot.controlCharacter(in: reason) {
            let message = "reason: contains \(wrong.codePoint); it is one line, without control characters"
            completion(.failure(InterlockError(.invalid, message)))
            return
        }
        let operation = BreakerOperation.force(
            state, forMilliseconds: milliseconds, reason: reason, known: service.breaker.snapshot.generation)
        run(operation, on: service, by: "\(runtime.id) \(by)") { [self] result in
            completion(result.map { _ in status(of: service) }.mapError(InterlockError.init))
        }
    }

    // MARK: Outages

    /// What the outage monitor has found out. While Redis is away an outage opens the breaker for this sidecar alone.
    func outage(
        _ service: GuardedService, _ finding: OutageFinding,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        guard let probe = service.definition.probe else {
            completion(.failure(InterlockError(.invalid, "the service \(service.name) has no probe: it has no outages")))
            return
        }
        let majority = probe.origin == .all ? sidecars() / 2 + 1 : nil
        let lapse = probe.outageLapse.wholeMilliseconds
        let generation = service.breaker.snapshot.generation
        func down(_ reason: String, quorum: Int?, isSeconding: Bool = false) -> BreakerOperation {
            .down(reason: Self.cut(reason), lapse: lapse, quorum: quorum, isSeconding: isSeconding, known: generation)
        }
        let operation: BreakerOperation
        switch finding {
        case .up:
            operation = .up(expect: generation, isFollowedByTrial: probe.isFollowedByTrial, quorum: majority)
        case _ where service.definition.breaker.isMetricsOnly, .seconded where majority != nil || sidecars() < 2:
            completion(.success(actingState(of: service)))
            return
        case .down(let reason): operation = down(reason, quorum: majority)
        case .suspected(let reason): operation = down(reason, quorum: majority ?? (sidecars() < 2 ? nil : 2))
        case .seconded(let reason): operation = down(reason, quorum: 2, isSeconding: true)
        }
        run(operation, on: service) { [self] result in
            if case .failure(let error) = result, !error.isUnavailability {
                completion(.failure(InterlockError(error)))
                return
            }
            switch (finding, result) {
            case (.up, _): service.breaker.recoverAlone(from: .outage)
            case (.seconded, _), (_, .success): break
            case (.down, .failure), (.suspected, .failure):
                if service.breaker.forced(now: runtime.time.now()) == nil { tripAlone(service, .outage, forMilliseconds: lapse) }
            }
            completion(.success(actingState(of: service)))
        }
    }

    private static func cut(_ words: String) -> String {
        let reason = BreakerSnapshot.oneLine(words)
        guard reason.utf8.count > BreakerSnapshot.longestReason else { return reason }
        var cut = reason.prefix(BreakerSnapshot.longestReason)
        while cut.utf8.count > BreakerSnapshot.longestReason { cut.removeLast() }
        return String(cut)
    }
}
