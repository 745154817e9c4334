public import FoundationEssentials

/// A breaker's state as the fleet shares it: the fields of the breaker's hash in Redis.
public struct BreakerSnapshot: Hashable, Sendable {
    /// The state of a breaker, which decides about calls.
    public enum State: String, CaseIterable, Codable, Sendable {
        /// Calls go through.
        case closed
        /// Calls are refused.
        case open
        /// A few trial calls find out whether the service is back.
        case halfOpen = "half_open"
    }

    /// A state that an operator forces, in effect until `AUTO` or until its end.
    public enum Forced: String, Codable, CaseIterable, Sendable {
        /// All calls are refused.
        case open
        /// All calls go through, and nothing trips.
        case closed
        /// All calls go through, and nothing trips, but outcomes are still counted.
        case disabled
    }

    /// The maximum length of `reason`, in bytes of UTF-8.
    public static let maximumReasonLength = 256

    /// Returns the first control character or line separator in a reason, which could break a line or confuse a
    /// terminal; `nil` if there is no such character.
    package static func controlCharacter(in reason: String) -> Unicode.Scalar? {
        reason.unicodeScalars.first { isControl($0) }
    }

    /// Returns a received reason with spaces instead of control characters. O(n).
    package static func oneLine(_ reason: String) -> String {
        guard controlCharacter(in: reason) != nil else { return reason }
        var line = String.UnicodeScalarView()
        line.append(contentsOf: reason.unicodeScalars.map { isControl($0) ? " " : $0 })
        return String(line)
    }

    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }

    /// The current state.
    public var state: State = .closed
    /// The cause of the state: the raw value of a `BreakerCause`; empty if the state never changed.
    public var cause: String = ""
    /// The time of the last change, as Unix time in milliseconds by the Redis clock.
    package var sinceMilliseconds: Int64 = 0
    /// The end of the breaker's open state, at which the breaker half-opens, as Unix time in milliseconds by the Redis
    /// clock; 0 if the state has no such end.
    package var untilMilliseconds: Int64 = 0
    /// The generation number, which rises with every change of state.
    public var generation: Int64 = 0
    /// The number of times that the breaker has opened.
    public var trips: Int64 = 0
    /// The fraction of failed calls in the window at the last report, 0…1.
    public var failureRate: Double = 0
    /// The fraction of slow calls in the window at the last report, 0…1.
    public var slowRate: Double = 0
    /// The number of calls in the window at the last report.
    public var calls: Int64 = 0
    /// The author of the last change: a sidecar's ID, with the name of the API key if a person made the change.
    public var changedBy: String = ""
    /// The state that an operator forced; `nil` if no state is forced.
    public var forced: Forced?
    /// The end of the forced state, as Unix time in milliseconds by the Redis clock; 0 if the state remains until an
    /// operator ends it.
    package var forcedUntilMilliseconds: Int64 = 0
    /// The human-readable reason, from an operator or a failed probe; may be empty.
    public var reason: String = ""
    /// The number of times that the breaker has opened since it was last closed. The open time grows with this number.
    public var streak: Int64 = 0
    /// The number of failures in a row across the fleet, at the last report.
    public var consecutive: Int64 = 0

    package init(state: State = .closed, generation: Int64 = 0, _ fill: (inout BreakerSnapshot) -> Void = { _ in }) {
        self.state = state
        self.generation = generation
        fill(&self)
    }

    /// Reads the fields of an event or a reply by name. A missing field is empty or 0.
    package init(
        state: State, text: (String) throws -> String?, number: (String) throws -> Int64?,
        rate: (String) throws -> Double?
    ) rethrows {
        self.state = state
        cause = try text("cause") ?? ""
        sinceMilliseconds = try number("since_ms") ?? 0
        untilMilliseconds = try number("until_ms") ?? 0
        generation = try number("generation") ?? 0
        trips = try number("trips") ?? 0
        failureRate = try rate("failure_rate") ?? 0
        slowRate = try rate("slow_rate") ?? 0
        calls = try number("calls") ?? 0
        changedBy = try text("by") ?? ""
        forced = try text("forced").flatMap(Forced.init)
        forcedUntilMilliseconds = try number("forced_until_ms") ?? 0
        reason = try text("reason") ?? ""
        streak = try number("streak") ?? 0
        consecutive = try number("consecutive") ?? 0
    }

    /// The time of the last change, by the Redis clock; `nil` if the breaker never changed.
    public var since: Date? { Self.date(sinceMilliseconds) }
    /// The end of the breaker's open state, at which the breaker half-opens, by the Redis clock; `nil` if the state has
    /// no such end.
    public var until: Date? { Self.date(untilMilliseconds) }
    /// The end of the forced state, by the Redis clock; `nil` if no state is forced, or if the state remains until an
    /// operator ends it.
    public var forcedUntil: Date? { Self.date(forcedUntilMilliseconds) }

    /// Returns the reasons for the state, the most important one first.
    /// - Parameter ownCause: the cause if the sidecar has opened the breaker for itself only.
    package func reasons(ownCause: String? = nil) -> String {
        let endMilliseconds = forced == nil ? untilMilliseconds : forcedUntilMilliseconds
        let reasons = [
            forced.map { "forced \($0.rawValue)" } ?? cause, ownCause.map { "this sidecar only: \($0)" } ?? "", reason,
            endMilliseconds > 0 ? "until \(ReadableText.moment(epochMilliseconds: endMilliseconds))" : "",
            changedBy.isEmpty ? "" : "by \(changedBy)",
        ]
        return reasons.filter { !$0.isEmpty }.joined(separator: ", ")
    }

    /// Returns the date of a Unix time in milliseconds; `nil` for 0, which means never.
    private static func date(_ milliseconds: Int64) -> Date? {
        milliseconds > 0 ? Date(epochMilliseconds: milliseconds) : nil
    }
}
