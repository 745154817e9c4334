import InterlockCore

extension LimitPolicy {
    private static let pauses: ClosedRange<Duration> = .milliseconds(1) ... .seconds(366 * 86_400)
    private static let patiences: ClosedRange<Duration> = .zero ... .seconds(86_400)
    private static let waitingCounts = 0...100_000

    /// Reads `services.NAME.on_limit`.
    mutating func read(_ value: ConfigurationValue) {
        value.section { section in
            section.read("action", into: &action) { value in
                let action = value.parsed(by: Action.init(parsing:))
                if action == .wait {
                    value.findings.warn(
                        "\(value.path): wait concerns the proxy and is not carried out by this version; "
                            + "TAKE and PERMIT answer at once unless the caller says WAIT"
                    )
                }
                return action
            }
            section.read("pause", into: &pause) { $0.durationRange(in: Self.pauses) }
            section.read("max_waiting", into: &maximumWaiting) { $0.wholeNumber(in: Self.waitingCounts) }
            section.read("patience") { value in
                if value.duration(in: Self.patiences) != nil { value.warnNotCarriedOut() }
            }
        }
    }
}
