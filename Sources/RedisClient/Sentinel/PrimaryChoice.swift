/// Decides which of the primaries that Sentinels report to follow. Pure, without I/O.
///
/// At first a majority of the Sentinels must have answered, so that one that missed a failover does not lead to a
/// former primary. Afterwards any single Sentinel can announce a primary of a higher epoch, because an epoch is
/// assigned once, by a majority. A lower epoch is never followed, so that the client never returns to a former primary,
/// even one that accepts writes for a while. Within one epoch the server stays the same; its address changes only if a
/// majority reports it, as after its host name was configured.
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

    /// The meaning of an answer.
    package enum Verdict: Hashable, Sendable {
        /// Too few Sentinels have answered.
        case undecided
        case unchanged
        /// The first primary to follow.
        case found(Primary)
        case moved(from: Primary, to: Primary)
        /// A different server than the one that is followed, without a higher epoch.
        case former(Primary)
    }

    private let sentinels: Int
    /// The last answer of each Sentinel, by its index.
    private var answers: [Int: Primary] = [:]
    /// The primary that is followed.
    package private(set) var primary: Primary?

    /// - Parameter sentinels: the number of Sentinels.
    package init(sentinels: Int) {
        self.sentinels = sentinels
    }

    /// The number of answers required before the first primary is followed.
    package var majority: Int { sentinels / 2 + 1 }
    /// The number of Sentinels that answer.
    package var answering: Int { answers.count }

    /// Applies a Sentinel's answer, the primary `named`.
    package mutating func received(_ named: Primary, from sentinel: Int) -> Verdict {
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

    /// The named primary with the highest epoch. Of several addresses, the one that most Sentinels name; if tied, the
    /// first in text order.
    private var newestNamed: Primary? {
        answers.values.max { one, other in
            let (own, others) = (votes(for: one), votes(for: other))
            guard one.epoch == other.epoch else { return one.epoch < other.epoch }
            return own == others ? "\(one.address)" > "\(other.address)" : own < others
        }
    }

    /// Removes the answer of a Sentinel that is unreachable or does not know the primary.
    package mutating func lost(_ sentinel: Int) {
        answers[sentinel] = nil
    }
}
