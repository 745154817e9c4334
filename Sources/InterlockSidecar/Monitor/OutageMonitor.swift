internal import Interlock
internal import InterlockCore
internal import Logging
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import ServiceLifecycle
internal import SidecarListeners
internal import SidecarTelemetry

/// Detects outages independently of user traffic: probes each service that has a probe, and reports the results to its
/// breaker.
final class OutageMonitor: Service {
    private let coordinator: Coordinator
    private let locks: LockSettings
    private let eventLoopGroup: any EventLoopGroup
    private let reporter: OutageReporter
    private let logger: Logger
    private let currentReadings = ProbeReadings()
    private let changes: AsyncStream<[ServiceDefinition]>
    private let changesContinuation: AsyncStream<[ServiceDefinition]>.Continuation

    /// Creates a monitor that starts to probe in `run()`.
    /// - Parameters:
    ///   - coordinator: the coordinator for elections.
    ///   - locks: the limits for the locks of elections.
    ///   - eventLoopGroup: the event loops for probes.
    init(
        services: [ServiceDefinition], coordinator: Coordinator, locks: LockSettings, eventLoopGroup: any EventLoopGroup,
        reporter: OutageReporter, logger: Logger
    ) {
        self.coordinator = coordinator
        self.locks = locks
        self.eventLoopGroup = eventLoopGroup
        self.reporter = reporter
        self.logger = logger
        // The newest definitions replace all earlier ones.
        (changes, changesContinuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        changesContinuation.yield(services)
    }

    /// The current reading of each probed service.
    var readings: [ProbeReading] { currentReadings.all }

    /// Returns the current reading of a service; `nil` if the service is not probed.
    func reading(ofService name: String) -> ProbeReading? { currentReadings[name] }

    /// Applies new definitions. Does not interrupt the probes of services whose settings did not change.
    func reload(services: [ServiceDefinition]) {
        changesContinuation.yield(services)
    }

    func run() async throws {
        var tasks: [String: (definition: ProbedService, task: Task<Void, Never>)] = [:]
        for await services in changes.cancelOnGracefulShutdown() {
            let probed = services.compactMap(ProbedService.init)
            let probedByName = Dictionary(probed.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
            let outdatedTasks = tasks.filter { probedByName[$0.key] != $0.value.definition }
            await end(outdatedTasks.values.map(\.task))
            for name in outdatedTasks.keys {
                tasks[name] = nil
                currentReadings.remove(name)
                if probedByName[name] == nil { ProbeMetrics(service: name).destroy() }
            }
            for (name, service) in probedByName where tasks[name] == nil {
                guard let watch = makeWatch(for: service) else { continue }
                tasks[name] = (service, Task { await watch.run() })
            }
        }
        await end(tasks.values.map(\.task))
    }

    /// Cancels the tasks and waits for them. Each releases its lease before it ends, so that another sidecar takes over
    /// immediately.
    private func end(_ tasks: [Task<Void, Never>]) async {
        for task in tasks { task.cancel() }
        for task in tasks { await task.value }
    }

    /// Returns the watch of a service; `nil` if the service cannot be probed.
    private func makeWatch(for service: ProbedService) -> ServiceWatch? {
        let settings = service.settings
        do {
            let probe = try Probe(
                settings, url: service.url, certificateAuthority: service.certificateAuthority,
                speaksHTTP2: service.speaksHTTP2, eventLoopGroup: eventLoopGroup)
            let election =
                settings.origin == .all
                ? nil
                : try ProbeElection(
                    service: service.name, interval: settings.interval, locks: locks, coordinator: coordinator)
            return ServiceWatch(
                service: service.name, settings: settings, probe: probe, election: election, reporter: reporter,
                readings: currentReadings,
                logger: logger)
        } catch {
            logger.log(.probeImpossible, ["service": service.name, "error": "\(error)"])
            return nil
        }
    }
}

/// The settings that determine a service's probes. A reload that does not change them does not interrupt the probes.
private struct ProbedService: Hashable {
    let name: String
    let url: String?
    let certificateAuthority: String?
    let speaksHTTP2: Bool
    let certificateAuthorityDigest: [UInt8]?
    let settings: ProbeSettings

    /// Returns `nil` if the service is not probed.
    init?(_ definition: ServiceDefinition) {
        guard let settings = definition.probe else { return nil }
        name = definition.name
        url = definition.upstream?.url
        certificateAuthority = definition.upstream?.certificateAuthority
        speaksHTTP2 = definition.upstream?.speaksHTTP2 ?? false
        certificateAuthorityDigest = definition.upstream?.certificateAuthorityDigest
        self.settings = settings
    }
}

/// The effect that an outage has on a breaker.
enum OutageEffect: Sendable {
    /// The breaker is open or half-open because of an outage.
    case openByOutage
    /// An outage would open the breaker, or become the cause if it is already open.
    case undecided
    /// An outage has no effect, because an operator has forced the breaker or it is configured as metrics-only.
    case overridden
}
