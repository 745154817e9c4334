/// Counts the answers of a quorum's servers to a yes-or-no question.
package struct QuorumTally: Sendable {
    package enum Answer: Equatable, Sendable {
        case yes
        case no
        /// Unreachable, or no answer in time.
        case failed
    }

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

    /// More than half of `servers`.
    package static func majority(of servers: Int) -> Int { servers / 2 + 1 }

    private let servers: Int
    private var yes = 0
    private var no = 0
    private var failed = 0

    /// - Parameter answers: the answers so far.
    package init(servers: Int, answers: some Sequence<Answer> = []) {
        self.servers = servers
        for answer in answers { count(answer) }
    }

    /// Counts the answer of one more server.
    package mutating func count(_ answer: Answer) {
        switch answer {
        case .yes: yes += 1
        case .no: no += 1
        case .failed: failed += 1
        }
    }

    package var verdict: Verdict {
        let majority = Self.majority(of: servers)
        let open = servers - yes - no - failed
        if yes >= majority { return .yes }
        if no > servers - majority { return .no }
        return yes + open < majority && no + open <= servers - majority ? .unknown : .open
    }
}
