import Interlock
import InterlockCore
import InterlockJudge

/// The services behind the first fleet's proxies: their machines, the network to them, and the faults of both. They
/// draw from a separate random stream, so that worlds without proxied services stay unchanged.
final class ProxiedServices {
    private unowned let state: WorldState
    private var random: SeededRandom
    private var health: [SimulatedUpstream]
    private var hosts: [UpstreamHost] = []
    /// The network paths, by sidecar, then by service.
    private var paths: [[Path]] = []

    init(state: WorldState, random: SeededRandom) {
        self.state = state
        self.random = random
        let services = state.profile.apis.proxied
        health = services.map { _ in SimulatedUpstream() }
        for (index, service) in services.enumerated() {
            guard let upstream = service.upstream else { continue }
            let host = UpstreamHost(
                name: service.name, timeline: state.timeline, speaksHTTP2: upstream.speaksHTTP2, random: self.random.split()
            ) { [unowned self] in health[index] }
            host.retries = upstream.retries.attempts
            host.onFinding = { [unowned state] in state.recordViolation(.outcomes, $0) }
            hosts.append(host)
        }
    }

    var names: [String] { hosts.map(\.name) }

    /// Creates the network between the next sidecar and all services.
    func makeNetwork() -> (paths: [Path], dialer: SimulatedHTTPDialer) {
        let delay: ClosedRange<Nanoseconds> = random.happens(0.5) ? 20_000...200_000 : 1_000_000...10_000_000
        let paths = hosts.map { _ in
            let path = Path(delay: delay, random: random.split())
            if random.happens(0.3) { path.splitProbability = 0.3 }
            return path
        }
        self.paths.append(paths)
        let hosts = hosts
        let dialer = SimulatedHTTPDialer(timeline: state.timeline) { name in
            hosts.firstIndex { $0.name == name }.map { (hosts[$0], paths[$0]) }
        }
        return (paths, dialer)
    }

    /// Creates the clients that call the services.
    ///
    /// - Parameter number: returns the next client's number in the history.
    func clients(fleet: Range<Int>, number: () -> Int) -> [ListenerClient] {
        guard !hosts.isEmpty else { return [] }
        return (0..<state.profile.apis.proxyClients).map { index in
            ProxyClient(
                world: state, number: number() + index * LockClient.maximumLocks, sidecars: fleet, random: random.split(),
                firstService: state.profile.firstProxiedService, services: names)
        }
    }

    // MARK: Faults

    func start() {
        guard !hosts.isEmpty else { return }
        state.timeline.schedule(in: .milliseconds(Int64.random(in: 300...4000, using: &random))) { [weak self] in
            guard let self, !state.isClosing else { return }
            injectFault(Int.random(in: hosts.indices, using: &random))
            start()
        }
    }

    private func injectFault(_ service: Int) {
        let (host, length) = (hosts[service], Nanoseconds.milliseconds(Int64.random(in: 20...2000, using: &random)))
        switch Int.random(in: 0..<10, using: &random) {
        case 0: host.cutAll()
        case 1:
            host.crash()
            state.timeline.schedule(in: length) { host.start() }
        case 2, 3:
            guard let paths = paths.randomElement(using: &random) else { return }
            let path = paths[service]
            path.isBlackHole = true
            state.timeline.schedule(in: length) { path.isBlackHole = false }
        default:
            health[service].failureProbability =
                random.happens(0.5) ? 0.01 : [0.3, 0.9, 1][Int.random(in: 0..<3, using: &random)]
            health[service].isSlow = random.happens(0.2)
        }
    }

    // MARK: Final checks

    /// Checks that every permit was returned and that no outcome was reported twice, once all clients are done.
    func judge() {
        let requestCount = hosts.reduce(0) { $0 + $1.requestCount }
        if state.calls > 200, !hosts.isEmpty, requestCount == 0 {
            state.recordViolation(.answers, "none of \(state.calls) calls through the proxy reached a service")
        }
        // A tight limit may refuse almost all calls. Of this many requests, most are answered despite the faults.
        if requestCount > 200, hosts.allSatisfy({ $0.responseCount == 0 }) {
            state.recordViolation(.answers, "no service answered any of \(requestCount) requests of the proxy")
        }
        for host in state.sidecars.prefix(state.profile.sidecars) {
            if !host.isUp || host.isStopped {
                state.recordViolation(.recovery, "sidecar \(host.number) is not running at the end")
            }
            host.call { [state] coordinator in
                for name in self.names {
                    let activeCount = coordinator.activity(ofService: name)?.inFlightCount ?? 0
                    if activeCount > 0 {
                        state.recordViolation(
                            .permits,
                            "sidecar \(host.number) has \(activeCount) permits of \(name) but no call in progress")
                    }
                    guard let counts = coordinator.counts.services[name] else { continue }
                    let outcomeCount = counts.outcomesGood + counts.outcomesFailed
                    if outcomeCount > counts.permitsGranted {
                        state.recordViolation(
                            .outcomes,
                            "sidecar \(host.number) counted \(outcomeCount) outcomes of \(counts.permitsGranted) calls "
                                + "of \(name)"
                        )
                    }
                }
            }
        }
    }
}

extension Profile {
    /// The number of the first proxied service in the history.
    var firstProxiedService: Int { firstDomainRule + domainRules.count }
}
