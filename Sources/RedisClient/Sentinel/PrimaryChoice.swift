/// Decides which of the primaries that Sentinels report to follow. A pure value type.
///
/// The first primary requires answers from a majority of the Sentinels, so that a Sentinel that missed a failover does
/// not lead to a former primary. Afterwards any single Sentinel can announce a primary of a higher epoch, because a
/// majority assigns each epoch, once. A lower epoch is never followed, so that the client never returns to a former
/// primary, even one that accepts writes for a while. Within one epoch the server stays the same; its address changes
/// only if a majority reports it, as when a host name was configured for it.
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

    /// The consequence of an answer.
    package enum Verdict: Hashable, Sendable {
        /// Too few Sentinels have answered.
        case undecided
        case unchanged
        /// The first primary to follow.
        case found(Primary)
        case moved(from: Primary, to: Primary)
        /// A different server than the current primary, without a higher epoch.
        case former(Primary)
    }

    private let sentinels: Int
    /// The last answer of each Sentinel, by its index.
    private var answers: [Int: Primary] = [:]
    /// The current primary.
    package private(set) var primary: Primary?

    /// - Parameter sentinels: the number of Sentinels.
    package init(sentinels: Int) {
        self.sentinels = sentinels
    }

    /// The number of answers required for the first primary.
    package var majority: Int { sentinels / 2 + 1 }
    /// The number of Sentinels that answer.
    package var answeringCount: Int { answers.count }

    /// Applies the answer of a Sentinel.
    /// - Parameters:
    ///   - reported: the primary that the Sentinel reports.
    ///   - sentinel: the index of the Sentinel.
    package mutating func received(_ reported: Primary, from sentinel: Int) -> Verdict {
        answers[sentinel] = reported
        guard let primary else {
            guard answers.count >= majority, let newest = newestReported else { return .undecided }
            self.primary = newest
            return .found(newest)
        }
        guard reported.epoch > primary.epoch || reported.epoch == primary.epoch && votes(for: reported) >= majority else {
            return reported.address == primary.address ? .unchanged : .former(reported)
        }
        self.primary = reported
        return reported.address == primary.address ? .unchanged : .moved(from: primary, to: reported)
    }

    private func votes(for reported: Primary) -> Int { answers.values.count { $0 == reported } }

    /// The reported primary with the highest epoch. Of several addresses, the one that most Sentinels report; if tied,
    /// the lexicographically first.
    private var newestReported: Primary? {
        answers.values.max { one, other in
            let (oneVotes, otherVotes) = (votes(for: one), votes(for: other))
            guard one.epoch == other.epoch else { return one.epoch < other.epoch }
            return oneVotes == otherVotes ? "\(one.address)" > "\(other.address)" : oneVotes < otherVotes
        }
    }

    /// Removes the answer of a Sentinel that is unreachable or does not know the primary.
    package mutating func lost(_ sentinel: Int) {
        answers[sentinel] = nil
    }
}
