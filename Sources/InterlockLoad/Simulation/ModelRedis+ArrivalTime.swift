extension ModelRedis {
    /// The generic cell rate algorithm as `counters.lua` keeps it: the theoretical arrival time of the next unit, in whole
    /// microseconds of Redis' clock and limit-ths of one.
    struct ArrivalTime {
        private struct Time: Comparable {
            var whole: Int64
            var part: Int64

            static func < (left: Time, right: Time) -> Bool { (left.whole, left.part) < (right.whole, right.part) }
        }

        private let limit: Int64
        private let window: Int64
        private let time: Int64
        private let arrival: Time

        /// - Parameter value: `TAT` or `TAT:n`; `nil`: nothing is taken.
        init(_ value: String?, limit: Int64, window: Int64, time: Int64) {
            self.limit = limit
            self.window = window
            self.time = time
            let numbers = (value ?? "").split(separator: ":").compactMap { Int64($0) }
            var arrival = Time(whole: numbers.first ?? time, part: numbers.count > 1 ? numbers[1] : 0)
            // It was written under another limit, whose fractions are not these: never too early.
            if arrival.part >= limit { arrival = Time(whole: arrival.whole + 1, part: 0) }
            self.arrival = arrival.whole < time ? Time(whole: time, part: 0) : arrival
        }

        /// The time of `units`, which may be negative.
        private func span(_ units: Int64) -> Time {
            let (step, rest) = window.quotientAndRemainder(dividingBy: limit)
            let parts = units * rest
            let whole = parts >= 0 ? parts / limit : -((-parts + limit - 1) / limit)
            return Time(whole: units * step + whole, part: parts - whole * limit)
        }

        /// The arrival time when `units` more are taken.
        private func after(_ units: Int64) -> Time {
            let span = span(units)
            let sum = Time(whole: arrival.whole + span.whole, part: arrival.part + span.part)
            return sum.part >= limit ? Time(whole: sum.whole + 1, part: sum.part - limit) : sum
        }

        /// How many units are taken, begun ones included; above `capacity` no matter how many. O(log capacity).
        func taken(capacity: Int64) -> Int64 {
            let backlog = Time(whole: arrival.whole - time, part: arrival.part)
            guard backlog <= span(capacity) else { return capacity + 1 }
            var low: Int64 = 0
            var high = capacity
            while low < high {
                let middle = low + (high - low) / 2
                if span(middle) >= backlog { high = middle } else { low = middle + 1 }
            }
            return low
        }

        /// In how many microseconds, rounded up, no more than `units` will be taken, if `more` are taken now.
        func wait(more: Int64, until units: Int64) -> Int64 {
            let then = after(more)
            let allowed = span(units)
            return max(0, then.whole - allowed.whole - time + (then.part > allowed.part ? 1 : 0))
        }

        /// What is kept with `more` units taken, and for how many ms; `nil`: nothing.
        func text(more: Int64) -> (String, ttl: Int64)? { text(at: after(more)) }

        /// What is kept when `units` are taken back that come back by themselves in `left` microseconds.
        func text(givingBack units: Int64, left: Int64) -> (String, ttl: Int64)? {
            text(at: max(after(-units), Time(whole: arrival.whole - left, part: arrival.part)))
        }

        private func text(at then: Time) -> (String, ttl: Int64)? {
            let left = then.whole - time + (then.part > 0 ? 1 : 0)
            guard left > 0 else { return nil }
            return (then.part > 0 ? "\(then.whole):\(then.part)" : "\(then.whole)", ttl: (left + 999) / 1000)
        }
    }
}
