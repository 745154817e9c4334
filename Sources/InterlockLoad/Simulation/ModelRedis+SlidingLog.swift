extension ModelRedis {
    /// The log of a sliding window as `counters.lua` keeps it in a hash. Times are whole microseconds of Redis' clock.
    struct SlidingLog {
        /// What a grant changes in the hash.
        enum Change {
            /// Nothing counts any more.
            case empty
            /// These fields are set, those entries go, and it lapses in so many ms; `nil`: when it would have anyway.
            case kept([String: String], stale: Range<Int64>, ttl: Int64?)
        }

        private struct Entry {
            var at: Int64
            var cost: Int64
        }

        /// What counts now.
        let total: Int64
        private let window: Int64
        private let time: Int64
        /// Redis' clock may have been set back; the log stays in order.
        private let now: Int64
        private let head: Int64
        private let tail: Int64
        private let last: Int64
        private let storedTotal: Int64
        private let entries: [Entry]
        /// How many of the entries count no more.
        private let dropped: Int

        init(_ fields: [String: String], window: Int64, time: Int64) {
            func number(_ name: String, default missing: Int64) -> Int64 { fields[name].flatMap(Int64.init) ?? missing }
            self.window = window
            self.time = time
            head = number("head", default: 1)
            tail = number("tail", default: 0)
            last = number("last", default: 0)
            storedTotal = number("total", default: 0)
            now = max(time, last)
            entries = (head..<max(head, tail + 1)).map { number in
                let parts = (fields["\(number)"] ?? "").split(separator: ":").compactMap { Int64($0) }
                return parts.count == 2 ? Entry(at: parts[0], cost: parts[1]) : Entry(at: 0, cost: 0)
            }
            let oldest = now - window
            dropped = entries.firstIndex { $0.at >= oldest } ?? entries.count
            total = storedTotal - entries[..<dropped].reduce(0) { $0 + $1.cost }
        }

        /// In how many microseconds `units` of what counts now will count no more; what is granted now included.
        func wait(units: Int64) -> Int64 {
            guard units > 0 else { return 0 }
            var freed: Int64 = 0
            for entry in entries[dropped...] {
                freed += entry.cost
                if freed >= units { return entry.at + window + 1 - time }
            }
            return now + window + 1 - time
        }

        /// In how many microseconds nothing will count any more, if `more` are taken now.
        func reset(more: Int64) -> Int64 {
            if more > 0 { return now + window + 1 - time }
            return total > 0 ? max(0, last + window + 1 - time) : 0
        }

        func change(taking taken: Int64) -> Change? {
            let first = head + Int64(dropped)
            if taken > 0 {
                let fields = [
                    "head": "\(first)", "tail": "\(tail + 1)", "total": "\(total + taken)", "last": "\(now)",
                    "\(tail + 1)": "\(now):\(taken)",
                ]
                return .kept(fields, stale: head..<first, ttl: (now + window - time) / 1000 + 1)
            }
            guard dropped > 0 else { return nil }
            return total > 0 ? .kept(["head": "\(first)", "total": "\(total)"], stale: head..<first, ttl: nil) : .empty
        }

        /// What changes when `amount` of what was granted at `at` is taken back; `nil`: that is no longer in the log.
        func giveBack(_ amount: Int64, takenAt at: Int64) -> [String: String]? {
            var low = 0
            var high = entries.count - 1
            while low <= high {
                let middle = Int((head + Int64(low) + head + Int64(high)) / 2 - head)
                let entry = entries[middle]
                if entry.at == at {
                    let returned = min(amount, entry.cost)
                    return [
                        "\(head + Int64(middle))": "\(at):\(entry.cost - returned)", "total": "\(storedTotal - returned)",
                    ]
                }
                if entry.at < at { low = middle + 1 } else { high = middle - 1 }
            }
            return nil
        }
    }
}
