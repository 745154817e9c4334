/// What an axis measures: how its numbers are written, and at which of them it has ticks.
enum AxisUnit: Hashable, Sendable {
    case number
    case microseconds
    /// Of a run.
    case seconds
    /// 1 ÷ (1 − share): 10 is the 90th percentile, 100 the 99th.
    case percentile

    /// As a tick says it.
    func tick(_ value: Double) -> String {
        switch self {
        case .number: Figure.short(value)
        case .microseconds: Self.latency(value)
        case .seconds: Self.moment(value)
        case .percentile: Figure.trimmed(Figure.decimals(100 - 100 / value, 7)) + "%"
        }
    }

    /// As a person reads it in a table or above a point.
    func figure(_ value: Double) -> String {
        switch self {
        case .number: Figure.trimmed(Figure.decimals(value, 3))
        case .microseconds: Figure.latency(microseconds: value)
        case .seconds: Figure.moment(seconds: value)
        case .percentile: tick(value)
        }
    }

    /// Steps that people count in, for an axis that is not logarithmic.
    func step(atLeast smallest: Double) -> Double {
        if self == .seconds, smallest > 10, let step = Self.clockSteps.first(where: { $0 >= smallest }) { return step }
        guard smallest > 0 else { return 1 }
        var decade = 1.0
        while decade > smallest { decade /= 10 }
        while decade * 10 <= smallest { decade *= 10 }
        return [1.0, 2, 5, 10].map { $0 * decade }.first { $0 >= smallest } ?? decade * 10
    }

    private static let clockSteps: [Double] = [15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400]

    private static func latency(_ value: Double) -> String {
        switch value {
        case ..<1000: Figure.trimmed(Figure.decimals(value, 3)) + "µs"
        case ..<1_000_000: Figure.trimmed(Figure.decimals(value / 1e3, 3)) + "ms"
        default: Figure.trimmed(Figure.decimals(value / 1e6, 3)) + "s"
        }
    }

    private static func moment(_ value: Double) -> String {
        guard value >= 120, value < 1e9 else { return Figure.trimmed(Figure.decimals(value, 3)) + "s" }
        let seconds = Int(value.rounded())
        let minutes = seconds % 3600 / 60
        return (seconds >= 3600 ? "\(seconds / 3600)h" : "") + (minutes > 0 ? "\(minutes)m" : "")
            + (seconds % 60 > 0 ? "\(seconds % 60)s" : "")
    }
}
