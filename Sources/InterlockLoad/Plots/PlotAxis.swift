internal import Glibc

/// An axis of a plot: its domain and its scale.
struct PlotAxis: Hashable, Sendable {
    enum Scale: Hashable, Sendable {
        case linear, logarithmic
    }

    let label: String
    let unit: AxisUnit
    let scale: Scale
    /// The range of values that the axis shows: finite, non-empty, and positive if the axis is logarithmic.
    let domain: ClosedRange<Double>

    /// Creates an axis that covers all `values` that its scale can show.
    ///
    /// - Parameter isExact: whether a linear axis ends at the outermost values, as a time axis does. Otherwise the axis
    ///   includes 0 and ends at ticks.
    init(
        label: String, unit: AxisUnit, scale: Scale = .linear, showing values: some Sequence<Double>, isExact: Bool = false
    ) {
        self.label = label
        self.unit = unit
        self.scale = scale
        var extent: ClosedRange<Double>?
        for value in values where scale.shows(value) {
            extent = extent.map { min($0.lowerBound, value)...max($0.upperBound, value) } ?? value...value
        }
        switch scale {
        case .linear:
            let range = extent ?? 0...1
            let low = isExact ? range.lowerBound : min(range.lowerBound, 0)
            let high = range.upperBound > low ? range.upperBound : low + max(1, abs(low))
            let step = unit.step(atLeast: (high - low) / 6)
            domain = isExact ? low...high : (low / step).rounded(.down) * step...(high / step).rounded(.up) * step
        case .logarithmic:
            let range = extent ?? 1...10
            let (minimum, maximum) = (range.lowerBound, range.upperBound)
            let low = Self.roundNumbers(from: minimum / 10, through: minimum).last ?? minimum
            let high = Self.roundNumbers(from: maximum, through: maximum * 10).first ?? maximum
            domain = low...(high > low ? high : low * 10)
        }
    }

    /// Returns the position of a value from 0 to 1; `nil` if the scale cannot show it.
    func position(of value: Double) -> Double? {
        guard scale.shows(value) else { return nil }
        let low = scale.projection(of: domain.lowerBound)
        let high = scale.projection(of: domain.upperBound)
        return min(max((scale.projection(of: value) - low) / (high - low), 0), 1)
    }

    /// The values of the ticks, about ten at most.
    var ticks: [Double] {
        switch scale {
        case .linear:
            let step = unit.step(atLeast: (domain.upperBound - domain.lowerBound) / 6)
            let first = (domain.lowerBound / step - Self.tolerance).rounded(.up)
            let last = (domain.upperBound / step + Self.tolerance).rounded(.down)
            guard first <= last, last - first < 20 else { return [domain.lowerBound, domain.upperBound] }
            return (0...Int(last - first)).map { (first + Double($0)) * step }
        case .logarithmic:
            let roundNumbers = Self.roundNumbers(from: domain.lowerBound, through: domain.upperBound)
            guard roundNumbers.count > 7 else { return roundNumbers }
            let powers = Self.powersOfTen(from: domain.lowerBound, through: domain.upperBound)
            let stride = (powers.count + 7) / 8
            return powers.enumerated().filter { $0.offset % stride == 0 }.map(\.element)
        }
    }

    /// Returns the numbers 1, 2, 5, 10, 20, 50 … within the range.
    private static func roundNumbers(from low: Double, through high: Double) -> [Double] {
        powersOfTen(from: low / 10, through: high)
            .flatMap { power -> [Double] in [power, power * 2, power * 5] }
            .filter { (low * (1 - tolerance)...high * (1 + tolerance)).contains($0) }
    }

    private static func powersOfTen(from low: Double, through high: Double) -> [Double] {
        let first = Int(log10(low * (1 - tolerance)).rounded(.up))
        let last = Int(log10(high * (1 + tolerance)).rounded(.down))
        return first <= last ? (first...last).map { pow(10, Double($0)) } : []
    }

    /// The relative error allowed between a binary fraction and the decimal one it represents.
    private static let tolerance = 1e-9
}

extension PlotAxis.Scale {
    /// Returns whether the scale can show `value`. It excludes values so large that the arithmetic would be imprecise.
    func shows(_ value: Double) -> Bool {
        switch self {
        case .linear: value.isFinite && abs(value) < 1e15
        case .logarithmic: value.isFinite && (1e-9..<1e15).contains(value)
        }
    }

    fileprivate func projection(of value: Double) -> Double {
        switch self {
        case .linear: value
        case .logarithmic: log10(value)
        }
    }
}

/// The unit of an axis, which determines the ticks and the format of numbers.
enum AxisUnit: Hashable, Sendable {
    case number
    case microseconds
    /// Seconds since the start of the run.
    case seconds
    /// The value 1 ÷ (1 − fraction): 10 stands for the 90th percentile, 100 for the 99th.
    case percentile

    /// Returns the text of a tick.
    func tick(_ value: Double) -> String {
        switch self {
        case .number: Figure.short(value)
        case .microseconds: Self.latency(value)
        case .seconds: Self.moment(value)
        case .percentile: Figure.trimmed(Figure.decimals(100 - 100 / value, 7)) + "%"
        }
    }

    /// Returns the text of a value in a table or a tooltip.
    func figure(_ value: Double) -> String {
        switch self {
        case .number: Figure.trimmed(Figure.decimals(value, 3))
        case .microseconds: Figure.latency(microseconds: value)
        case .seconds: Figure.moment(seconds: value)
        case .percentile: tick(value)
        }
    }

    /// Returns the step between the ticks of a linear axis: the smallest round number (1, 2, 5, 10 …) or time (15 s, 1
    /// min …) that is not below `smallest`.
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
