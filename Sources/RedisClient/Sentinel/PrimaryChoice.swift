/// Which of the primaries that Sentinels name is followed. It decides alone, without I/O.
///
/// To begin with a majority of the Sentinels must have answered, so that one which has slept through a failover does not lead to a
/// former primary. Afterwards any one Sentinel is followed to a higher epoch: an epoch is given once, by a majority of
/// them. None is followed to a lower one: never back to a former primary, also when it can be written to for a while. Of the same epoch
/// is only the same server: at another address when a majority names that, as after its host name got one.
///
/// Source: "High availability with Redis Sentinel", configuration epochs.
package struct PrimaryChoice: Sendable {
    /// A primary, and the epoch of the failover that made it one.
    package struct Primary: Hashable, Sendable {
        package var address: RedisConfiguration.Address
        package var epoch: Int64

        package init(_ address: RedisConfiguration.Address, epoch: Int64) {
            self.address = address
            self.epoch = epoch
        }
    }

    /// What an answer means.
    package enum Verdict: Hashable, Sendable {
        /// Too few have answered.
        case undecided
        case unchanged
        /// It is the first one.
        case found(Primary)
        case moved(from: Primary, to: Primary)
        /// It is another server than the one that is followed, of no higher epoch.
        case former(Primary)
    }

    private let sentinels: Int
    /// By Sentinel.
    private var answers: [Int: Primary] = [:]
    /// The one that is followed.
    package private(set) var primary: Primary?

    /// - Parameter sentinels: how many there are.
    package init(sentinels: Int) {
        self.sentinels = sentinels
    }

    /// How many must have answered before the first one is followed.
    package var majority: Int { sentinels / 2 + 1 }
    /// How many are heard.
    package var answering: Int { answers.count }

    /// A Sentinel names `named`.
    package mutating func heard(_ named: Primary, from sentinel: Int) -> Verdict {
        answers[sentinel] = named
        guard let primary else {
            guard answers.count >= majority, let newest = newestNamed else { return .undecided }
            self.primary = newest
            return .found(newest)
        }
        guard named.epoch > primary.epoch || named.epoch == primary.epoch && votes(for: named) >= majority else {
            return named.address == primary.address ? .unchanged : .former(named)
        }
        self.primary = named
        return named.address == primary.address ? .unchanged : .moved(from: primary, to: named)
    }

    private func votes(for named: Primary) -> Int { answers.values.count { $0 == named } }

    /// Of the highest epoch; of several addresses that most name, and of as many the first by its text.
    private var newestNamed: Primary? {
        answers.values.max { one, other in
            let (own, others) = (votes(for: one), votes(for: other))
            guard one.epoch == other.epoch else { return one.epoch < other.epoch }
            return own == others ? "\(one.address)" > "\(other.address)" : own < others
        }
    }

    /// A Sentinel is not heard, or knows no such primary.
    package mutating func lost(_ sentinel: Int) {
        answers[sentinel] = nil
    }
}
