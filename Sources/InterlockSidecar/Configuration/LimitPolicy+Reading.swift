import InterlockCore

extension LimitPolicy {
    private static let pauses: ClosedRange<Duration> = .milliseconds(1) ... .seconds(366 * 86_400)
    private static let patiences: ClosedRange<Duration> = .zero ... .seconds(86_400)
    private static let waitingCounts = 0...100_000

    /// Reads `services.NAME.on_limit`.
    mutating func read(_ value: ConfigurationValue) {
        value.section { section in
            section.read("action", into: &action) { $0.parsed(by: Action.init(parsing:)) }
            section.read("pause", into: &pause) { $0.durationRange(in: Self.pauses) }
            section.read("max_waiting", into: &maximumWaiting) { $0.wholeNumber(in: Self.waitingCounts) }
            section.read("patience", into: &patience) { $0.duration(in: Self.patiences) }
        }
    }
}
