/// Decides which of the reported primaries to follow. A pure value type.
///
/// The first primary requires answers from a majority of the Sentinels, so that one Sentinel that missed a failover
/// cannot lead to a former primary. Later, any single Sentinel can announce a primary of a higher epoch, because a
/// majority assigns each epoch only once. A lower epoch is never followed, so the client never returns to a former
/// primary, even if that still accepts writes. Within one epoch the server stays the same; its address changes only if
/// a majority reports the new one, for example after a host name was configured.
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

    private let sentinelCount: Int
    /// The primary that each Sentinel last reported, by the Sentinel's index.
    private var reports: [Int: Primary] = [:]
    /// The current primary.
    package private(set) var primary: Primary?

    /// Creates a choice without answers.
    /// - Parameter sentinelCount: the number of Sentinels.
    package init(sentinelCount: Int) {
        self.sentinelCount = sentinelCount
    }

    /// The number of answers required for the first primary.
    package var majority: Int { sentinelCount / 2 + 1 }
    /// The number of Sentinels that answer.
    package var answeringCount: Int { reports.count }

    /// Applies the answer of a Sentinel.
    /// - Parameters:
    ///   - reported: the primary that the Sentinel reports.
    ///   - sentinelIndex: the index of the Sentinel.
    package mutating func primaryReported(_ reported: Primary, by sentinelIndex: Int) -> Verdict {
        reports[sentinelIndex] = reported
        guard let primary else {
            guard reports.count >= majority, let newest = newestReported else { return .undecided }
            self.primary = newest
            return .found(newest)
        }
        guard reported.epoch > primary.epoch || reported.epoch == primary.epoch && votes(for: reported) >= majority else {
            return reported.address == primary.address ? .unchanged : .former(reported)
        }
        self.primary = reported
        return reported.address == primary.address ? .unchanged : .moved(from: primary, to: reported)
    }

    private func votes(for reported: Primary) -> Int { reports.values.count { $0 == reported } }

    /// The reported primary with the highest epoch. If Sentinels report several addresses for it, the one with the most
    /// votes wins; among equals, the lexicographically first.
    private var newestReported: Primary? {
        reports.values.max { left, right in
            let (leftVotes, rightVotes) = (votes(for: left), votes(for: right))
            guard left.epoch == right.epoch else { return left.epoch < right.epoch }
            return leftVotes == rightVotes ? "\(left.address)" > "\(right.address)" : leftVotes < rightVotes
        }
    }

    /// Discards the answer of a Sentinel that is unreachable or does not know the primary.
    package mutating func sentinelLost(_ sentinelIndex: Int) {
        reports[sentinelIndex] = nil
    }
}
