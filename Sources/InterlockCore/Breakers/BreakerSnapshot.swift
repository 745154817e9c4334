public import FoundationEssentials

/// A breaker's state as the fleet shares it: the fields of its hash in Redis.
public struct BreakerSnapshot: Hashable, Sendable {
    /// What a breaker does with calls.
    public enum State: String, CaseIterable, Codable, Sendable {
        /// Calls go through.
        case closed
        /// Calls are refused.
        case open
        /// A few trial calls find out whether the service is back.
        case halfOpen = "half_open"
    }

    /// What an operator forced; it stands until `AUTO`, or until its end.
    public enum Forced: String, Codable, CaseIterable, Sendable {
        /// All calls are refused.
        case open
        /// All calls go through, and nothing trips.
        case closed
        /// Nothing is refused and nothing trips; outcomes are still counted.
        case disabled
    }

    /// The longest `reason`, in bytes of UTF-8.
    public static let longestReason = 256

    /// The first of what would make more than one line of a reason, or of a terminal's screen something else; `nil`: nothing would.
    package static func controlCharacter(in reason: String) -> Unicode.Scalar? {
        reason.unicodeScalars.first { isControl($0) }
    }

    /// A reason that somebody else has written, with spaces in the place of control characters. O(n).
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

    /// What it does with calls.
    public var state: State = .closed
    /// Why it is in this state: the raw value of a `BreakerCause`; empty: never changed.
    public var cause: String = ""
    /// Since when, in milliseconds of the Unix epoch by Redis' clock.
    package var sinceMilliseconds: Int64 = 0
    /// When an open breaker half-opens, in milliseconds of the Unix epoch by Redis' clock; 0: it does not by itself.
    package var untilMilliseconds: Int64 = 0
    /// Rises with every change of state.
    public var generation: Int64 = 0
    /// How often it opened.
    public var trips: Int64 = 0
    /// The share of failed calls in the window at the last report, 0…1.
    public var failureRate: Double = 0
    /// The share of slow calls in the window at the last report, 0…1.
    public var slowRate: Double = 0
    /// Calls in the window at the last report.
    public var calls: Int64 = 0
    /// Who made the change: a sidecar's ID, with the API key's name when a person did.
    public var by: String = ""
    /// What an operator forced; `nil`: nothing.
    public var forced: Forced?
    /// When the forced state ends, in milliseconds of the Unix epoch by Redis' clock; 0: not by itself.
    package var forcedUntilMilliseconds: Int64 = 0
    /// In words for people: an operator's, or of the probe that failed; may be empty.
    public var reason: String = ""
    /// How often it opened since it was last closed: what the open time grows by.
    public var streak: Int64 = 0
    /// How many failures the fleet has seen in a row, at the last report.
    public var consecutive: Int64 = 0

    package init(state: State = .closed, generation: Int64 = 0, _ fill: (inout BreakerSnapshot) -> Void = { _ in }) {
        self.state = state
        self.generation = generation
        fill(&self)
    }

    /// Reads the fields of an event or a reply by their names. A missing field is empty or 0.
    package init(
        state: State, text: (String) throws -> String?, number: (String) throws -> Int64?, share: (String) throws -> Double?
    ) rethrows {
        self.state = state
        cause = try text("cause") ?? ""
        sinceMilliseconds = try number("since_ms") ?? 0
        untilMilliseconds = try number("until_ms") ?? 0
        generation = try number("generation") ?? 0
        trips = try number("trips") ?? 0
        failureRate = try share("failure_rate") ?? 0
        slowRate = try share("slow_rate") ?? 0
        calls = try number("calls") ?? 0
        by = try text("by") ?? ""
        forced = try text("forced").flatMap(Forced.init)
        forcedUntilMilliseconds = try number("forced_until_ms") ?? 0
        reason = try text("reason") ?? ""
        streak = try number("streak") ?? 0
        consecutive = try number("consecutive") ?? 0
    }

    /// The time of the last change, by Redis' clock; `nil`: the breaker never changed.
    public var since: Date? { Self.date(sinceMilliseconds) }
    /// The time at which an open breaker half-opens, by Redis' clock; `nil`: it does not half-open by itself.
    public var until: Date? { Self.date(untilMilliseconds) }
    /// The end of the forced state, by Redis' clock; `nil`: it does not end by itself, or no state is forced.
    public var forcedUntil: Date? { Self.date(forcedUntilMilliseconds) }

    /// Returns the reasons for the state, in the order in which people ask for them.
    /// - Parameter ownCause: The cause of a sidecar that is open for itself alone.
    package func reasons(ownCause: String? = nil) -> String {
        let end = forced == nil ? untilMilliseconds : forcedUntilMilliseconds
        let reasons = [
            forced.map { "forced \($0.rawValue)" } ?? cause, ownCause.map { "this sidecar alone: \($0)" } ?? "", reason,
            end > 0 ? "until \(ReadableText.moment(epochMilliseconds: end))" : "", by.isEmpty ? "" : "by \(by)",
        ]
        return reasons.filter { !$0.isEmpty }.joined(separator: ", ")
    }

    /// Returns `nil` for 0, which means never.
    private static func date(_ milliseconds: Int64) -> Date? {
        milliseconds > 0 ? Date(epochMilliseconds: milliseconds) : nil
    }
}
