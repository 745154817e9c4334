import InterlockHTTP

/// The promises of `HTTPServerStateMachine` under any order of events: each request that begins is answered at most
/// once and ends once, parts are taken in the order of arrival, no part is lost while the connection is open, and
/// nothing is delivered after it closes.
enum ServerProperties {
    /// Checks the promises for one sequence of events.
    /// - Parameter input: a byte that selects HTTP/1.1 or a stream, then one byte for each event.
    static func check(_ input: [UInt8]) throws(FuzzFinding) {
        guard let first = input.first else { return }
        var connection = Connection(first & 1 == 0 ? .connection : .stream)
        for byte in input.dropFirst() { try connection.handle(event: Int(byte) % 24, choice: Int(byte) / 24) }
        try connection.finish()
    }

    private typealias Machine = HTTPServerStateMachine

    private enum Reply {
        case none, awaited, begun, over
    }

    private enum Phase {
        case open, handedOver, closing, closed
    }

    /// A state machine and the effects of its actions so far.
    private struct Connection {
        private var machine: Machine
        private var phase = Phase.open
        private var reply = Reply.none
        private var receiver = Machine.Receiver.undecided
        private var begun = 0
        private var ended = 0
        /// The waiting parts, each with the number of its arrival.
        private var waiting: [(number: Int, part: Machine.Part)] = []
        private var arrived = 0
        private var taken = 0
        /// Whether the client is in the middle of a message.
        private var isInMessage = false
        /// Whether the current request has not been received in full.
        private var isRequestIncomplete = false
        private var isInputOver = false
        private var isTaking = false
        private var isSliceAwaited = false
        private var isWritable = true
        private var isWritabilityReported = true
        private var isReadRequested = false
        private var isEndPending = false
        private var isEndWritten = false

        init(_ carrier: Machine.Carrier) {
            machine = Machine(carrier)
        }

        private var isLive: Bool { reply == .awaited || reply == .begun }

        mutating func handle(event: Int, choice: Int) throws(FuzzFinding) {
            switch event {
            case 0..<6: try receivePart(event, choice)
            case 6..<9: try takeWaiting(choice)
            case 9..<16: try answer(event, choice)
            default: try change(event, choice)
            }
            try expect(
                isSliceAwaited == machine.isSliceAwaited,
                "a slice is awaited: \(machine.isSliceAwaited), expected \(isSliceAwaited)")
            guard phase == .open, !isTaking, !isSliceAwaited, !waiting.isEmpty else { return }
            let isIdle = reply == .none && isWritable && isWritabilityReported
            try expect(!isIdle && !isRequestIncomplete, "parts wait although nothing is pending")
        }

        mutating func finish() throws(FuzzFinding) {
            try perform(machine.close())
            for event in 0..<24 { try handle(event: event, choice: 1) }
            try expect(begun == ended, "\(begun) requests have \(ended) ends")
            try expect(waiting.isEmpty, "\(waiting.count) parts wait on a closed connection")
        }

        // MARK: Parts

        private mutating func receivePart(_ event: Int, _ choice: Int) throws(FuzzFinding) {
            // A stream carries one message. Nothing follows the end of the input or a decoder error.
            guard !isInputOver, isInMessage || machine.carrier == .connection || arrived == 0 else { return }
            let part: Machine.Part = !isInMessage ? .head : event < 3 ? .end : .body(choice == 0 ? 70_000 : choice)
            isInMessage = part != .end
            arrived += 1
            switch machine.partReceived(part, isWritable: isWritable, mayBegin: choice & 1 == 0) {
            case .take: try take(arrived, part, choice)
            case .wait: waiting.append((arrived, part))
            case .waitForSlice:
                waiting.append((arrived, part))
                try awaitTurn()
            }
        }

        private mutating func awaitTurn() throws(FuzzFinding) {
            try expect(!isSliceAwaited && phase == .open, "a slice was requested twice, or by a connection that is \(phase)")
            isSliceAwaited = true
        }

        private mutating func takeWaiting(_ choice: Int) throws(FuzzFinding) {
            let hadTurn = isSliceAwaited && !isTaking
            if hadTurn {
                machine.sliceStarted()
                (isSliceAwaited, isTaking) = (false, true)
            }
            guard isTaking else { return }
            switch machine.nextWaiting(waiting.first?.part, isWritable: isWritable, mayContinue: choice & 1 == 0) {
            case .take:
                let next = waiting.removeFirst()
                try take(next.number, next.part, choice)
            case .wait: isTaking = false
            case .waitForSlice:
                isTaking = false
                try expect(!hadTurn, "a slice began no request")
                try awaitTurn()
            }
        }

        private mutating func take(_ number: Int, _ part: Machine.Part, _ choice: Int) throws(FuzzFinding) {
            try expect(phase != .open || number == taken + 1, "part \(number) was taken after \(taken)")
            taken = number
            var action = machine.take(part)
            if action == .choose {
                try deliver(part, to: .undecided)
                choose([.collector, .relay, .nobody][choice % 3], isEmpty: part == .end)
                action = machine.take(part)
            }
            if part == .end { isRequestIncomplete = false }
            switch action {
            case .begin: try begin(choice)
            case .choose: throw FuzzFinding("a receiver was chosen twice")
            case .collect, .executeRequest: try deliver(part, to: .collector)
            case .relay: try deliver(part, to: .relay)
            case .relayEnd:
                try deliver(part, to: .relay)
                try perform(machine.advance())
            case .drop(let action):
                try expect(phase != .open || receiver == .nobody, "\(part) was lost")
                try perform(action)
            }
        }

        private mutating func begin(_ choice: Int) throws(FuzzFinding) {
            try expect(phase == .open && reply == .none && !isRequestIncomplete, "a request began while \(phase), \(reply)")
            let successions: [Machine.NextUse] = [.another, .another, .afterContinue, .last, .otherProtocol]
            machine.begin(successions[choice % successions.count], contentLength: choice > 5 ? nil : choice * 1000)
            (begun, reply, receiver) = (begun + 1, .awaited, .undecided)
            (isRequestIncomplete, isEndPending, isEndWritten) = (true, false, false)
        }

        private mutating func choose(_ receiver: Machine.Receiver, isEmpty: Bool) {
            if isEmpty { machine.continueResolved() }
            self.receiver = receiver
            machine.setReceiver(receiver, receiver == .relay && !isEmpty ? .held : .wanted)
        }

        private func deliver(_ part: Machine.Part, to receiver: Machine.Receiver) throws(FuzzFinding) {
            try expect(self.receiver == receiver, "\(part) is delivered to \(receiver), not \(self.receiver)")
            try expect(phase == .open && isLive, "\(part) is delivered while \(phase), \(reply)")
        }

        // MARK: Responses

        private mutating func answer(_ event: Int, _ choice: Int) throws(FuzzFinding) {
            switch event {
            case 9: try beginResponse()
            case 10: try completeResponse(endsConnection: choice == 1)
            case 11:
                try beginResponse()
                try completeResponse(endsConnection: choice == 1)
            case 12 where isEndPending:
                (isEndPending, isEndWritten) = (false, true)
                try perform(machine.responseWritten())
            case 13 where isLive: machine.setDemand(choice & 1 == 0 ? .wanted : .held)
            case 14 where reply == .awaited: machine.continueResolved()
            case 15 where reply == .awaited && receiver == .relay:
                guard machine.handOver() == .proceed else { return }
                try expect(phase == .open && machine.carrier == .connection, "a connection was handed over while \(phase)")
                (phase, waiting) = (.handedOver, [])
                end()
            default: break
            }
        }

        private mutating func beginResponse() throws(FuzzFinding) {
            guard reply == .awaited else { return }
            reply = .begun
            let nextUse = machine.responseBegins()
            try expect(nextUse == .last || phase == .open, "another request may follow while \(phase)")
        }

        private mutating func completeResponse(endsConnection: Bool) throws(FuzzFinding) {
            guard reply == .begun else { return }
            reply = .over
            isEndPending = machine.needsResponseWritten
            machine.responseCompleted(endsConnection: endsConnection)
            try perform(machine.advance())
        }

        private mutating func end() {
            guard reply != .none else { return }
            (reply, ended) = (.none, ended + 1)
        }

        // MARK: The connection

        private mutating func change(_ event: Int, _ choice: Int) throws(FuzzFinding) {
            switch event {
            case 16:
                if isWritabilityReported || choice & 1 == 0 { isWritable.toggle() }
                isWritabilityReported = choice & 1 == 0
                if isWritabilityReported { try perform(machine.writabilityChanged(isWritable)) }
            case 17: try read(isRequested: choice & 1 == 0)
            case 18 where !isSliceAwaited:
                isInputOver = true
                try perform(machine.clientLeft())
            case 19 where !isSliceAwaited && !isInputOver:
                isInputOver = true
                try perform(machine.errorCaught(choice & 1 == 0 ? .malformed : .disconnection))
            case 19 where isInputOver: try perform(machine.drop(choice * 10_000))
            case 20: try perform(choice & 1 == 0 ? machine.shutDown(isWritable: isWritable) : machine.deadlineReached())
            case 21: try perform(machine.keyRevoked())
            case 22 where choice == 1: try perform(machine.close())
            case 22 where phase == .closing:
                let action = machine.outputFlushed()
                try expect(action == .close || isRequestIncomplete, "a connection stayed open with nothing to wait for")
                try perform(action)
            case 23 where machine.isReceiverAwaited: choose(choice & 1 == 0 ? .collector : .relay, isEmpty: false)
            default: break
            }
        }

        private mutating func read(isRequested: Bool) throws(FuzzFinding) {
            if isRequested {
                isReadRequested = true
                machine.readRequested()
            }
            guard machine.takeRead(isWritable: isWritable) == .proceed else { return }
            try expect(isReadRequested, "a read began without a request")
            try expect(phase != .open || reply != .none || isWritable, "input was read although the output is blocked")
            isReadRequested = false
        }

        private mutating func perform(_ action: Machine.Action) throws(FuzzFinding) {
            switch action {
            case .none, .extend, .linger: break
            case .awaitRequest:
                try expect(phase == .open && !isLive && !isRequestIncomplete, "a request was awaited while \(phase), \(reply)")
                end()
                if machine.beginDraining() == .proceed { isTaking = true }
            case .dropRemainder:
                try expect(
                    phase == .open && reply == .over && isRequestIncomplete,
                    "the rest of a request is dropped while \(phase), \(reply)")
                receiver = .nobody
            case .dropWaiting: (waiting, taken) = ([], arrived)
            case .finish:
                try expect(phase == .open && !isLive, "the connection ended while \(phase), \(reply)")
                (phase, waiting) = (.closing, [])
                end()
            case .close:
                (phase, waiting) = (.closed, [])
                end()
            case .closeOutput: try expect(phase == .closing && machine.carrier == .connection, "the output ended while \(phase)")
            case .reset: try expect(machine.carrier == .stream && isEndWritten, "a stream was reset before its answer ended")
            case .leave:
                try perform(machine.clientLeft())
                try perform(machine.close())
            case .reportDeparture: try expect(phase == .open && isLive, "a disconnection was reported while \(phase), \(reply)")
            case .reportWritability, .reportTimer:
                try expect(receiver == .relay && isLive, "\(action) while \(phase), \(reply)")
            case .abortRequest: try abortRequest()
            case .refuse:
                try expect(phase == .open && reply == .none && waiting.isEmpty, "a refusal overtook a request")
                (begun, reply, receiver, isRequestIncomplete) = (begun + 1, .awaited, .nobody, true)
                try abortRequest()
            }
        }

        private mutating func abortRequest() throws(FuzzFinding) {
            try expect(phase == .open && isLive, "a request was rejected as malformed while \(phase), \(reply)")
            guard reply == .awaited else { return try perform(machine.close()) }
            try beginResponse()
            try completeResponse(endsConnection: true)
        }
    }
}
