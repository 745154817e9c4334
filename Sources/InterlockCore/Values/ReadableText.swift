internal import FoundationEssentials

/// Formats numbers for human readers. Accepts any value, because the numbers come from other processes.
package enum ReadableText {
    /// Formats a span of time, such as `850ms`, `29.6s`, `4m 10s`, `3h 5m`, `2d 4h`.
    package static func span(milliseconds: Int64) -> String {
        switch milliseconds {
        case ..<1000: "\(milliseconds)ms"
        case ..<60_000: "\(milliseconds / 1000).\(milliseconds % 1000 / 100)s"
        case ..<3_600_000: "\(milliseconds / 60_000)m \(milliseconds % 60_000 / 1000)s"
        case ..<86_400_000: "\(milliseconds / 3_600_000)h \(milliseconds % 3_600_000 / 60_000)m"
        default: "\(milliseconds / 86_400_000)d \(milliseconds % 86_400_000 / 3_600_000)h"
        }
    }

    /// Formats a time in UTC, such as `2026-11-21T04:39:16.612Z`. The result is empty for 0, which means no time.
    package static func moment(epochMilliseconds: Int64) -> String {
        guard epochMilliseconds != 0 else { return "" }
        let clamped = min(
            max(epochMilliseconds, EpochMilliseconds.calendarRange.lowerBound), EpochMilliseconds.calendarRange.upperBound)
        let date = Date(timeIntervalSince1970: Double(clamped) / 1000)
        return Date.ISO8601FormatStyle(includingFractionalSeconds: true).format(date)
    }

    /// Formats a fraction as a percentage.
    package static func percentage(_ fraction: Double) -> String {
        guard fraction.isFinite else { return "" }
        return "\(Int((min(max(fraction, 0), 1) * 100).rounded()))%"
    }
}

extension String {
    /// The text without a final period, so that it can be followed by a semicolon or a parenthesis.
    package var withoutFinalPeriod: String { last == "." ? String(dropLast()) : self }
}
