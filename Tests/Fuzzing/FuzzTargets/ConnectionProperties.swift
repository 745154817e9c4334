import InterlockHTTP

/// The promises of `HTTPClientStateMachine` under any order of events: each request gets at most one response and
/// exactly one end, nothing is delivered after that end, the connection leaves its pool once, and nothing happens
/// afterwards.
enum ConnectionProperties {
    /// Checks the promises for one sequence of events.
    /// - Parameter input: a byte that selects HTTP/1.1 or a stream, then one byte for each event.
    static func check(_ input: [UInt8]) throws(FuzzFinding) {
        guard let first = input.first else { return }
        var connection = Connection(first & 1 == 0 ? .connection : .stream)
        for byte in input.dropFirst() { try connection.handle(event: Int(byte) % 24, choice: Int(byte) / 24) }
        try connection.finish()
    }

    private typealias Machine = HTTPClientStateMachine

    private enum Response {
        case awaited, begun, switching, switched
    }

    private enum Turn {
        case none, awaited, taken
    }

    /// A state machine and the effects of its actions so far.
    private struct Connection {
        private var machine: Machine
        /// The state of the response to the current request; `nil` if there is no request.
        private var response: Response?
        private var begun = 0
        private var ended = 0
        private var hasLeft = false
        private var isRequestSent = false
        private var lastRead = Machine.ReadEnd.address(0)
        /// Whether the response ended exactly where its read did, and nothing has arrived since.
        private var endsRead = false
        private var isHeld = false
        private var turn = Turn.none

        private var progress: String { response.map { "\($0)" } ?? "no request" }

        init(_ carrier: Machine.Carrier) {
            machine = Machine(carrier)
        }

        mutating func handle(event: Int, choice: Int) throws(FuzzFinding) {
            switch event {
            case 0..<8: try sendRequest(event, choice)
            case 8..<17: try receiveResponse(event, choice)
            case 17..<22: try change(event, choice)
            default: try read(event, choice)
            }
            try expect(
                machine.isPooled != hasLeft, "the connection is pooled: \(machine.isPooled), and has left its pool: \(hasLeft)")
            try expect(
                response == nil || !machine.isResponseComplete, "the response is complete while its request is in progress")
        }

        mutating func finish() throws(FuzzFinding) {
            try perform(machine.channelEnded(at: .seconds(1)))
            try perform(machine.reads.readCompleted())
            for event in 0..<22 { try handle(event: event, choice: 1) }
            try expect(hasLeft && response == nil, "the connection has ended, and has left: \(hasLeft)")
            try expect(begun == ended, "\(begun) requests have \(ended) ends")
            try expect(turn != .taken, "the connection kept its slice after it ended")
        }

        // MARK: Events

        private mutating func sendRequest(_ event: Int, _ choice: Int) throws(FuzzFinding) {
            switch event {
            case 0:
                guard machine.begin(isReused: choice & 1 == 0) == .proceed else { return }
                try expect(response == nil && !hasLeft, "a request began on a connection that has one or has left its pool")
                begun += 1
                response = .awaited
                isRequestSent = false
                endsRead = false
            case 1: try proceed(machine.requestPart())
            case 2:
                let action = machine.requestEnd()
                try proceed(action)
                if action == .proceed { isRequestSent = true }
            case 3: try proceed(machine.flushBegins())
            case 4: machine.flushEnds(at: .zero)
            case 5: machine.headSent(at: .zero)
            case 6: machine.declaredUnprocessed()
            default: machine.upgradeOffered()
            }
        }

        private mutating func receiveResponse(_ event: Int, _ choice: Int) throws(FuzzFinding) {
            switch event {
            case 8: try receive(.emptyLine, isLarge: false)
            case 9: try receive(.address(5), isLarge: choice & 1 == 0)
            case 10: try perform(machine.responseHead(.final(keepsAlive: choice & 1 == 0)))
            case 11: try perform(machine.responseHead(.informational))
            case 12: try perform(machine.responseHead(.switching))
            case 13: try perform(machine.responseHead(.malformed(.status)))
            case 14: try receive(partEndingAt: choice & 1 == 0 ? 5 : 4)
            case 15: try perform(machine.responseEnd())
            default:
                try perform(machine.allReceived())
                try perform(machine.readCompleted(isActive: choice != 1))
            }
        }

        private mutating func change(_ event: Int, _ choice: Int) throws(FuzzFinding) {
            let cause = [Machine.Cause.connectionEnd, .refusedStream, .other][choice % 3]
            switch (event, choice % 3) {
            case (17, _): try perform(machine.writabilityChanged(choice & 1 == 0))
            case (18, _): try perform(machine.writeFailed(cause))
            case (19, _): try perform(machine.errorCaught(cause))
            case (20, 0): try perform(machine.close())
            case (20, 1):
                if response != nil { end() }
                try perform(machine.abandon())
            case (20, _):
                guard machine.handOver() == .proceed else { return }
                try expect(response == .switched, "a connection that has not switched protocols was handed over")
                end()
                try leave()
            default: try perform(machine.channelEnded(at: .seconds(choice)))
            }
        }

        private mutating func read(_ event: Int, _ choice: Int) throws(FuzzFinding) {
            switch (event, choice % 3) {
            case (22, 0): try perform(machine.reads.readRequested())
            case (22, 1):
                machine.reads.receiverHolds()
                isHeld = true
            case (22, _): try resume()
            case (_, 0): try perform(machine.reads.readCompleted())
            default:
                let action = machine.reads.turnStarted()
                try expect(
                    action == .none || turn == .awaited && !isHeld,
                    "a slice was used without a request for it, or while reading is held")
                if turn == .awaited { turn = action == .read ? .taken : .none }
            }
        }

        private mutating func resume() throws(FuzzFinding) {
            isHeld = false
            try perform(machine.reads.receiverResumes())
        }

        private mutating func receive(_ end: Machine.ReadEnd, isLarge: Bool) throws(FuzzFinding) {
            endsRead = false
            switch machine.bytesReceived(end, isLarge: isLarge) {
            case .ignore: break
            case .deliver:
                try expect(response != nil, "bytes were read without a request")
                lastRead = end
            case .close: try leave()
            }
        }

        private mutating func receive(partEndingAt end: UInt) throws(FuzzFinding) {
            switch machine.responsePart(endingAt: end) {
            case .ignore: break
            case .deliver:
                try expect(response == .begun && !hasLeft, "a part of a body was delivered at \(progress)")
                if lastRead == .address(end) { lastRead = .emptyLine }
            case .close: try leave()
            }
        }

        // MARK: Actions

        private mutating func leave() throws(FuzzFinding) {
            try expect(!hasLeft, "the connection left its pool twice")
            hasLeft = true
        }

        private mutating func end() {
            response = nil
            ended += 1
        }

        private func proceed(_ action: Machine.RequestAction) throws(FuzzFinding) {
            try expect(action == .ignore || response != nil, "bytes were sent without a request")
        }

        private mutating func perform(_ action: Machine.HeadAction) throws(FuzzFinding) {
            switch action {
            case .ignore: return
            case .close: return try leave()
            case .reject: try leave()
            case .deliver, .deliverInformational, .keepForSwitch:
                try expect(response == .awaited && !hasLeft, "a head was delivered at \(progress)")
            }
            try expect(response != nil, "\(action) without a request")
            if action == .deliver { response = .begun }
            if action == .keepForSwitch { response = .switching }
        }

        private mutating func perform(_ action: Machine.EndAction) throws(FuzzFinding) {
            switch action {
            case .ignore: break
            case .deliver:
                try expect(response == .begun && !hasLeft, "an answer ended at \(progress)")
                endsRead = lastRead == .emptyLine
                end()
            case .switchProtocols:
                try expect(response == .switching && !hasLeft, "the protocol changed at \(progress)")
                response = .switched
            case .reject:
                try expect(response == .awaited, "an answer was rejected at \(progress)")
                try leave()
            case .close: try leave()
            }
        }

        private mutating func perform(_ action: Machine.ErrorAction) throws(FuzzFinding) {
            switch action {
            case .ignore: break
            case .recordCause: try expect(response != nil, "an error was recorded without a request")
            case .recordCauseAndClose:
                try expect(response != nil, "an error was recorded without a request")
                try leave()
            case .close: try leave()
            }
        }

        private mutating func perform(_ action: Machine.Action) throws(FuzzFinding) {
            switch action {
            case .none: break
            case .reportWritability, .reportAllReceived: try expect(response != nil, "\(action) without a request")
            case .returnToPool:
                try expect(response == nil && !hasLeft, "a connection that has a request or has left its pool became free")
                try expect(isRequestSent && endsRead, "a connection became free while more input or output is expected")
                try resume()
            case .close, .closeLater, .leave: try leave()
            case .fail, .leaveAndFail:
                if case .leaveAndFail = action { try leave() }
                try expect(hasLeft && response != nil, "\(action) without a request, or in the pool")
                end()
            }
        }

        private mutating func perform(_ action: ResponseReads.Action) throws(FuzzFinding) {
            switch action {
            case .none: break
            case .read: try expect(!isHeld, "a read began although reading is held")
            case .requestTurn:
                try expect(turn == .none, "a slice was requested while another one is \(turn)")
                turn = .awaited
            case .endTurn, .endTurnAndRequestAnother:
                try expect(turn == .taken, "a slice ended that had not begun")
                turn = action == .endTurn ? .none : .awaited
            }
        }
    }
}
