import InterlockCore
import NIOCore

/// A machine that serves one service to the sidecars' proxies over HTTP/1.1 or HTTP/2. Many of its responses are slow,
/// truncated or malformed.
final class UpstreamHost {
    /// The host name in configurations.
    let name: String
    let speaksHTTP2: Bool
    let timeline: WorldTimeline
    /// The event loop of the process, used for HTTP/2 only.
    let loop: SimulatedEventLoop
    /// Returns the current health of the service.
    private let health: () -> SimulatedUpstream
    private var random: SeededRandom
    /// The probability that a response has a `Mishap`.
    private let mishapProbability: Double
    private(set) var isUp = true
    private var cuts: [(number: Int, cut: () -> Void)] = []
    private var lastConnectionNumber = 0
    private(set) var ledger: UpstreamLedger
    /// Receives descriptions of violations of the proxy's documented behavior.
    var onFinding: (String) -> Void = { _ in }

    init(
        name: String, timeline: WorldTimeline, speaksHTTP2: Bool, random: SeededRandom, health: @escaping () -> SimulatedUpstream
    ) {
        self.name = name
        self.timeline = timeline
        self.speaksHTTP2 = speaksHTTP2
        self.health = health
        self.random = random
        mishapProbability = [0.01, 0.08, 0.3][Int.random(in: 0..<3, using: &self.random)]
        ledger = UpstreamLedger(retries: 1, speaksHTTP2: speaksHTTP2)
        loop = SimulatedEventLoop(timeline: timeline)
    }

    /// The service's `retries.attempts`. Must be set before the first call.
    var retries: Int {
        get { ledger.retries }
        set { ledger.retries = newValue }
    }

    /// The number of requests whose head has arrived, including resent ones.
    var requestCount: Int { ledger.requestCount }
    /// The number of responses that were sent in full.
    var responseCount: Int { ledger.responseCount }
    /// Returns the number of times that a call's request has reached this server.
    func arrivalCount(ofCall number: Int) -> Int { ledger.arrivalCount(ofCall: number) }

    // MARK: Connections

    /// Accepts a connection. Returns `false` if the server is down.
    func accept(_ wire: Wire) -> Bool {
        guard isUp else { return false }
        lastConnectionNumber += 1
        let number = lastConnectionNumber
        cuts.append((number, { wire.cut() }))
        let onEnd: () -> Void = { [weak self] in self?.cuts.removeAll { $0.number == number } }
        if speaksHTTP2 {
            UpstreamHTTP2Connection.serve(wire, of: self, random: random.split(), onEnd: onEnd)
        } else {
            UpstreamConnection.serve(wire, of: self, random: random.split(), onEnd: onEnd)
        }
        return true
    }

    /// Cuts all connections.
    func cutAll() {
        let cuts = cuts
        self.cuts = []
        for (_, cut) in cuts { cut() }
    }

    /// Kills the server, and cuts all its connections.
    func crash() {
        isUp = false
        cutAll()
    }

    func start() { isUp = true }

    // MARK: Requests

    /// Draws the plan for the response to one request.
    func drawBehavior() -> UpstreamBehavior {
        let outcome = health().call(random: &random)
        return UpstreamBehavior(outcome, mishapProbability: mishapProbability, speaksHTTP2: speaksHTTP2, random: &random)
    }

    /// Records a request whose head has arrived, and reports violations in it.
    func begin(_ head: UpstreamRequestHead, over wire: Wire, isReused: Bool) -> UpstreamLedger.Arrival {
        if let violation = head.violation { reportViolation("\(head.method) of call \(head.number) \(violation)") }
        let arrival = UpstreamLedger.Arrival(head, wire: wire, isReused: isReused, at: timeline.now)
        if let finding = ledger.begin(arrival, now: timeline.now) { reportViolation(finding) }
        return arrival
    }

    /// Executes a completely received request.
    func finish(_ arrival: UpstreamLedger.Arrival, body: ByteBuffer) {
        arrival.isExecuted = true
        let call = "\(arrival.head.method) of call \(arrival.head.number)"
        if let stray = NumberedBody.firstStrayByte(in: body.readableBytesView, of: arrival.head.number) {
            reportViolation(
                "\(call) differs at byte \(stray) of its body: \(NumberedBody.excerpt(body.readableBytesView, at: stray))")
        } else if body.readableBytes != arrival.head.size {
            reportViolation("\(call) has a body of \(body.readableBytes) bytes; its client sent \(arrival.head.size)")
        }
    }

    /// Counts a response that was sent in full.
    func finishResponse() { ledger.responseCount += 1 }

    func reportViolation(_ violation: String) { onFinding("\(name): \(violation)") }
}

/// The head of a request to an upstream.
struct UpstreamRequestHead {
    var method: String
    var target: String
    /// The header fields, with names in lower case.
    var fields: [(name: String, value: String)]
    /// The call's unique number; 0 if the request has none.
    var number: Int
    /// The size of the body that the client sends, in bytes.
    var size: Int

    /// The header fields that the sidecar must not forward.
    private static let unforwardedFields = [
        "x-api-key", "interlock-subject", "interlock-service", "expect", "proxy-connection", "keep-alive", "upgrade",
    ]

    init(method: String, target: String, fields: [(name: String, value: String)]) {
        self.method = method
        self.target = target
        self.fields = fields
        number = 0
        size = 0
        number = values(NumberedBody.numberField).first.flatMap { Int($0) } ?? 0
        size = values(NumberedBody.sizeField).first.flatMap { Int($0) } ?? 0
    }

    func values(_ name: String) -> [String] { fields.filter { $0.name == name }.map(\.value) }

    /// Whether the request has a body.
    var hasBody: Bool { size > 0 }
    var isIdempotent: Bool { method != "POST" && method != "PATCH" }

    /// The violation of the proxy's documented behavior; `nil` if there is none.
    var violation: String? {
        if values(NumberedBody.numberField).count != 1 || number == 0 { return "does not have exactly one number" }
        if let name = Self.unforwardedFields.first(where: { !values($0).isEmpty }) {
            return "has the field \(name), which a sidecar must not forward"
        }
        if values("via").isEmpty || values("forwarded").isEmpty { return "has no Via or Forwarded field" }
        // The target repeats the number, which shows that the head's parts belong to one request.
        if !target.hasSuffix("/calls/\(number)") { return "has the target \(target)" }
        return nil
    }
}
