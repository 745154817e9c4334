/// Decides when reads of a response reach the channel: the receiver may hold them back, and reads of a large response
/// take turns with those of other connections. Pure.
package struct ResponseReads: Sendable {
    package enum Action: Equatable, Sendable {
        case none
        /// Read from the channel.
        case read
        /// Request a turn to read.
        case requestTurn
        /// Return the turn.
        case endTurn
        /// Return the turn, then request another one.
        case endTurnAndRequestAnother
    }

    private enum Hold {
        case released
        case held
        /// The channel has requested a read while reading was held back.
        case heldWithRead
    }

    private enum Turn {
        case none
        case awaited
        case taken
    }

    private enum Pace {
        case immediate
        /// The last read of this response was large.
        case inTurns
    }

    private var hold = Hold.released
    private var turn = Turn.none
    private var pace = Pace.immediate

    package init() {}

    /// Handles a read request of the channel.
    package mutating func readRequested() -> Action {
        switch hold {
        case .released: return read()
        case .held, .heldWithRead:
            hold = .heldWithRead
            return .none
        }
    }

    /// Holds back reads until `receiverResumes`.
    package mutating func receiverHolds() {
        if hold == .released { hold = .held }
    }

    /// Permits reads again, and makes the read that was held back.
    package mutating func receiverResumes() -> Action {
        let previous = hold
        hold = .released
        return previous == .heldWithRead ? read() : .none
    }

    private mutating func read() -> Action {
        guard pace == .inTurns else { return .read }
        switch turn {
        case .none:
            turn = .awaited
            return .requestTurn
        case .awaited: return .none
        case .taken:
            // Over TLS, a read may deliver nothing. Then `readCompleted` does not end the turn.
            turn = .awaited
            return .endTurnAndRequestAnother
        }
    }

    /// Uses the requested turn, which starts now.
    /// - Returns: `read`, or `none` if the turn is not used.
    package mutating func turnStarted() -> Action {
        guard turn == .awaited else { return .none }
        guard hold == .released else {
            turn = .none
            hold = .heldWithRead
            return .none
        }
        turn = .taken
        return .read
    }

    /// Ends the turn, because the read is complete or the channel has ended.
    package mutating func readCompleted() -> Action {
        guard turn == .taken else { return .none }
        turn = .none
        return .endTurn
    }

    /// Records that bytes of a response arrived.
    /// - Parameter isLarge: whether the next read of the response takes a turn.
    mutating func bytesReceived(isLarge: Bool) { pace = isLarge ? .inTurns : .immediate }

    /// Ends the response: the next read belongs to another one.
    mutating func responseEnded() { pace = .immediate }
}
