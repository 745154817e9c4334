internal import FoundationEssentials
internal import Interlock
internal import InterlockCore
internal import Logging
internal import SidecarListeners
internal import SidecarTelemetry

/// Probes one service at the configured interval while this sidecar is elected, or if every sidecar probes. Probes
/// never overlap.
struct ServiceWatch: Sendable {
    private let service: String
    private let settings: ProbeSettings
    private let probe: Probe
    private let election: ProbeElection?
    private let reporter: OutageReporter
    private let readings: ProbeReadings
    private let metrics: ProbeMetrics
    private let logger: Logger

    private static let clock = ContinuousClock()
    /// The maximum random delay before the first probe, as a fraction of the interval and capped at `maximumJitter`.
    /// The delay keeps sidecars that start together from probing in step.
    private static let maximumJitterFraction = 0.1
    private static let maximumJitter = Duration.seconds(1)
    /// The maximum pause between two elections while Redis is unreachable.
    private static let electionRetryDelay = Duration.milliseconds(250)

    /// Creates a watch that starts to probe in `run`.
    /// - Parameter election: the election of the sidecar that probes; `nil` if every sidecar does.
    init(
        service: String, settings: ProbeSettings, probe: Probe, election: ProbeElection?, reporter: OutageReporter,
        readings: ProbeReadings, logger: Logger
    ) {
        self.service = service
        self.settings = settings
        self.probe = probe
        self.election = election
        self.reporter = reporter
        self.readings = readings
        metrics = ProbeMetrics(service: service)
        var logger = logger
        logger[metadataKey: "service"] = "\(service)"
        self.logger = logger
    }

    /// Runs until the task is cancelled.
    func run() async {
        readings.update(service) { _ in }
        let jitter = min(settings.interval * Self.maximumJitterFraction, Self.maximumJitter)
        // After cancellation, the loops below end immediately.
        try? await Task.sleep(for: jitter * Double.random(in: 0...1), clock: Self.clock)
        if let election {
            await runElections(election)
        } else {
            await runProbeLoop(as: .all)
        }
    }

    // MARK: Election

    private enum ElectionResult {
        /// This sidecar is elected; `immediately` means that the lock was free.
        case elected(Lease, immediately: Bool)
        /// Another sidecar has won the election.
        case otherElected
        /// Redis is unreachable.
        case redisUnreachable
    }

    /// Stands for election, and probes while this sidecar is elected. If Redis stays unreachable, probes for itself.
    private func runElections(_ election: ProbeElection) async {
        var redisDownSince: ContinuousClock.Instant?
        var localWatch: OutageWatch?
        // The state of the probes that found an outage which another sidecar must confirm.
        var suspicion: OutageWatch?
        while !Task.isCancelled {
            // An unreachable Redis must not delay a sidecar that probes for itself.
            let canElect = localWatch == nil ? true : await election.isPossible
            switch canElect ? await runElection(in: election) : .redisUnreachable {
            case .elected(let lease, let immediately):
                (redisDownSince, localWatch) = (nil, nil)
                if !immediately { suspicion = nil }
                logger.log(.probeElected)
                suspicion = await election.whileElected(lease) { [suspicion] in
                    await runProbeLoop(as: .elected, from: suspicion)
                }
                guard suspicion != nil else { continue }
                logger.log(.outageSuspected)
                // The pause gives the other candidates time to be elected. Cancellation ends the loop.
                try? await Task.sleep(
                    for: max(election.candidacyInterval, min(settings.interval, Self.maximumJitter)), clock: Self.clock)
            case .otherElected:
                (redisDownSince, localWatch, suspicion) = (nil, nil, nil)
            case .redisUnreachable:
                suspicion = nil
                let now = Self.clock.now
                let downSince = redisDownSince ?? now
                redisDownSince = downSince
                let fallbackTime = downSince + settings.interval
                guard now >= fallbackTime else {
                    // The pause before the next election. Cancellation ends the loop.
                    try? await Task.sleep(until: min(fallbackTime, now + Self.electionRetryDelay), clock: Self.clock)
                    continue
                }
                var watch = localWatch ?? newWatch
                if localWatch == nil { logger.log(.probeUnelected) }
                await probeOnce(&watch, as: .alone)
                localWatch = watch
                // The configured interval between probes. Cancellation ends the loop.
                try? await Task.sleep(until: now + settings.interval, clock: Self.clock)
            }
        }
    }

    private func runElection(in election: ProbeElection) async -> ElectionResult {
        do {
            if let lease = try await election.campaign(waits: false) { return .elected(lease, immediately: true) }
            readings.update(service) { $0.prober = .another }
            if let lease = try await election.campaign(waits: true) { return .elected(lease, immediately: false) }
            return .otherElected
        } catch {
            logger.log(.electionFailed, ["error": "\(error)"])
            return .redisUnreachable
        }
    }

    // MARK: Probing

    private var newWatch: OutageWatch {
        OutageWatch(unhealthyAfter: settings.unhealthyAfter, healthyAfter: settings.healthyAfter)
    }

    /// Probes at the configured interval.
    /// - Parameter suspicion: the state of earlier probes that found an outage which no other sidecar has confirmed;
    ///   `nil` to start over.
    /// - Returns: the state of the probes if another sidecar must confirm an outage; `nil` if the task was
    ///   cancelled.
    @discardableResult
    private func runProbeLoop(as prober: ProbeReading.Prober, from suspicion: OutageWatch? = nil) async -> OutageWatch? {
        var watch = suspicion ?? newWatch
        while !Task.isCancelled {
            let startedAt = Self.clock.now
            let needsConfirmation = await probeOnce(&watch, as: prober, isConclusive: prober != .elected || suspicion != nil)
            if needsConfirmation { return watch }
            // The remainder of the interval. Cancellation ends the loop.
            try? await Task.sleep(until: startedAt + settings.interval, clock: Self.clock)
        }
        return nil
    }

    /// Probes once and reports the result.
    /// - Parameter isConclusive: whether this sidecar's finding alone may open the breaker.
    /// - Returns: whether this sidecar suspects an outage that another must confirm.
    @discardableResult
    private func probeOnce(_ watch: inout OutageWatch, as prober: ProbeReading.Prober, isConclusive: Bool = true) async -> Bool {
        let startedAt = Self.clock.now
        let finding = await probe.run()
        // After cancellation or the loss of the lease, the finding must not be reported.
        guard !Task.isCancelled else { return false }
        let duration = Self.clock.now - startedAt
        metrics.record(finding, duration: duration)
        let effect = await reporter.effect(service)
        var advice = watch.record(finding, isOpenByOutage: effect == .openByOutage)
        recordReading(finding, duration: duration, watch: watch, prober: prober)
        // An elected prober opens the breaker only if a second sidecar finds the service failing too: the first reports
        // `suspected`, the second `seconded`.
        if !isConclusive, effect == .undecided, case .bad(let reason) = finding {
            advice = advice == nil ? .seconded(reason: reason.description) : .suspected(reason: reason.description)
        }
        guard let advice else { return false }
        do {
            let state = try await reporter.report(service, advice)
            watch.findingReported(advice)
            logger.log(.probeReported, ["finding": "\(advice)", "state": state.rawValue])
            if case .suspected = advice { return await reporter.effect(service) == .undecided }
        } catch {
            guard !Task.isCancelled else { return false }
            logger.log(.probeUnreported, ["error": "\(error)"])
        }
        return false
    }

    /// Logs a finding and updates the reading. A change between good and bad is logged more prominently.
    private func recordReading(
        _ finding: ProbeFinding, duration: Duration, watch: OutageWatch, prober: ProbeReading.Prober
    ) {
        let previousFinding = readings[service]?.lastProbe?.finding
        let newestProbe = ProbeReading.Probe(
            finding: finding, atMilliseconds: Int64(Date.now.timeIntervalSince1970 * 1000), duration: duration)
        readings.update(service) { reading in
            reading = ProbeReading(
                service: service, prober: prober, lastProbe: newestProbe, failureCount: watch.failures,
                successCount: watch.successes)
        }
        switch finding {
        case .good:
            if case .bad = previousFinding { logger.log(.probeGood) }
        case .bad(let reason):
            let isChange = if case .bad = previousFinding { false } else { true }
            logger.log(isChange ? .probeBad : .probeStillBad, ["reason": "\(reason)"])
        case .unjudged(let reason):
            logger.log(.probeUnjudged, ["reason": "\(reason)"])
        }
    }
}
