import EnvoyMessages
import InterlockCore
import InterlockJudge
import SwiftProtobuf

/// A client of Envoy's rate limit service. Like Envoy, it sends one or several descriptors per request, and may send
/// several requests concurrently. Each descriptor is a separate operation that takes from the rule it matches.
final class DescriptorClient: ListenerClient {
    typealias Request = Envoy_Service_Ratelimit_V3_RateLimitRequest

    /// A request, and the operations that its descriptors represent.
    struct Question {
        var rules: [Int]
        var subjects: [Int?]
        var cost: Int64
        /// The client number of the first operation in the history.
        var firstNumber: Int
    }

    private static let method = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
    private static let healthMethod = "/grpc.health.v1.Health/Check"

    /// The rules of all domains, grouped by domain.
    let rules: [DomainRule]
    private let firstRule: Int
    private let loop: SimulatedEventLoop
    private var connection: GRPCWireConnection?

    /// Creates a client of the first fleet's domains.
    /// - Parameter number: the first of the client's `LockClient.maximumLocks` numbers in the history.
    init(world: WorldState, number: Int, sidecars: Range<Int>, random: SeededRandom) {
        rules = world.profile.domainRules
        firstRule = world.profile.firstDomainRule
        loop = SimulatedEventLoop(timeline: world.timeline)
        super.init(world: world, number: number, sidecars: sidecars, random: random)
    }

    override func act() {
        switch random.unit() {
        case ..<0.03: checkHealth()
        case ..<0.06: sendUnlimited()
        default: send(questions())
        }
    }

    /// Draws a request with several descriptors, or several requests with one.
    private func questions() -> [Question] {
        let first = Int.random(in: rules.indices, using: &random)
        let cost: Int64 = random.happens(0.1) ? Int64.random(in: 2...3, using: &random) : 1
        var chosen = [first]
        if random.happens(0.4) {
            let others = rules.indices.filter { $0 != first && rules[$0].domain.name == rules[first].domain.name }
            chosen += others.shuffled(using: &random).prefix(Int.random(in: 0..<LockClient.maximumLocks, using: &random))
        } else if random.happens(0.4) {
            // The sidecar may batch requests that arrive together.
            return (0..<Int.random(in: 2...LockClient.maximumLocks, using: &random)).map {
                Question(rules: chosen, subjects: [subject(of: first)], cost: cost, firstNumber: number + $0)
            }
        }
        return [Question(rules: chosen, subjects: chosen.map(subject(of:)), cost: cost, firstNumber: number)]
    }

    private func subject(of rule: Int) -> Int? {
        rules[rule].value == nil ? Int.random(in: 0..<world.profile.serviceBehavior.tenants, using: &random) : nil
    }

    // MARK: Calls

    /// The connection, which may still be connecting.
    private var listener: GRPCWireConnection {
        if let connection, connection.acceptsCalls { return connection }
        if connection != nil { chooseSidecar() }
        let newConnection = GRPCWireConnection(
            to: world.sidecars[sidecar], over: world.listeners[sidecar], timeline: world.timeline, on: loop)
        connection = newConnection
        return newConnection
    }

    override func hangUp() {
        let former = connection
        connection = nil
        former?.close()
    }

    /// Sends all requests together, and continues when all have ended.
    private func send(_ questions: [Question]) {
        var remainingCount = questions.count
        for question in questions {
            send(question) { [self] in
                remainingCount -= 1
                guard remainingCount == 0 else { return }
                cancelScheduled()
                pauseThenAct()
            }
        }
    }

    private func send(_ question: Question, then done: @escaping () -> Void) {
        let (listener, sidecar) = (listener, sidecar)
        for (index, rule) in question.rules.enumerated() {
            let operation = Operation.take(
                service: firstRule + rule, cost: question.cost, subject: question.subjects[index], waitMilliseconds: 0)
            world.record(.invoked(client: question.firstNumber + index, sidecar: sidecar, operation))
        }
        var hasEnded = false
        let end = { [world] (endings: [OperationEnding]) in
            guard !hasEnded else { return }
            hasEnded = true
            for (index, ending) in endings.enumerated() {
                world.record(.ended(client: question.firstNumber + index, ending))
            }
            done()
        }
        let all = { (ending: OperationEnding) in question.rules.map { _ in ending } }
        let call = listener.call(Self.method, request(question)) { [weak self] result in
            switch result {
            case .success(let response): end(self?.endings(of: question, response, from: sidecar) ?? [])
            case .failure(.notConnected): end(all(.failed(code: "not-connected")))
            case .failure(.responseLost):
                end(all(.unknown(reason: self?.connection === listener ? "answer-lost" : OperationEnding.vanished)))
            case .failure(.unreadable(let reason)):
                self?.complain(of: reason, from: sidecar)
                end(all(.unknown(reason: "answer-lost")))
            }
        }
        if !hasEnded, random.happens(0.05) {
            abandon(listener, call) { end(all(.unknown(reason: OperationEnding.vanished))) }
        }
        // The limit exceeds the rules' patience.
        world.timeline.schedule(in: .milliseconds(WorldState.patienceMilliseconds + 1000)) { [weak self] in
            guard let self, !hasEnded else { return }
            end(all(.unknown(reason: "timed-out")))
            hangUp()
        }
    }

    /// Cancels a call early, as a proxy with a short deadline does, or closes the connection with all its calls.
    private func abandon(_ listener: GRPCWireConnection, _ call: Int, _ end: @escaping () -> Void) {
        let closesConnection = random.happens(0.3)
        world.timeline.schedule(in: .microseconds(Int64.random(in: 50...20_000, using: &random))) { [weak self] in
            guard let self, connection === listener else { return }
            if closesConnection { return hangUp() }
            listener.cancel(call)
            end()
        }
    }

    private func request(_ question: Question) -> Request {
        var request = Request()
        request.domain = rules[question.rules[0]].domain.name
        if question.cost > 1 { request.hitsAddend = UInt32(question.cost) }
        request.descriptors = zip(question.rules, question.subjects).map { rule, subject in
            Self.descriptor(rules[rule].entry(subject: subject))
        }
        return request
    }

    private static func descriptor(_ entry: DescriptorEntry) -> Envoy_Extensions_Common_Ratelimit_V3_RateLimitDescriptor {
        .with { $0.entries = [.with { ($0.key, $0.value) = (entry.key, entry.value) }] }
    }

    // MARK: Calls that take nothing

    /// Sends a request for an unknown domain, or with a descriptor that matches no rule. Everything must pass.
    private func sendUnlimited() {
        var request = Request()
        request.domain = random.happens(0.5) ? "unknown" : rules[0].domain.name
        let count = Int.random(in: 1...3, using: &random)
        request.descriptors = (0..<count).map { Self.descriptor(DescriptorEntry(key: "unknown", value: "\($0)")) }
        call(Self.method, request) { grpcResponse in
            guard grpcResponse.status == 0, let response = Self.response(grpcResponse) else {
                return Self.isRefusal(grpcResponse.status)
            }
            return response.overallCode == .ok && response.statuses.map(\.code) == Array(repeating: .ok, count: count)
        }
    }

    private func checkHealth() {
        let service = ["", "envoy.service.ratelimit.v3.RateLimitService", "unknown"][Int.random(in: 0...2, using: &random)]
        call(Self.healthMethod, Grpc_Health_V1_HealthCheckRequest.with { $0.service = service }) { response in
            if service == "unknown", response.status == 5 { return true }
            guard response.status == 0, service != "unknown", let message = response.message else {
                return Self.isRefusal(response.status)
            }
            let status = try? Grpc_Health_V1_HealthCheckResponse(serializedBytes: message).status
            return status == .serving || service.isEmpty && status == .notServing
        }
    }

    /// Makes a call that the history does not record, and continues when it has ended. Reports an unexpected response.
    private func call(
        _ path: String, _ message: some Message, isExpected: @escaping (GRPCWireConnection.Response) -> Bool
    ) {
        let (listener, sidecar) = (listener, sidecar)
        listener.call(path, message) { [weak self] result in
            switch result {
            case .success(let response):
                if !isExpected(response) { self?.complain(of: "\(path) answers \(response)", from: sidecar) }
            case .failure(.unreadable(let reason)): self?.complain(of: "\(path): \(reason)", from: sidecar)
            case .failure: break
            }
            self?.cancelScheduled()
            self?.pauseThenAct()
        }
        schedule(after: .milliseconds(WorldState.patienceMilliseconds + 1000)) { [self] in hangUp() }
    }
}
