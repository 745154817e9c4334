import InterlockCore

extension BreakerSettings {
    /// Reads `services.NAME.breaker`.
    mutating func read(_ value: ConfigurationValue) {
        if let isOn = value.node.plainText.flatMap(Bool.init) {
            let remedy =
                isOn
                ? "every service has a breaker by default, so remove the key"
                : "to keep the breaker from opening, write breaker: { metrics_only: true }"
            return value.reject("expected a mapping (key: value), got \(isOn); \(remedy)")
        }
        value.section(shorthand: "failure_rate") { section in
            section.read("failure_rate", into: &failureRate) { $0.percentage() }
            section.readOptional("slow_call", into: &slowCall) { $0.duration(in: Self.durations) }
            section.read("slow_rate", into: &slowRate) { $0.percentage() }
            readWindow(section)
            section.readOptional("consecutive_failures", into: &consecutiveFailures) { $0.wholeNumber(in: Self.callCounts) }
            section.read("reporters", into: &reporters) { $0.wholeNumber(in: Self.reporterCounts) }
            section.read("open_for", into: &openFor) { $0.durationRange(in: Self.durations) }
            section.read("half_open_permits", into: &halfOpenPermits) { $0.wholeNumber(in: Self.permitCounts) }
            section.read("failures", into: &failureStatuses) { $0.statusesOrNone() }
            section.read("ignore", into: &ignoredStatuses) { $0.statusesOrNone() }
            section.read("honour_retry_after", into: &honoursRetryAfter) { $0.flag() }
            section.read("metrics_only", into: &isMetricsOnly) { $0.flag() }
        }
    }

    private mutating func readWindow(_ section: ConfigurationSection) {
        let time = section.value("window")
        let calls = section.value("window_calls")
        if let time, let parsed = time.duration(in: Self.durations) { window = .time(parsed) }
        if let calls {
            if time != nil {
                calls.reject("conflicts with window; remove one of them")
            } else if let parsed = calls.wholeNumber(in: Self.windowCalls) {
                window = .calls(parsed)
            }
        }
        guard let value = section.value("minimum_calls") else {
            // The default is meant for a window of time and may exceed a window of calls.
            if case .calls(let count) = window { minimumCalls = min(minimumCalls, count) }
            return
        }
        guard let parsed = value.wholeNumber(in: Self.callCounts) else { return }
        minimumCalls = parsed
        if case .calls(let count) = window, parsed > count {
            value.reject("expected at most window_calls (\(count)), got \(parsed)")
        }
    }
}

extension ConfigurationValue {
    /// Reads statuses, or an empty list.
    fileprivate func statusesOrNone() -> StatusSet? {
        if case .sequence(let sequence) = node.content, sequence.isEmpty { return StatusSet() }
        return statuses()
    }
}

extension ConfigurationValue {
    /// Reads at least one status within 100..599: `200`, `200..399`, or a list such as `[200, 301..302]`.
    func statuses() -> StatusSet? {
        guard case .sequence = node.content else {
            return parsed(by: StatusSet.parseRange).map { StatusSet(ranges: [$0]) }
        }
        let items = list()
        let ranges = items.compactMap { $0.parsed(by: StatusSet.parseRange) }
        guard !items.isEmpty else {
            reject("expected \(StatusSet.wanted), got an empty list")
            return nil
        }
        return ranges.count == items.count ? StatusSet(ranges: ranges) : nil
    }
}

extension StatusSet {
    fileprivate static let wanted =
        "a status or a range such as 200..399, within \(possible.lowerBound)..\(possible.upperBound)"

    fileprivate static func parseRange(_ text: String) throws(InvalidConfigurationValue) -> ClosedRange<Int> {
        let parts =
            text.firstRange(of: "..").map { [text[..<$0.lowerBound], text[$0.upperBound...]] } ?? [text[...]]
        let ends = parts.compactMap(ConfigurationText.wholeNumber)
        guard ends.count == parts.count, let lower = ends.first, let upper = ends.last, lower <= upper,
            let lower = Int(exactly: lower), let upper = Int(exactly: upper),
            possible.contains(lower), possible.contains(upper)
        else { throw InvalidConfigurationValue(wanted, suggestion: ConfigurationSuggestion.statuses(for: text)) }
        return lower...upper
    }
}
