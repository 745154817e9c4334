import InterlockCore

extension BreakerSettings {
    private static let durations: ClosedRange<Duration> = .milliseconds(1) ... .seconds(366 * 86_400)
    private static let callCounts = 1...1_000_000_000
    private static let permitCounts = 1...10_000

    /// Reads `services.NAME.breaker`.
    mutating func read(_ value: ConfigurationValue) {
        value.section { section in
            section.read("failure_rate", into: &failureRate) { $0.percentage() }
            section.readOptional("slow_call", into: &slowCall) { $0.duration(in: Self.durations) }
            section.read("slow_rate", into: &slowRate) { $0.percentage() }
            section.read("window", into: &window) { $0.duration(in: Self.durations).map { .time($0) } }
            section.read("minimum_calls", into: &minimumCalls) { $0.wholeNumber(in: Self.callCounts) }
            section.read("open_for", into: &openFor) { $0.durationRange(in: Self.durations) }
            section.read("half_open_permits", into: &halfOpenPermits) { $0.wholeNumber(in: Self.permitCounts) }
            section.read("reporters") { value in
                if let reporters = value.wholeNumber(in: 1...Int.max), reporters != 1 {
                    value.refuse("expected 1, got \(reporters); more reporters are not supported by this version")
                }
            }
        }
    }
}
