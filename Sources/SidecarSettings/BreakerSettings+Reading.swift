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
            section.readOptional("slow_call", into: &slowCall) { $0.duration(in: Self.durationRange) }
            section.read("slow_rate", into: &slowRate) { $0.percentage() }
            readWindow(section)
            section.readOptional("consecutive_failures", into: &consecutiveFailures) { $0.wholeNumber(in: Self.callCountRange) }
            section.read("reporters", into: &reporters) { $0.wholeNumber(in: Self.reporterCountRange) }
            section.read("open_for", into: &openFor) { $0.durationRange(in: Self.durationRange) }
            section.read("half_open_permits", into: &halfOpenPermits) { $0.wholeNumber(in: Self.permitCountRange) }
            section.read("failures", into: &failureStatuses) { $0.statusesOrNone() }
            section.read("ignore", into: &ignoredStatuses) { $0.statusesOrNone() }
            section.read("honour_retry_after", into: &honorsRetryAfter) { $0.flag() }
            section.read("metrics_only", into: &isMetricsOnly) { $0.flag() }
        }
    }

    /// Reads `window`, `window_calls` and `minimum_calls`, which depend on each other.
    private mutating func readWindow(_ section: ConfigurationSection) {
        let timeValue = section.value("window")
        let callsValue = section.value("window_calls")
        if let timeValue, let duration = timeValue.duration(in: Self.durationRange) { window = .time(duration) }
        if let callsValue {
            if timeValue != nil {
                callsValue.reject("conflicts with window; remove one of them")
            } else if let count = callsValue.wholeNumber(in: Self.windowCallCountRange) {
                window = .calls(count)
            }
        }
        guard let value = section.value("minimum_calls") else {
            // The default is intended for a window of time, and may exceed the size of a window of calls.
            if case .calls(let count) = window { minimumCalls = min(minimumCalls, count) }
            return
        }
        guard let minimum = value.wholeNumber(in: Self.callCountRange) else { return }
        minimumCalls = minimum
        if case .calls(let count) = window, minimum > count {
            value.reject("expected at most window_calls (\(count)), got \(minimum)")
        }
    }
}

extension ConfigurationValue {
    /// Reads statuses. Accepts an empty list.
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
            reject("expected \(StatusSet.expectation), got an empty list")
            return nil
        }
        return ranges.count == items.count ? StatusSet(ranges: ranges) : nil
    }
}

extension StatusSet {
    fileprivate static let expectation =
        "a status or a range such as 200..399, within \(possible.lowerBound)..\(possible.upperBound)"

    fileprivate static func parseRange(_ text: String) throws(InvalidConfigurationValue) -> ClosedRange<Int> {
        let parts =
            text.firstRange(of: "..").map { [text[..<$0.lowerBound], text[$0.upperBound...]] } ?? [text[...]]
        let ends = parts.compactMap(ConfigurationText.wholeNumber)
        guard ends.count == parts.count, let lower = ends.first, let upper = ends.last, lower <= upper,
            let lower = Int(exactly: lower), let upper = Int(exactly: upper),
            possible.contains(lower), possible.contains(upper)
        else { throw InvalidConfigurationValue(expectation, suggestion: ConfigurationSuggestion.statuses(for: text)) }
        return lower...upper
    }
}
