import FoundationEssentials

/// Numbers as people read them. The numbers come from elsewhere: none of them may be too large or too odd to show.
enum ReadableText {
    /// A span of time: `850ms`, `29.6s`, `4m 10s`, `3h 5m`, `2d 4h`.
    static func span(milliseconds: Int64) -> String {
        switch milliseconds {
        case ..<1000: "\(milliseconds)ms"
        case ..<60_000: "\(milliseconds / 1000).\(milliseconds % 1000 / 100)s"
        case ..<3_600_000: "\(milliseconds / 60_000)m \(milliseconds % 60_000 / 1000)s"
        case ..<86_400_000: "\(milliseconds / 3_600_000)h \(milliseconds % 3_600_000 / 60_000)m"
        default: "\(milliseconds / 86_400_000)d \(milliseconds % 86_400_000 / 3_600_000)h"
        }
    }

    /// A moment in UTC: `2026-11-21T04:39:16.612Z`; empty for 0, which stands for none.
    static func moment(epochMilliseconds: Int64) -> String {
        guard epochMilliseconds != 0 else { return "" }
        let shown = min(max(epochMilliseconds, 0), lastShown)
        let date = Date(timeIntervalSince1970: Double(shown) / 1000)
        return Date.ISO8601FormatStyle(includingFractionalSeconds: true).format(date)
    }

    /// A share of one as a percentage.
    static func percentage(_ share: Double) -> String {
        guard share.isFinite else { return "" }
        return "\(Int((min(max(share, 0), 1) * 100).rounded()))%"
    }

    /// The end of the year 9999.
    private static let lastShown: Int64 = 253_402_300_799_999
}
