internal import FoundationEssentials

/// Formats the current time for the `Date` field (RFC 9110, section 5.6.7), at most once a second.
///
/// Benchmark: "HTTP API, LIMIT.TAKE, 32 connections" in Benchmarks/figures/sidecar.py.
/// Confined to one event loop.
package final class HTTPDate {
    private let unixSeconds: () -> Int64
    /// The time of `formatted`, as Unix time in seconds.
    private var second = Int64.min
    private var formatted = ""

    /// Creates a formatter.
    /// - Parameter clock: returns Unix time in seconds.
    package init(clock: @escaping () -> Int64 = { Int64(Date.now.timeIntervalSince1970.rounded(.down)) }) {
        unixSeconds = clock
    }

    /// Returns the current time.
    func now() -> String {
        let second = unixSeconds()
        if self.second != second { (self.second, formatted) = (second, Self.text(second: second)) }
        return formatted
    }

    /// Returns a time in the form of the `Date` field.
    /// - Parameter second: Unix time in seconds.
    package static func text(second: Int64) -> String {
        let (day, secondOfDay) = second.quotientAndRemainderRoundedDown(by: 86_400)
        // Days to a Gregorian date: https://howardhinnant.github.io/date_algorithms.html#civil_from_days
        let shifted = day + 719_468
        let (era, dayOfEra) = shifted.quotientAndRemainderRoundedDown(by: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let dayOfMonth = dayOfYear - (153 * marchMonth + 2) / 5 + 1
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        let weekday = (day + 4).quotientAndRemainderRoundedDown(by: 7).remainder
        let timeOfDay = [secondOfDay / 3600, secondOfDay / 60 % 60, secondOfDay % 60]
            .map(twoDigits).joined(separator: ":")
        return "\(weekdays[Int(weekday)]), \(twoDigits(dayOfMonth)) \(months[Int(month - 1)]) \(year) \(timeOfDay) GMT"
    }

    /// Returns the Unix time, in seconds, of a date in one of HTTP's three forms; `nil` if the date is invalid.
    package static func second(_ text: String) -> Int64? {
        let words = text.lowercased().split { $0 == " " || $0 == "\t" }
        switch words.count {
        // Sun, 06 Nov 1994 08:49:37 GMT
        case 6 where words[5] == "gmt":
            return second(day: words[1], month: words[2], year: Int64(words[3]), timeOfDay: words[4])
        // Sun Nov  6 08:49:37 1994
        case 5: return second(day: words[2], month: words[1], year: Int64(words[4]), timeOfDay: words[3])
        // Sunday, 06-Nov-94 08:49:37 GMT
        case 4 where words[3] == "gmt":
            let parts = words[1].split(separator: "-")
            guard parts.count == 3, parts[2].utf8.count == 2, let twoDigitYear = Int64(parts[2]) else { return nil }
            return second(day: parts[0], month: parts[1], year: fullYear(twoDigitYear), timeOfDay: words[2])
        default: return nil
        }
    }

    /// Expands a two-digit year to one of this century, or of the last one if that is more than 50 years in the future
    /// (RFC 9110, section 5.6.7).
    private static func fullYear(_ twoDigitYear: Int64) -> Int64 {
        let currentYear = 1970 + Int64(Date.now.timeIntervalSince1970 / (365.2425 * 86_400))
        let year = currentYear / 100 * 100 + twoDigitYear
        return year > currentYear + 50 ? year - 100 : year
    }

    private static func second(day: Substring, month: Substring, year: Int64?, timeOfDay: Substring) -> Int64? {
        guard let day = Int64(day), let year, let month = months.firstIndex(where: { $0.lowercased() == month }),
            (1...31).contains(day), (1...9999).contains(year)
        else { return nil }
        let time = timeOfDay.split(separator: ":").compactMap { Int64($0) }
        guard time.count == 3, (0...23).contains(time[0]), (0...59).contains(time[1]), (0...60).contains(time[2])
        else { return nil }
        // A date to days: https://howardhinnant.github.io/date_algorithms.html#days_from_civil
        let shiftedYear = month < 2 ? year - 1 : year
        let (era, yearOfEra) = shiftedYear.quotientAndRemainderRoundedDown(by: 400)
        let dayOfYear = (153 * Int64((month + 10) % 12) + 2) / 5 + day - 1
        let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
        return days * 86_400 + time[0] * 3600 + time[1] * 60 + time[2]
    }

    private static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    private static func twoDigits(_ value: Int64) -> String { value < 10 ? "0\(value)" : "\(value)" }
}

extension Int64 {
    fileprivate func quotientAndRemainderRoundedDown(by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}
