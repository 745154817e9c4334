import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOConcurrencyHelpers
import NIOPosix
import RedisClient

@testable import InterlockSidecar

/// Records the findings that a test's monitors report to the breakers, in order.
final class RecordingBreakers: Sendable {
    struct Unavailable: Error {}

    private struct State {
        var findings: [(service: String, finding: OutageFinding)] = []
        var remainingFailures = 0
    }

    private let state = NIOLockedValueBox(State())

    var findings: [OutageFinding] { findings(of: nil) }

    func findings(of service: String?) -> [OutageFinding] {
        state.withLockedValue { $0.findings.filter { service == nil || $0.service == service }.map(\.finding) }
    }

    /// Makes the next `count` reports fail.
    func fail(_ count: Int) {
        state.withLockedValue { $0.remainingFailures = count }
    }

    /// Reports that are executed immediately.
    var reporter: OutageReporter {
        OutageReporter(
            report: { service, finding in
                try self.state.withLockedValue { state in
                    guard state.remainingFailures == 0 else {
                        state.remainingFailures -= 1
                        throw Unavailable()
                    }
                    state.findings.append((service, finding))
                }
                return finding == .up ? .closed : .open
            },
            effect: { service in
                // A suspicion counts as confirmed immediately.
                if case .suspected? = self.findings(of: service).last { .openByOutage } else { .undecided }
            })
    }
}

extension OutageMonitor {
    /// Runs `body` alongside a monitor that probes `services`, then stops the monitor as a shutdown would.
    static func with(
        _ services: [ServiceDefinition], coordinator: Coordinator? = nil, reporter: OutageReporter,
        _ body: (OutageMonitor) async throws -> Void
    ) async throws {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let monitor = OutageMonitor(
            services: services,
            coordinator: coordinator
                ?? Coordinator(
                    configuration: InterlockConfiguration(redis: .init(address: .unixSocket(path: "/nowhere"))),
                    eventLoop: MultiThreadedEventLoopGroup.singleton.next(), logger: logger),
            locks: LockSettings(), eventLoopGroup: MultiThreadedEventLoopGroup.singleton, reporter: reporter, logger: logger)
        let running = Task { try await monitor.run() }
        do {
            try await body(monitor)
        } catch {
            running.cancel()
            try await running.value
            throw error
        }
        running.cancel()
        try await running.value
    }
}

extension ServiceDefinition {
    /// Returns a probed service at 127.0.0.1:`port`.
    static func probed(_ name: String, port: Int, _ settings: ProbeSettings) -> ServiceDefinition {
        ServiceDefinition(name: name, upstream: UpstreamSettings(url: "http://127.0.0.1:\(port)"), probe: settings)
    }
}

extension ProbeSettings {
    /// Returns a probe of `/` with a short interval.
    static func fast(
        every interval: Duration = .milliseconds(25), timeout: Duration = .seconds(5), unhealthyAfter: Int = 1,
        healthyAfter: Int = 2, from origin: Origin = .all
    ) -> ProbeSettings {
        ProbeSettings(
            target: .http("/"), interval: interval, timeout: timeout, unhealthyAfter: unhealthyAfter,
            healthyAfter: healthyAfter, origin: origin)
    }
}
