internal import InterlockCore

/// The JSON object that `breaker.lua` is called with.
struct BreakerCall {
    private var members = ""

    var json: String { "{" + members + "}" }

    mutating func add(_ name: String, text: String) {
        add(name, raw: JSONText.quoted(text))
    }

    /// Numbers and flags are spelled as JSON has them; `nil` is left out.
    mutating func add(_ name: String, _ value: (some LosslessStringConvertible)?) {
        if let value { add(name, raw: "\(value)") }
    }

    mutating func add(_ name: String, object: [(String, String)]) {
        var nested = BreakerCall()
        for (name, value) in object { nested.add(name, text: value) }
        add(name, raw: nested.json)
    }

    /// As a string: a JSON number of Lua's keeps 14 digits.
    mutating func add(expect generation: Int64) { add("expect", text: "\(generation)") }

    mutating func add(openFor range: ClosedRange<Duration>) {
        add("open_min", range.lowerBound.wholeMilliseconds)
        add("open_max", range.upperBound.wholeMilliseconds)
    }

    /// For how long the upstream asked to be left alone, in milliseconds.
    mutating func add(pause milliseconds: Int64?, atMost longest: Int64) {
        guard let milliseconds else { return }
        add("pause", milliseconds)
        add("longest", longest)
    }

    mutating func add(_ sums: OutcomeSums) {
        add("calls", sums.calls)
        add("failures", sums.failures)
        add("slow", sums.slow)
        add("trailing", sums.trailingFailures)
    }

    /// The window, and when it trips.
    mutating func add(rulesOf settings: BreakerSettings) {
        switch settings.window {
        case .time(let length): add("window", length.wholeMilliseconds)
        case .calls(let count): add("window_calls", count)
        }
        add("minimum", settings.minimumCalls)
        add("failure_rate", settings.failureRate)
        if settings.slowCall != nil { add("slow_rate", settings.slowRate) }
        add("consecutive", settings.consecutiveFailures)
        if !settings.isMetricsOnly, !settings.isByReporters { add("judge", true) }
    }

    private mutating func add(_ name: String, raw value: String) {
        if !members.isEmpty { members += "," }
        members += "\"\(name)\":\(value)"
    }
}
