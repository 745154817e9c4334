import InterlockCore
import InterlockJudge
import NIOCore

/// Calls services through the guarded proxy, one call at a time or a few in one write.
final class ProxyClient: ServiceClient {
    /// A call in progress.
    private final class ActiveCall {
        let call: ProxyCall
        /// The client number of the call in the history.
        let client: Int
        /// The parts of the body that are not sent yet.
        var unsent: ArraySlice<ByteBuffer>
        /// Whether the client has started to send the body.
        var isSending = false
        var hasEnded = false

        init(_ call: ProxyCall, client: Int) {
            self.call = call
            self.client = client
            unsent = call.bodyWrites[...]
        }
    }

    /// The maximum number of calls in one write. Each has a separate client number in the history.
    private static let maximumCalls = 3
    /// The time limit for all calls of one write, in milliseconds. It is below the patience of the rules.
    private static let timeLimitMilliseconds: Int64 = 2700
    /// The time after which a client stops waiting for 100 Continue and sends its body, in milliseconds.
    private static let continueTimeoutMilliseconds: Int64 = 150

    private var http: HTTPWireConnection?
    private var activeCalls: [ActiveCall] = []
    /// Whether a service broke off its response to one of the current calls.
    private var hasTruncatedResponse = false

    override func act() {
        let service = Int.random(in: services.indices, using: &random)
        guard let upstream = world.profile.apis.proxied[service].upstream else { return pauseThenAct() }
        // Calls without a total timeout end by their idle timeouts.
        let totalMilliseconds = (upstream.totalTimeout ?? .seconds(2)).wholeMilliseconds
        let maximum = max(1, min(Self.maximumCalls, Int(Self.timeLimitMilliseconds / max(1, totalMilliseconds))))
        let count = random.happens(0.2) ? Int.random(in: 1...maximum, using: &random) : 1
        call(service, count: count)
        hangUpLater(upToMilliseconds: totalMilliseconds)
        let limitMilliseconds = totalMilliseconds * Int64(count) + WorldState.patienceMilliseconds + 1000
        let calls = activeCalls
        world.timeline.schedule(in: .milliseconds(limitMilliseconds)) { [weak self] in self?.giveUp(on: calls) }
    }

    /// Starts `count` calls in one write.
    private func call(_ service: Int, count: Int) {
        let connection = connection()
        let calls = (0..<count).map { index in
            let call = ProxyCall(
                world.nextCall(), service: services[service], tenant: world.profile.serviceBehavior.tenant(&random),
                isSimple: count > 1,
                random: &random)
            return ActiveCall(call, client: number + index)
        }
        activeCalls = calls
        hasTruncatedResponse = false
        for call in calls {
            world.record(.invoked(client: call.client, sidecar: sidecar, .proxied(service: firstService + service)))
        }
        connection.onInformational = { [weak self] status in
            guard status == 100, let call = calls.first(where: { !$0.hasEnded }) else { return }
            self?.sendBody(of: call)
        }
        connection.sendTogether {
            for call in calls { send(call, over: connection) }
        }
    }

    // MARK: Requests

    private func connection() -> HTTPWireConnection {
        if let http, !http.isClosed { return http }
        if http != nil { chooseSidecar() }
        let newConnection = HTTPWireConnection(
            to: world.sidecars[sidecar], over: world.listeners[sidecar], timeline: world.timeline)
        newConnection.onStrayBytes = { [weak self, sidecar] in
            guard let self else { return }
            world.recordViolation(.bytes, "client \(number) at sidecar \(sidecar) received bytes after the end of an answer")
        }
        http = newConnection
        return newConnection
    }

    private func send(_ call: ActiveCall, over connection: HTTPWireConnection) {
        connection.send(call.call.head, isHead: call.call.method == .head) { [weak self] result in
            self?.finish(call, result, over: connection)
        }
        guard call.call.awaitsContinue else { return sendBody(of: call) }
        schedule(after: .milliseconds(Self.continueTimeoutMilliseconds)) { [weak self] in self?.sendBody(of: call) }
    }

    /// Starts sending the body, in parts.
    private func sendBody(of call: ActiveCall) {
        guard !call.isSending else { return }
        call.isSending = true
        sendNextPart(of: call)
    }

    private func sendNextPart(of call: ActiveCall) {
        guard !call.hasEnded, let http, let part = call.unsent.popFirst() else { return }
        http.write(part)
        guard !call.unsent.isEmpty else { return }
        schedule(after: .milliseconds(Int64.random(in: 0...30, using: &random))) { [weak self] in
            self?.sendNextPart(of: call)
        }
    }

    // MARK: Endings

    private func finish(
        _ call: ActiveCall, _ result: Result<HTTPWireResponse, HTTPWireConnection.Loss>, over connection: HTTPWireConnection
    ) {
        guard !call.hasEnded else { return }
        let ending: OperationEnding
        var finding: ProxyCall.Finding?
        switch result {
        case .success(let response):
            let judgment = call.call.judge(response)
            ending = judgment.ending
            finding = judgment.finding
        case .failure(.notConnected): ending = .failed(code: "not-connected")
        case .failure(.responseLost(let part)):
            finding = part.flatMap { call.call.partFinding($0) }
            // A lost connection says nothing about the sidecar if the client closed it, or if a service broke off its
            // response to this call or an earlier one.
            if part != nil { hasTruncatedResponse = true }
            let isExplained = http !== connection || hasTruncatedResponse
            ending = .unknown(reason: isExplained ? OperationEnding.vanished : "answer-lost")
        case .failure(.unreadable(let reason)):
            finding = call.call.finding(.bytes, "cannot be read: \(reason)")
            ending = .unknown(reason: "unreadable")
        }
        if let finding {
            world.recordViolation(
                finding.invariant, "client \(call.client) at sidecar \(sidecar): \(finding.description)")
        }
        end(call, ending)
    }

    private func end(_ call: ActiveCall, _ ending: OperationEnding) {
        call.hasEnded = true
        world.record(.ended(client: call.client, ending))
        guard activeCalls.allSatisfy(\.hasEnded) else { return }
        // A connection with half a request cannot carry another one.
        let isHalfSent = activeCalls.contains { !$0.unsent.isEmpty }
        activeCalls = []
        cancelScheduled()
        if isHalfSent { http?.close() }
        pauseThenAct()
    }

    /// Closes the connection during some calls, at a random time.
    private func hangUpLater(upToMilliseconds total: Int64) {
        guard random.happens(0.08) else { return }
        let latestMilliseconds = random.happens(0.5) ? min(total, 40) : total
        schedule(after: .microseconds(Int64.random(in: 100...(latestMilliseconds * 1000), using: &random))) {
            [weak self] in self?.hangUp()
        }
    }

    /// Gives up on calls that have no response within the time that the rules allow.
    private func giveUp(on calls: [ActiveCall]) {
        let lateCalls = calls.filter { !$0.hasEnded }
        guard !lateCalls.isEmpty else { return }
        for call in lateCalls { end(call, .unknown(reason: "timed-out")) }
        hangUp()
    }

    override func hangUp() {
        let former = http
        http = nil
        former?.close()
        super.hangUp()
    }
}
