/// The parameters of the generic cell rate algorithm (ITU-T I.371, as in redis-cell): at most `capacity` units at once,
/// and one more unit in every interval of window ÷ limit. The interval is exact: whole microseconds plus a number of
/// limit-ths of a microsecond.
package struct CellRate: Hashable, Sendable {
    /// The maximum time until `capacity` units are available again, in microseconds: a hundred years. Its sum with the
    /// current time is below 2⁵³, up to which Redis's scripts count exactly.
    package static let maximumFillMicroseconds: Int64 = 100 * 366 * 86_400 * 1_000_000

    package let limit: Int64
    package let windowMicroseconds: Int64
    package let capacity: Int64

    package init(limit: Int64, windowMicroseconds: Int64, capacity: Int64) {
        self.limit = limit
        self.windowMicroseconds = windowMicroseconds
        self.capacity = capacity
    }

    /// Whether a script can compute with this rate exactly.
    package var isExact: Bool {
        let (high, low) = capacity.multipliedFullWidth(by: windowMicroseconds)
        let (maximumHigh, maximumLow) = Self.maximumFillMicroseconds.multipliedFullWidth(by: limit)
        return (high, low) <= (maximumHigh, maximumLow)
    }

    /// A time in whole microseconds plus a number of limit-ths of a microsecond.
    struct Time: Hashable, Comparable, Sendable {
        var microseconds: Int64
        var fraction: Int64

        /// Whole microseconds, rounded up.
        var roundedUp: Int64 { fraction > 0 ? microseconds + 1 : microseconds }

        static func < (left: Time, right: Time) -> Bool {
            (left.microseconds, left.fraction) < (right.microseconds, right.fraction)
        }
    }

    /// Returns the time in which `units` become available. Saturates.
    func time(of units: Int64) -> Time {
        let (interval, intervalFraction) = windowMicroseconds.quotientAndRemainder(dividingBy: limit)
        let (microseconds, overflow) = units.multipliedReportingOverflow(by: interval)
        let (fractions, fractionsOverflow) = units.multipliedReportingOverflow(by: intervalFraction)
        guard !overflow, !fractionsOverflow else { return Time(microseconds: .max / 2, fraction: 0) }
        let (sum, sumOverflow) = microseconds.addingReportingOverflow(fractions / limit)
        guard !sumOverflow else { return Time(microseconds: .max / 2, fraction: 0) }
        return Time(microseconds: min(sum, .max / 2), fraction: fractions % limit)
    }

    func sum(_ left: Time, _ right: Time) -> Time {
        let fractions = left.fraction + right.fraction
        return Time(
            microseconds: left.microseconds + right.microseconds + fractions / limit, fraction: fractions % limit)
    }

    func difference(_ left: Time, _ right: Time) -> Time {
        let microseconds = left.microseconds - right.microseconds
        let fraction = left.fraction - right.fraction
        return fraction < 0
            ? Time(microseconds: microseconds - 1, fraction: fraction + limit)
            : Time(microseconds: microseconds, fraction: fraction)
    }

    /// Returns the number of units in a backlog of `time`, a partial unit included; `capacity + 1` for any backlog
    /// above the capacity.
    func units(in time: Time) -> Int64 {
        guard time > Time(microseconds: 0, fraction: 0) else { return 0 }
        guard time <= self.time(of: capacity) else { return capacity + 1 }
        // Finds the smallest number of units whose time is not shorter. O(log capacity).
        var low: Int64 = 0
        var high = capacity
        while low < high {
            let middle = low + (high - low) / 2
            if self.time(of: middle) >= time { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

/// The usage of a `CellRate`, stored as its theoretical arrival time. `now` is in microseconds of the caller's clock.
struct CellBucket: Sendable {
    let rate: CellRate
    /// The time at which all units are available again; `nil` before the first take.
    private var fullAt: CellRate.Time?

    init(rate: CellRate) {
        self.rate = rate
    }

    /// Returns the theoretical arrival time, which is never in the past.
    private func arrivalTime(nowMicroseconds: Int64) -> CellRate.Time {
        let now = CellRate.Time(microseconds: nowMicroseconds, fraction: 0)
        return max(fullAt ?? now, now)
    }

    /// Returns the number of taken units, a partial unit included.
    func taken(nowMicroseconds: Int64) -> Int64 {
        let now = CellRate.Time(microseconds: nowMicroseconds, fraction: 0)
        return rate.units(in: rate.difference(arrivalTime(nowMicroseconds: nowMicroseconds), now))
    }

    mutating func take(_ units: Int64, nowMicroseconds: Int64) {
        fullAt = rate.sum(arrivalTime(nowMicroseconds: nowMicroseconds), rate.time(of: units))
    }

    /// Returns the microseconds until at most `units` are taken.
    func waitMicroseconds(until units: Int64, nowMicroseconds: Int64) -> Int64 {
        let due = rate.difference(arrivalTime(nowMicroseconds: nowMicroseconds), rate.time(of: max(0, units)))
        return max(0, due.roundedUp - nowMicroseconds)
    }
}
