internal import Hiredis
public import FoundationEssentials
internal import InterlockCore

/// A circuit breaker as a sidecar sees it.
public struct SidecarBreaker: Hashable, Sendable {
    /// What a breaker does with calls. Newer sidecars may have more states.
    public struct State: RawRepresentable, Hashable, Sendable {
        /// The state as the RESP door spells it.
        public let rawValue: String

        /// A state by its name.
        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        /// Calls go through.
        public static let closed = State(rawValue: "closed")
        /// Calls are refused.
        public static let open = State(rawValue: "open")
        /// Some calls go through as a trial.
        public static let halfOpen = State(rawValue: "half_open")
    }

    /// What an operator has a breaker do. Newer sidecars may have more.
    public struct Forced: RawRepresentable, Hashable, Sendable {
        /// The state as the RESP door spells it.
        public let rawValue: String

        /// A state by its name.
        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        /// All calls go through, and the breaker does not trip while it is forced.
        public static let closed = Forced(rawValue: "closed")
        /// All calls are refused.
        public static let open = Forced(rawValue: "open")
        /// All calls go through, and the breaker takes no notice of how they go.
        public static let disabled = Forced(rawValue: "disabled")
    }

    /// The service's name.
    public var service: String
    /// As this sidecar acts.
    public var state: State
    /// As the fleet shares it; the two differ for a moment after a change.
    public var fleetState: State
    /// Why it changed last, as one word: `failures`, `slow`, `probe`, `forced` …; empty: it never changed.
    public var cause: String
    /// Why, in words; may be empty.
    public var reason: String
    /// The sidecar that made the last change, and the API key's name when a person did.
    public var by: String
    /// Why this sidecar is open for itself alone; `nil`: it is not.
    public var ownCause: String?
    /// Rises with every change.
    public var generation: Int64
    /// Shares of the window's calls, 0 to 1.
    public var failureRate: Double
    /// The share of slow calls in the window, 0 to 1.
    public var slowRate: Double
    /// Calls in the window.
    public var calls: Int64
    /// How often it opened.
    public var trips: Int64
    /// What an operator forced; `nil`: nothing.
    public var forced: Forced?
    /// What the sidecar knows of the service's probes; `nil`: it is not probed, or the sidecar is of 0.1.0.
    public var probe: Probe?

    // As they are sent, in milliseconds of the Unix epoch by Redis' clock; 0: none.
    package var sinceMilliseconds: Int64
    package var untilMilliseconds: Int64
    package var forcedUntilMilliseconds: Int64

    /// When it changed last, by Redis' clock; `nil`: never.
    public var since: Date? { Date(ifSet: sinceMilliseconds) }
    /// When an open breaker half-opens; `nil`: it does not by itself.
    public var until: Date? { Date(ifSet: untilMilliseconds) }
    /// When the forced state ends; `nil`: not by itself.
    public var forcedUntil: Date? { Date(ifSet: forcedUntilMilliseconds) }

    /// `nil` when the reply is no breaker's map.
    fileprivate init?(_ reply: RedisReply) {
        guard let fields = ReplyFields(reply), let service = fields.text("service"), let state = fields.text("state") else {
            return nil
        }
        self.service = service
        self.state = State(rawValue: state)
        fleetState = State(rawValue: fields.text("fleet_state") ?? state)
        cause = fields.text("cause") ?? ""
        reason = fields.text("reason") ?? ""
        by = fields.text("by") ?? ""
        ownCause = fields.text("own_cause")
        generation = fields.integer("generation") ?? 0
        failureRate = fields.number("failure_rate") ?? 0
        slowRate = fields.number("slow_rate") ?? 0
        calls = fields.integer("calls") ?? 0
        trips = fields.integer("trips") ?? 0
        forced = fields.text("forced").map { Forced(rawValue: $0) }
        probe = fields.reply("probe").flatMap { Probe($0) }
        sinceMilliseconds = fields.integer("since_ms") ?? 0
        untilMilliseconds = fields.integer("until_ms") ?? 0
        forcedUntilMilliseconds = fields.integer("forced_until_ms") ?? 0
    }
}

extension SidecarBreaker {
    /// What a sidecar knows of a service's probes. Of the last probe it tells those that it made itself.
    public struct Probe: Hashable, Sendable {
        /// Who probes: `elected` (the sidecar), `another`, `all`, `alone` while Redis is away, or `undecided`.
        public var prober: String
        /// Of the last probe: `good`, `bad` or `unjudged`; `nil`: it has made none.
        public var finding: String?
        /// Why it was not good; `nil`: it was.
        public var reason: String?
        /// How long it took.
        public var duration: Duration?
        /// Bad probes in a row, up to the last.
        public var failures: Int64
        /// Good probes in a row, up to the last.
        public var successes: Int64
        package var atMilliseconds: Int64?

        /// When it ended, by the clock of the sidecar's host.
        public var at: Date? { atMilliseconds.map { Date(epochMilliseconds: $0) } }

        fileprivate init?(_ reply: RedisReply) {
            guard let fields = ReplyFields(reply), let prober = fields.text("prober") else { return nil }
            self.prober = prober
            finding = fields.text("finding")
            reason = fields.text("reason")
            duration = fields.integer("duration_ms").map { .milliseconds($0) }
            failures = fields.integer("failures") ?? 0
            successes = fields.integer("successes") ?? 0
            atMilliseconds = fields.integer("at_ms")
        }
    }
}

/// The commands `BREAKER.*`.
enum BreakerCalls {
    /// `BREAKER.STATE service`.
    struct Inspect: SidecarCall {
        var service: String

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("BREAKER.STATE")
            encoder.append(service)
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> SidecarBreaker {
            guard let breaker = SidecarBreaker(reply) else { throw reply.unexpected(for: "BREAKER.STATE") }
            return breaker
        }
    }

    /// `BREAKER.LIST`.
    struct List: SidecarCall {
        func encode(into encoder: inout CommandEncoder) {
            encoder.append("BREAKER.LIST")
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> [SidecarBreaker] {
            guard let elements = reply.array else { throw reply.unexpected(for: "BREAKER.LIST") }
            let breakers = elements.compactMap { SidecarBreaker($0) }
            guard breakers.count == elements.count else { throw reply.unexpected(for: "BREAKER.LIST") }
            return breakers
        }
    }

    /// `BREAKER.FORCE service OPEN|CLOSED|DISABLED|AUTO [FOR ms] [REASON text]`.
    struct Force: SidecarCall {
        var service: String
        /// `nil`: `AUTO`, the breaker acts by itself again.
        var state: SidecarBreaker.Forced?
        var duration: Duration?
        var reason: String?

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("BREAKER.FORCE")
            encoder.append(service)
            encoder.append(state?.rawValue ?? "auto")
            if let duration { encoder.append("FOR", duration) }
            if let reason { encoder.append("REASON", reason) }
        }

        func decode(_ reply: RedisReply) throws(RedisError) {
            guard reply.text == "OK" else { throw reply.unexpected(for: "BREAKER.FORCE") }
        }
    }
}

/// The flat map that a sidecar answers with in RESP2: names and values by turns.
struct ReplyFields {
    private var values: [String: RedisReply] = [:]

    /// `nil` when the reply is none.
    init?(_ reply: RedisReply) {
        guard let elements = reply.array, elements.count.isMultiple(of: 2) else { return nil }
        for index in stride(from: 0, to: elements.count, by: 2) {
            guard let name = elements[index].text else { return nil }
            values[name] = elements[index + 1]
        }
    }

    func reply(_ name: String) -> RedisReply? { values[name] }

    func text(_ name: String) -> String? { values[name]?.text }

    /// Those of a list; none where there is no list.
    func texts(_ name: String) -> [String] { values[name]?.array?.compactMap(\.text) ?? [] }

    func integer(_ name: String) -> Int64? { values[name]?.integer }

    /// A number of things; 0 where there is none.
    func count(_ name: String) -> Int { Int(clamping: integer(name) ?? 0) }

    /// Empty when there is none.
    func array(_ name: String) -> [RedisReply] { values[name]?.array ?? [] }

    /// Only numbers that JSON has.
    func number(_ name: String) -> Double? {
        text(name).flatMap(Double.init).flatMap { $0.isFinite ? $0 : nil }
    }
}

extension Date {
    init(epochMilliseconds: Int64) {
        self.init(timeIntervalSince1970: Double(epochMilliseconds) / 1000)
    }

    /// `nil`: 0, which stands for never.
    fileprivate init?(ifSet epochMilliseconds: Int64) {
        guard epochMilliseconds != 0 else { return nil }
        self.init(epochMilliseconds: epochMilliseconds)
    }
}
