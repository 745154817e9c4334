/// A count of the answers of a quorum's servers to a yes-or-no question.
package struct QuorumTally: Sendable {
    /// The answer of one server.
    package enum Answer: Equatable, Sendable {
        case yes
        case no
        /// The server is unreachable or did not answer in time.
        case failed
    }

    /// The result of the count.
    package enum Verdict: Equatable, Sendable {
        /// Undecided; further answers decide.
        case open
        /// A majority answered yes.
        case yes
        /// Too many answered no for a majority of yes.
        case no
        /// Neither yes nor no is possible, because too many servers failed.
        case unknown
    }

    /// Returns the smallest number that is more than half of `servers`.
    package static func majority(of servers: Int) -> Int { servers / 2 + 1 }

    private let serverCount: Int
    private var yesCount = 0
    private var noCount = 0
    private var failedCount = 0

    /// Creates a tally.
    /// - Parameters:
    ///   - servers: the number of servers.
    ///   - answers: the answers so far.
    package init(servers: Int, answers: some Sequence<Answer> = []) {
        serverCount = servers
        for answer in answers { count(answer) }
    }

    /// Counts the answer of one more server.
    package mutating func count(_ answer: Answer) {
        switch answer {
        case .yes: yesCount += 1
        case .no: noCount += 1
        case .failed: failedCount += 1
        }
    }

    package var verdict: Verdict {
        let majority = Self.majority(of: serverCount)
        let openCount = serverCount - yesCount - noCount - failedCount
        if yesCount >= majority { return .yes }
        if noCount > serverCount - majority { return .no }
        let canReachYes = yesCount + openCount >= majority
        let canReachNo = noCount + openCount > serverCount - majority
        return canReachYes || canReachNo ? .open : .unknown
    }
}
