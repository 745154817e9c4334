import InterlockCore

/// The network among the machines of one Redis: servers and Sentinels, by number. Messages on a route arrive in order,
/// with a delay. They are lost while the route is cut.
final class Backbone {
    private struct Route: Hashable {
        var from: Int
        var to: Int
    }

    let timeline: WorldTimeline
    private let hosts: [RedisHost]
    /// The delay of a message, in nanoseconds.
    private let delay: ClosedRange<Int64>
    private var random: SeededRandom
    private var cutRoutes: Set<Route> = []
    private var lastArrivals: [Route: Int64] = [:]

    init(hosts: [RedisHost], timeline: WorldTimeline, delay: ClosedRange<Int64>, random: SeededRandom) {
        self.hosts = hosts
        self.timeline = timeline
        self.delay = delay
        self.random = random
    }

    /// Cuts or restores the routes between two machines, in both directions.
    func set(_ one: Int, _ other: Int, isCut: Bool) {
        for route in [Route(from: one, to: other), Route(from: other, to: one)] {
            if isCut { cutRoutes.insert(route) } else { cutRoutes.remove(route) }
        }
    }

    /// Cuts one machine off from all others, or from the given ones.
    func isolate(_ number: Int, from others: [Int]? = nil) {
        for other in others ?? Array(hosts.indices) where other != number { set(number, other, isCut: true) }
    }

    func restoreAll() { cutRoutes = [] }

    func isCut(_ one: Int, _ other: Int) -> Bool { cutRoutes.contains(Route(from: one, to: other)) }

    /// Sends a message. `arrival` runs on the receiver once it is running, unless the route was cut or either machine
    /// was restarted.
    func send(from sender: Int, to receiver: Int, _ arrival: @escaping () -> Void) {
        let route = Route(from: sender, to: receiver)
        guard !cutRoutes.contains(route) else { return }
        let at = max(lastArrivals[route] ?? 0, timeline.now + draw(delay))
        lastArrivals[route] = at
        let (host, origin) = (hosts[receiver], hosts[sender])
        let (incarnation, originIncarnation) = (host.incarnation, origin.incarnation)
        timeline.schedule(at: at) { [weak self, weak host, weak origin] in
            guard let self, !cutRoutes.contains(route), let host, host.incarnation == incarnation,
                origin?.incarnation == originIncarnation
            else { return }
            host.execute(arrival)
        }
    }

    func draw(_ range: ClosedRange<Int64>) -> Int64 { Int64.random(in: range, using: &random) }

    /// Runs `body` at this interval while the machine runs.
    func repeatedly(_ number: Int, every interval: Int64, _ body: @escaping () -> Void) {
        // A random start, so that machines do not act at the same moment.
        timeline.schedule(in: draw(0...interval)) { [weak self] in self?.tick(number, every: interval, body) }
    }

    private func tick(_ number: Int, every interval: Int64, _ body: @escaping () -> Void) {
        if hosts[number].isRunning { body() }
        timeline.schedule(in: interval) { [weak self] in self?.tick(number, every: interval, body) }
    }

    /// Runs `body` on a machine after a delay, unless the machine is restarted meanwhile.
    func later(_ number: Int, in nanoseconds: Int64, _ body: @escaping () -> Void) {
        let host = hosts[number]
        let incarnation = host.incarnation
        timeline.schedule(in: nanoseconds) { [weak host] in
            guard let host, host.incarnation == incarnation else { return }
            host.execute(body)
        }
    }
}
