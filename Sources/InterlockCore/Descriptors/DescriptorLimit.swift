/// The limit of the descriptors that end at a rule.
package enum DescriptorLimit: Hashable, Sendable {
    /// All descriptors pass and are counted only in the metrics.
    case unlimited
    /// No descriptor passes. Callers are shown the window, but there is no counter.
    case blocked(window: Duration)
    /// A limited number of descriptors pass in each window. The limit's name is the last part of the counters' keys.
    /// The windows of an aligned limit begin at multiples of their length, by the Redis clock.
    case rate(LimitDefinition, isAligned: Bool)

    /// The window of a limit of 0 whose definition names no window.
    package static let blockedWindow = Duration.seconds(86_400)
}

extension DescriptorLimit: DigestedSetting {
    package var digestedParts: Parts {
        switch self {
        case .unlimited: []
        case .blocked(let window): [("blocked.window", window)]
        case .rate(let limit, let isAligned): [("rate..0", limit), ("rate.isAligned", isAligned)]
        }
    }
    /// The text of `unlimited`, the only case without parts.
    package var digestedText: String { "unlimited" }
}
