/// The parameters of the generic cell rate algorithm (ITU-T I.371, as in redis-cell): at most `capacity` units at once,
/// and one more every window ÷ limit. That interval is exact: whole microseconds plus limit-ths of one.
package struct CellRate: Hashable, Sendable {
    /// The maximum time until `capacity` units are available again, in microseconds: a hundred years. Added to the
    /// current time, it stays below 2⁵³, up to which Redis's scripts count exactly.
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

    /// Returns the time of `units`. Saturates.
    func time(of units: Int64) -> Time {
        let (steps, rest) = windowMicroseconds.quotientAndRemainder(dividingBy: limit)
        let (microseconds, overflow) = units.multipliedReportingOverflow(by: steps)
        let (parts, partsOverflow) = units.multipliedReportingOverflow(by: rest)
        guard !overflow, !partsOverflow else { return Time(microseconds: .max / 2, fraction: 0) }
        let (sum, sumOverflow) = microseconds.addingReportingOverflow(parts / limit)
        guard !sumOverflow else { return Time(microseconds: .max / 2, fraction: 0) }
        return Time(microseconds: min(sum, .max / 2), fraction: parts % limit)
    }

    func sum(_ left: Time, _ right: Time) -> Time {
        let parts = left.fraction + right.fraction
        return Time(microseconds: left.microseconds + right.microseconds + parts / limit, fraction: parts % limit)
    }

    func difference(_ left: Time, _ right: Time) -> Time {
        let microseconds = left.microseconds - right.microseconds
        let fraction = left.fraction - right.fraction
        return fraction < 0
            ? Time(microseconds: microseconds - 1, fraction: fraction + limit)
            : Time(microseconds: microseconds, fraction: fraction)
    }

    /// Returns the number of units in a backlog of `time`, partial ones included; `capacity + 1` for any backlog above
    /// the capacity.
    func units(in time: Time) -> Int64 {
        guard time > Time(microseconds: 0, fraction: 0) else { return 0 }
        guard time <= self.time(of: capacity) else { return capacity + 1 }
        // Finds the smallest number whose time is not shorter. O(log capacity).
        var low: Int64 = 0
        var high = capacity
        while low < high {
            let middle = low + (high - low) / 2
            if self.time(of: middle) >= time { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

/// The usage of a `CellRate`, stored as its theoretical arrival time.
struct CellBucket: Sendable {
    let rate: CellRate
    /// The end of the refill of all units, in microseconds of the caller's clock; `nil` before the first
    /// take.
    private var fullAt: CellRate.Time?

    init(rate: CellRate) {
        self.rate = rate
    }

    private func arrival(now: Int64) -> CellRate.Time {
        let present = CellRate.Time(microseconds: now, fraction: 0)
        return max(fullAt ?? present, present)
    }

    /// Returns the number of taken units, partial ones included.
    func taken(now: Int64) -> Int64 {
        rate.units(in: rate.difference(arrival(now: now), CellRate.Time(microseconds: now, fraction: 0)))
    }

    mutating func take(_ units: Int64, now: Int64) {
        fullAt = rate.sum(arrival(now: now), rate.time(of: units))
    }

    /// Returns the microseconds until at most `units` are taken.
    func wait(until units: Int64, now: Int64) -> Int64 {
        let due = rate.difference(arrival(now: now), rate.time(of: max(0, units)))
        return max(0, due.roundedUp - now)
    }
}
