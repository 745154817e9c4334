/// Counts what the servers of a quorum answer to a question of yes or no.
package struct QuorumTally: Sendable {
    package enum Answer: Equatable, Sendable {
        case yes
        case no
        /// It cannot be reached, or had no answer in time.
        case failed
    }

    package enum Verdict: Equatable, Sendable {
        /// What is still to come decides.
        case open
        /// A majority said yes.
        case yes
        /// So many said no that no majority can have said yes.
        case no
        /// Neither, and neither can come about any more.
        case unknown
    }

    /// More than half of `servers`.
    package static func majority(of servers: Int) -> Int { servers / 2 + 1 }

    private let servers: Int
    private var yes = 0
    private var no = 0
    private var failed = 0

    /// - Parameter answers: those that have come.
    package init(servers: Int, answers: some Sequence<Answer> = []) {
        self.servers = servers
        for answer in answers { count(answer) }
    }

    /// The answer of one more server.
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
