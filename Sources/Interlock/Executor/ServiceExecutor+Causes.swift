internal import InterlockCore
internal import RedisClient

extension ServiceExecutor {
    // MARK: The limit

    /// Opens the breaker after a limit of the whole service refused a call, if the service is configured to trip on
    /// limits.
    /// - Parameter retryAfterMilliseconds: the time in milliseconds until the limit has room again.
    func tripOnLimit(_ service: GuardedService, retryAfterMilliseconds: Int64) {
        guard let pause = service.gate.beginLimitTrip(retryAfterMilliseconds: retryAfterMilliseconds) else { return }
        let generation = service.gate.breaker.snapshot.generation
        run(.trip(.limit, expectedGeneration: generation, openFor: pause, pauseMilliseconds: nil), on: service) { [self] result in
            service.gate.breakerChangeEnded()
            guard case .failure(let error) = result, error.isUnavailability else { return }
            let range = pause.lowerBound.wholeMilliseconds...pause.upperBound.wholeMilliseconds
            tripLocally(service, .limit, forMilliseconds: .random(in: range, using: &runtime.entropy))
        }
    }

    /// Closes the breaker if a limit opened it, because the limits have room again.
    func closeAfterLimit(_ service: GuardedService, isRetry: Bool = false) {
        guard service.gate.beginClosingAfterLimit(now: runtime.time.now()) else { return }
        run(.close(.limit, expectedGeneration: service.gate.breaker.snapshot.generation), on: service) { [self] result in
            service.gate.breakerChangeEnded()
            // The breaker may have half-opened in the meantime, under a new generation: try once more.
            if case .success(let reply) = result, !reply.tookEffect, !isRetry { closeAfterLimit(service, isRetry: true) }
        }
    }

    // MARK: Forced states

    /// Forces a breaker's state for the whole fleet; `nil` ends the forced state.
    /// - Parameter milliseconds: the duration of the forced state; `nil` for no end.
    func force(
        _ service: GuardedService, to state: BreakerSnapshot.Forced?, forMilliseconds milliseconds: Int64?, reason: String,
        by: String, completion: Completion<Result<BreakerStatus, InterlockError>>
    ) {
        guard state != nil || milliseconds == nil else {
            completion(.failure(InterlockError(.invalid, "a duration needs a state to force: open, closed or disabled")))
            return
        }
        guard reason.utf8.count <= BreakerSnapshot.maximumReasonLength else {
            completion(
                .failure(
                    InterlockError(
                        .invalid,
                        "reason: expected at most \(BreakerSnapshot.maximumReasonLength) bytes of UTF-8, got \(reason.utf8.count)"
                    )))
            return
        }
        if let controlCharacter = BreakerSnapshot.controlCharacter(in: reason) {
            let message =
                "reason: expected one line without control characters, but it contains \(controlCharacter.readableName)"
            completion(.failure(InterlockError(.invalid, message)))
            return
        }
        let operation = BreakerOperation.force(
            state, durationMilliseconds: milliseconds, reason: reason, knownGeneration: service.gate.breaker.snapshot.generation)
        run(operation, on: service, by: "\(runtime.id) \(by)") { [self] result in
            completion(result.map { _ in status(of: service) }.mapError(InterlockError.init))
        }
    }

    // MARK: Outages

    /// Applies a finding of the outage monitor. Without Redis, an outage opens the breaker for this sidecar only.
    func apply(
        _ finding: OutageFinding, to service: GuardedService,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        guard let probe = service.gate.definition.probe else {
            completion(.failure(InterlockError(.invalid, "the service \"\(service.name)\" has no probe; configure one")))
            return
        }
        let majority = probe.origin == .all ? runtime.sidecarCount / 2 + 1 : nil
        let lifetimeMilliseconds = probe.outageLifetime.wholeMilliseconds
        let generation = service.gate.breaker.snapshot.generation
        func down(_ reason: String, quorum: Int?, isConfirmation: Bool = false) -> BreakerOperation {
            .down(
                reason: Self.truncated(reason), lifetimeMilliseconds: lifetimeMilliseconds, quorum: quorum,
                isConfirmation: isConfirmation, knownGeneration: generation)
        }
        let operation: BreakerOperation
        switch finding {
        case .up:
            operation = .up(expectedGeneration: generation, isFollowedByTrial: probe.isFollowedByTrial, quorum: majority)
        case _ where service.gate.definition.breaker.isMetricsOnly,
            .seconded where majority != nil || runtime.sidecarCount < 2:
            completion(.success(actingState(of: service)))
            return
        case .down(let reason): operation = down(reason, quorum: majority)
        case .suspected(let reason): operation = down(reason, quorum: majority ?? (runtime.sidecarCount < 2 ? nil : 2))
        case .seconded(let reason): operation = down(reason, quorum: 2, isConfirmation: true)
        }
        run(operation, on: service) { [self] result in
            if case .failure(let error) = result, !error.isUnavailability {
                completion(.failure(InterlockError(error)))
                return
            }
            switch (finding, result) {
            case (.up, _): service.gate.breaker.recoverLocally(from: .outage)
            case (.seconded, _), (_, .success): break
            case (.down, .failure), (.suspected, .failure):
                if service.gate.breaker.forced(now: runtime.time.now()) == nil {
                    tripLocally(service, .outage, forMilliseconds: lifetimeMilliseconds)
                }
            }
            completion(.success(actingState(of: service)))
        }
    }

    private static func truncated(_ reason: String) -> String {
        let line = BreakerSnapshot.oneLine(reason)
        guard line.utf8.count > BreakerSnapshot.maximumReasonLength else { return line }
        var truncated = line.prefix(BreakerSnapshot.maximumReasonLength)
        while truncated.utf8.count > BreakerSnapshot.maximumReasonLength { truncated.removeLast() }
        return String(truncated)
    }
}
