/// Formats the numbers of a run for people. Supports numbers of any size, and replaces non-finite ones with a dash.
package enum Figure {
    /// Returns a number with thousands separators: `1,234,567`.
    package static func count(_ count: some BinaryInteger) -> String {
        grouped(String(count.magnitude), isNegative: count < 0)
    }

    /// Returns a latency in microseconds with three significant digits: `85µs`, `1.24ms`, `12.3s`.
    package static func latency(microseconds: Double) -> String {
        switch abs(microseconds) {
        case ..<999.5: digits(microseconds) + "µs"
        case ..<999_500: digits(microseconds / 1000) + "ms"
        case ..<Double.infinity: digits(microseconds / 1_000_000) + "s"
        default: missingValue
        }
    }

    /// Returns a time span in seconds: `30.0ms`, `12.3s`, `1,800s`.
    package static func span(seconds: Double) -> String { latency(microseconds: seconds * 1_000_000) }

    /// Returns a time in seconds since the start of the run: `0.00s`, `12.35s`.
    package static func moment(seconds: Double) -> String {
        seconds.isFinite ? decimals(seconds, 2) + "s" : missingValue
    }

    /// Returns an amount of memory: `812 KB`, `36.2 MB`; 1 KB is 1024 bytes.
    package static func memory(bytes: Int) -> String {
        switch Double(bytes.magnitude) {
        case ..<1024: "\(bytes) B"
        case ..<(1024 * 1024): digits(Double(bytes) / 1024) + " KB"
        case ..<(1024 * 1024 * 1024): digits(Double(bytes) / (1024 * 1024)) + " MB"
        default: digits(Double(bytes) / (1024 * 1024 * 1024)) + " GB"
        }
    }

    /// Returns a number with this many decimals: `0.42`.
    package static func decimals(_ value: Double, _ count: Int) -> String {
        // A larger Double has few decimals, and the scaled number may overflow an Int.
        guard value.isFinite, abs(value) < 1e15 else { return value.isFinite ? "\(value)" : missingValue }
        let scale = (0..<count).reduce(1) { scale, _ in scale * 10 }
        let scaled = (value.magnitude * Double(scale)).rounded()
        guard scaled < 9e18 else { return "\(value)" }
        let units = Int(scaled)
        let whole = grouped(String(units / scale), isNegative: value < 0 && units != 0)
        guard count > 0 else { return whole }
        let fraction = String(units % scale)
        return whole + "." + String(repeating: "0", count: count - fraction.count) + fraction
    }

    /// Returns a number of any size in few characters, for an axis: `0.25`, `40`, `12k`, `3.5M`.
    static func short(_ value: Double) -> String {
        switch abs(value) {
        case 0: "0"
        case ..<0.001: "\(value)"
        case ..<1000: trimmed(decimals(value, 3))
        case ..<1e6: trimmed(decimals(value / 1e3, 3)) + "k"
        case ..<1e9: trimmed(decimals(value / 1e6, 3)) + "M"
        case ..<1e12: trimmed(decimals(value / 1e9, 3)) + "G"
        default: value.isFinite ? "\(value)" : missingValue
        }
    }

    /// Returns a formatted number without trailing zeros after the decimal point.
    static func trimmed(_ figure: String) -> String {
        guard figure.contains(".") else { return figure }
        var trimmed = Substring(figure)
        while trimmed.last == "0" { trimmed.removeLast() }
        if trimmed.last == "." { trimmed.removeLast() }
        return String(trimmed)
    }

    static let missingValue = "–"

    /// Returns a number with three digits, at most two of them after the decimal point.
    private static func digits(_ value: Double) -> String {
        switch abs(value) {
        case 0: "0"
        case ..<9.995: decimals(value, 2)
        case ..<99.95: decimals(value, 1)
        default: decimals(value, 0)
        }
    }

    private static func grouped(_ digits: String, isNegative: Bool) -> String {
        var grouped = isNegative ? "-" : ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { grouped += "," }
            grouped.append(digit)
        }
        return grouped
    }
}
