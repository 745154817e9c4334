internal import FoundationEssentials
internal import Interlock
internal import InterlockCore
internal import Logging
internal import SidecarListeners
internal import SidecarTelemetry

/// Probes one service for as long as its task lives: at its pace, when it is this sidecar's turn, never two at a time.
struct ServiceWatch: Sendable {
    private let service: String
    private let settings: ProbeSettings
    private let probe: Probe
    private let election: ProbeElection?
    private let reports: OutageReports
    private let readings: ProbeReadings
    private let metrics: ProbeMetrics
    private let logger: Logger

    private static let clock = ContinuousClock()
    /// Sidecars that start together do not probe in step: of an interval, and not more than this.
    private static let greatestJitter = 0.1
    private static let longestJitter = Duration.seconds(1)
    /// Between two attempts at an election while Redis is away.
    private static let longestPause = Duration.milliseconds(250)

    /// - Parameter election: who probes; `nil`: every sidecar does.
    init(
        service: String, settings: ProbeSettings, probe: Probe, election: ProbeElection?, reports: OutageReports,
        readings: ProbeReadings, logger: Logger
    ) {
        self.service = service
        self.settings = settings
        self.probe = probe
        self.election = election
        self.reports = reports
        self.readings = readings
        metrics = ProbeMetrics(service: service)
        var logger = logger
        logger[metadataKey: "service"] = "\(service)"
        self.logger = logger
    }

    /// Runs until the task is cancelled.
    func run() async {
        readings.update(service) { _ in }
        let jitter = min(settings.interval * Self.greatestJitter, Self.longestJitter)
        // A fleet that starts at once does not probe in step. Cancelled, the loops below end at once.
        try? await Task.sleep(for: jitter * Double.random(in: 0...1), clock: Self.clock)
        if let election {
            await takeTurns(election)
        } else {
            await probeOnAndOn(as: .all)
        }
    }

    // MARK: Whose turn it is

    private enum Turn {
        /// `atOnce`: nobody else wanted it.
        case elected(Lease, atOnce: Bool)
        /// Another sidecar is.
        case otherElected
        /// Redis is away.
        case redisAway
    }

    private func takeTurns(_ election: ProbeElection) async {
        var away: ContinuousClock.Instant?
        var alone: OutageWatch?
        // What this sidecar has found bad, and left to another to confirm.
        var suspicion: OutageWatch?
        while !Task.isCancelled {
            // While it probes alone it must not be held up by a Redis that is away.
            let mayAsk = alone == nil ? true : await election.isPossible
            switch mayAsk ? await turn(in: election) : .redisAway {
            case .elected(let lease, let atOnce):
                (away, alone) = (nil, nil)
                if !atOnce { suspicion = nil }
                logger.log(.probeElected)
                suspicion = await election.whileElected(lease) { [suspicion] in await probeOnAndOn(as: .elected, from: suspicion)
                }
                guard suspicion != nil else { continue }
                logger.log(.probeDoubted)
                // Until the others in the queue have had their turn. Cancelled, the loop ends.
                try? await Task.sleep(for: max(election.turnTime, min(settings.interval, Self.longestJitter)), clock: Self.clock)
            case .otherElected:
                (away, alone, suspicion) = (nil, nil, nil)
            case .redisAway:
                suspicion = nil
                let now = Self.clock.now
                let since = away ?? now
                away = since
                let patience = since + settings.interval
                guard now >= patience else {
                    // Before it stands for election again. Cancelled, the loop ends.
                    try? await Task.sleep(until: min(patience, now + Self.longestPause), clock: Self.clock)
                    continue
                }
                var watch = alone ?? newWatch
                if alone == nil { logger.log(.probeUnelected) }
                await probeOnce(&watch, as: .alone)
                alone = watch
                // The configured interval between probes, here as below.
                try? await Task.sleep(until: now + settings.interval, clock: Self.clock)
            }
        }
    }

    private func turn(in election: ProbeElection) async -> Turn {
        do {
            if let lease = try await election.stand(waits: false) { return .elected(lease, atOnce: true) }
            readings.update(service) { $0.prober = .another }
            if let lease = try await election.stand(waits: true) { return .elected(lease, atOnce: false) }
            return .otherElected
        } catch {
            logger.log(.electionFailed, ["error": "\(error)"])
            return .redisAway
        }
    }

    // MARK: Probing

    private var newWatch: OutageWatch {
        OutageWatch(unhealthyAfter: settings.unhealthyAfter, healthyAfter: settings.healthyAfter)
    }

    /// - Parameter suspicion: what it found before, and nobody was there to confirm; `nil`: it begins anew.
    /// - Returns: what it has found, when another sidecar is to confirm it; `nil`: the task was cancelled.
    @discardableResult
    private func probeOnAndOn(as prober: ProbeReading.Prober, from suspicion: OutageWatch? = nil) async -> OutageWatch? {
        var watch = suspicion ?? newWatch
        while !Task.isCancelled {
            let began = Self.clock.now
            let isDoubted = await probeOnce(&watch, as: prober, isOnlyOne: prober != .elected || suspicion != nil)
            if isDoubted { return watch }
            // What is left of the interval. Cancelled, the loop ends.
            try? await Task.sleep(until: began + settings.interval, clock: Self.clock)
        }
        return nil
    }

    /// - Returns: whether it suspects an outage that another sidecar is to confirm.
    @discardableResult
    private func probeOnce(_ watch: inout OutageWatch, as prober: ProbeReading.Prober, isOnlyOne: Bool = true) async -> Bool {
        let began = Self.clock.now
        let finding = await probe.ask()
        // What was found on the way out, or after the turn was over, is nobody's news.
        guard !Task.isCancelled else { return false }
        let duration = Self.clock.now - began
        metrics.record(finding, duration: duration)
        let standing = await reports.standing(service)
        var advice = watch.saw(finding, isOpenByOutage: standing == .openByOutage)
        note(finding, duration: duration, watch: watch, prober: prober)
        if !isOnlyOne, standing == .undecided, case .bad(let reason) = finding {
            advice = advice == nil ? .seconded(reason: reason.description) : .suspected(reason: reason.description)
        }
        guard let advice else { return false }
        do {
            let state = try await reports.report(service, advice)
            watch.told(advice)
            logger.log(.probeReported, ["finding": "\(advice)", "state": state.rawValue])
            if case .suspected = advice { return await reports.standing(service) == .undecided }
        } catch {
            guard !Task.isCancelled else { return false }
            logger.log(.probeUnreported, ["error": "\(error)"])
        }
        return false
    }

    /// For the log and the reading; a change is worth a line that everybody sees.
    private func note(_ finding: ProbeFinding, duration: Duration, watch: OutageWatch, prober: ProbeReading.Prober) {
        let before = readings[service]?.last?.finding
        let now = ProbeReading.Probe(
            finding: finding, atMilliseconds: Int64(Date.now.timeIntervalSince1970 * 1000), duration: duration)
        readings.update(service) { reading in
            reading = ProbeReading(
                service: service, prober: prober, last: now, failures: watch.failures, successes: watch.successes)
        }
        switch finding {
        case .good:
            if case .bad = before { logger.log(.probeGood) }
        case .bad(let reason):
            let isNews = if case .bad = before { false } else { true }
            logger.log(isNews ? .probeBad : .probeStillBad, ["reason": "\(reason)"])
        case .unjudged(let reason):
            logger.log(.probeUnjudged, ["reason": "\(reason)"])
        }
    }
}
