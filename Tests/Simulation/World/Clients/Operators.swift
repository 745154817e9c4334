import FoundationEssentials
import Interlock
import InterlockCore
import InterlockJudge
import RedisClient

/// A subscriber to one sidecar's events. It records the breaker states that they report in the history.
final class EventListener: ServiceClient {
    private let channel: String

    private struct EventMessage: Decodable {
        var type: String
        var service: String?
        var state: String?
        var until_ms: Int64?
        var generation: Int64?
        var forced: String?
        var forced_until_ms: Int64?
    }

    init(
        world: WorldState, number: Int, sidecar: Int, random: SeededRandom, firstService: Int, services: [String], channel: String
    ) {
        self.channel = channel
        super.init(
            world: world, number: number, sidecars: sidecar..<(sidecar + 1), random: random, firstService: firstService,
            services: services)
    }

    override func act() {
        sendUnrecorded(["SUBSCRIBE", channel]) { [self] reply in
            guard let reply else { return resubscribe() }
            recordEvent(in: reply.array ?? [])
        }
    }

    override func disconnected(byClient: Bool) { resubscribe() }

    /// Schedules one new subscription, even after several failures.
    private func resubscribe() {
        cancelScheduled()
        pauseThenAct()
    }

    override func receivedPush(_ parts: [RedisReply]) { recordEvent(in: parts) }

    /// Records the breaker state that a message reports, if it reports one.
    private func recordEvent(in parts: [RedisReply]) {
        guard parts.count == 3, parts[0].text == "message", case .bulk(let json) = parts[2],
            let message = try? JSONDecoder().decode(EventMessage.self, from: Data(json)), message.type == "breaker",
            let index = message.service.flatMap({ services.firstIndex(of: $0) }), let generation = message.generation
        else { return }
        let forced = message.forced.flatMap(BreakerSnapshot.Forced.init)
        let state: BreakerSnapshot.State? =
            switch forced {
            case .open: .open
            case .closed, .disabled: .closed
            case nil: message.state.flatMap(BreakerSnapshot.State.init)
            }
        guard let state else { return }
        let endMilliseconds = forced == nil ? message.until_ms : message.forced_until_ms
        world.record(
            .breakerSeen(
                sidecar: sidecar, service: firstService + index, state: state, generation: generation,
                until: endMilliseconds.flatMap {
                    $0 == 0
                        ? nil : world.instant(ofRedisMilliseconds: $0, onServerOf: KeySpace().breaker(services[index]))
                }))
    }
}

/// An operator who occasionally forces breakers and ends forced states.
final class Operator: ServiceClient {
    override func act() {
        schedule(after: .milliseconds(Int64.random(in: 500...8000, using: &random))) { [self] in
            let index = Int.random(in: services.indices, using: &random)
            let states: [BreakerSnapshot.Forced?] = [.open, .closed, .disabled, nil, nil]
            let state = states[Int.random(in: states.indices, using: &random)]
            let lengthMilliseconds: Int64? =
                state != nil && random.happens(0.7) ? Int64.random(in: 500...6000, using: &random) : nil
            var arguments = ["BREAKER.FORCE", services[index], state.map { $0.rawValue.uppercased() } ?? "AUTO"]
            if let lengthMilliseconds { arguments += ["FOR", "\(lengthMilliseconds)"] }
            let requestedAt = world.timeline.instant
            // The state is unknown until the reply arrives.
            world.record(.forced(service: firstService + index, state: nil, until: nil))
            sendUnrecorded(arguments) { [self] reply in
                if reply?.text == "OK" {
                    let until = lengthMilliseconds.map { requestedAt.advanced(byMilliseconds: $0) }
                    world.record(.forced(service: firstService + index, state: state, until: until))
                }
                pauseThenAct()
            }
        }
    }
}

/// Reports a sidecar's findings about a service, as its outage monitor does. The probes themselves are not simulated.
final class Prober {
    private unowned let world: WorldState
    private let sidecar: Int
    private let serviceIndex: Int
    private var random: SeededRandom

    init(world: WorldState, sidecar: Int, index: Int, random: SeededRandom) {
        self.world = world
        self.sidecar = sidecar
        serviceIndex = index
        self.random = random
    }

    func start() {
        world.timeline.schedule(in: .milliseconds(Int64.random(in: 900...1100, using: &random))) { [weak self] in
            guard let self, !world.isClosing else { return }
            probe()
            start()
        }
    }

    private func probe() {
        let upstream = world.upstreams[serviceIndex]
        let service = world.profile.services[serviceIndex]
        guard service.probe != nil else { return }
        let finding: OutageFinding = upstream.failureProbability > 0.5 ? .down(reason: "probes fail") : .up
        world.sidecars[sidecar].call { coordinator in
            coordinator.reportOutage(service: service.name, finding, completion: Completion { _, _ in true })
        }
    }
}
