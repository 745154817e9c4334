import InterlockCore

/// The network among the machines of one Redis deployment: servers and Sentinels, by number. Messages on a route arrive
/// in order, with a delay. A cut route loses them.
final class Backbone {
    private struct Route: Hashable {
        var from: Int
        var to: Int
    }

    let timeline: WorldTimeline
    private let hosts: [RedisHost]
    /// The range of a message's delay.
    private let delay: ClosedRange<Nanoseconds>
    private var random: SeededRandom
    private var cutRoutes: Set<Route> = []
    private var lastArrivals: [Route: Nanoseconds] = [:]

    init(hosts: [RedisHost], timeline: WorldTimeline, delay: ClosedRange<Nanoseconds>, random: SeededRandom) {
        self.hosts = hosts
        self.timeline = timeline
        self.delay = delay
        self.random = random
    }

    /// Cuts or restores the routes between two machines, in both directions.
    func set(_ first: Int, _ second: Int, isCut: Bool) {
        for route in [Route(from: first, to: second), Route(from: second, to: first)] {
            if isCut { cutRoutes.insert(route) } else { cutRoutes.remove(route) }
        }
    }

    /// Cuts one machine off from `others`; from all other machines if `others` is `nil`.
    func isolate(_ number: Int, from others: [Int]? = nil) {
        for other in others ?? Array(hosts.indices) where other != number { set(number, other, isCut: true) }
    }

    func restoreAll() { cutRoutes = [] }

    func isCut(_ sender: Int, _ receiver: Int) -> Bool { cutRoutes.contains(Route(from: sender, to: receiver)) }

    /// Sends a message. Runs `arrival` on the receiver, once it runs, unless the route was cut or either machine
    /// restarted in the meantime.
    func send(from sender: Int, to receiver: Int, _ arrival: @escaping () -> Void) {
        let route = Route(from: sender, to: receiver)
        guard !cutRoutes.contains(route) else { return }
        let arrivalTime = max(lastArrivals[route] ?? 0, timeline.now + draw(delay))
        lastArrivals[route] = arrivalTime
        let (host, origin) = (hosts[receiver], hosts[sender])
        let (incarnation, originIncarnation) = (host.incarnation, origin.incarnation)
        timeline.schedule(at: arrivalTime) { [weak self, weak host, weak origin] in
            guard let self, !cutRoutes.contains(route), let host, host.incarnation == incarnation,
                origin?.incarnation == originIncarnation
            else { return }
            host.execute(arrival)
        }
    }

    func draw(_ range: ClosedRange<Nanoseconds>) -> Nanoseconds { Int64.random(in: range, using: &random) }

    /// Runs `body` at this interval, except while the machine does not run.
    func scheduleRepeatedly(_ number: Int, every interval: Nanoseconds, _ body: @escaping () -> Void) {
        // A random start keeps machines from acting at the same time.
        timeline.schedule(in: draw(0...interval)) { [weak self] in self?.tick(number, every: interval, body) }
    }

    private func tick(_ number: Int, every interval: Nanoseconds, _ body: @escaping () -> Void) {
        if hosts[number].isRunning { body() }
        timeline.schedule(in: interval) { [weak self] in self?.tick(number, every: interval, body) }
    }

    /// Runs `body` on a machine after a delay, unless the machine restarts in the meantime.
    func later(_ number: Int, in nanoseconds: Nanoseconds, _ body: @escaping () -> Void) {
        let host = hosts[number]
        let incarnation = host.incarnation
        timeline.schedule(in: nanoseconds) { [weak host] in
            guard let host, host.incarnation == incarnation else { return }
            host.execute(body)
        }
    }
}
