import Interlock
import SidecarListeners

/// The promises of `RESPServerStateMachine` under any order of events: replies leave once and in the order of their
/// commands, nothing is written after the connection closes, commands and reads wait only while something will resume
/// them, and the connection ends once.
enum ClientProperties {
    /// Checks the promises for one sequence of events.
    /// - Parameter input: a byte that selects plain text or TLS, then one byte for each event.
    static func check(_ input: [UInt8]) throws(FuzzFinding) {
        guard let first = input.first else { return }
        var client = Client(first & 1 == 0 ? .plain : .tls)
        for byte in input.dropFirst() { try client.handle(event: Int(byte) % 20, choice: Int(byte) / 20) }
        try client.finish()
    }

    private typealias Machine = RESPServerStateMachine

    private enum Command {
        case answered, pending, cancelable, quit, malformed, http
    }

    private enum Channel {
        case open
        /// The last bytes are being written.
        case closing
        case closed
        case over
    }

    /// A state machine and the effects of its actions so far.
    private struct Client {
        private let carrier: Machine.Carrier
        private var machine: Machine
        private var channel = Channel.open
        private var input: ArraySlice<Command> = []
        /// The commands without a reply, and whether each can be cancelled.
        private var pending: [(tag: UInt64, isCancelable: Bool)] = []
        private var buffered: [ObjectIdentifier: UInt64] = [:]
        /// The tag of the next reply to leave.
        private var nextTag: UInt64 = 0
        private var output = 0
        private var isReadPaused = false
        private var isSliceAwaited = false
        private var isFlushScheduled = false
        private var isReliefScheduled = false
        private var isBlocked = false
        private var isRedisBusy = false
        /// Whether an extra command has been granted since the last command was taken.
        private var isRelieved = false
        /// Whether the client's input is ignored and its replies are no longer awaited.
        private var isAbandoned = false
        private var hasTime = true
        private var sliceLength = 1

        init(_ carrier: Machine.Carrier) {
            self.carrier = carrier
            machine = Machine(carrier)
        }

        mutating func handle(event: Int, choice: Int) throws(FuzzFinding) {
            guard channel != .over else { return }
            hasTime = choice & 1 == 0
            sliceLength = [1, 4, 2000][choice % 3]
            switch event {
            case 0..<7: try receive(event, choice)
            case 7..<11: try answer(event, choice)
            case 11..<15: try wake(event, choice)
            default: try change(event, choice)
            }
            try checkWaits()
        }

        mutating func finish() throws(FuzzFinding) {
            isRedisBusy = false
            sliceLength = 2000
            if isBlocked, channel == .open || channel == .closing { try setBlocked(false) }
            var rounds = 0
            while channel == .open, !input.isEmpty || !pending.isEmpty || isReadPaused || output > 0 {
                for event in 11..<14 { try handle(event: event, choice: 2) }
                while let first = pending.first { try reply(first.tag, size: 10) }
                rounds += 1
                try expect(rounds < 100, "commands, replies or reads are left, and nothing resumes them")
            }
            try close()
            while isSliceAwaited { try wake(12, 2) }
            try expect(channel == .over, "the connection did not end with its channel")
            let answers = [
                machine.bytesReceived(), machine.flush(), machine.scheduleFlush(), machine.extraCommandGranted(), machine.drop(),
                machine.closeAfterReplies(endedBy: .client), machine.closeAfterOutput(),
                machine.channelClosed(inputLength: 1), machine.inputEnded(inputLength: 1),
                machine.resume(inputLength: 1, isRedisBusy: false), machine.sliceUsed(),
            ]
            try expect(answers.allSatisfy { $0 == .none || $0 == .discard }, "after the end: \(answers)")
        }

        /// Checks that everything that waits will be resumed.
        private func checkWaits() throws(FuzzFinding) {
            let resumes = isSliceAwaited || isFlushScheduled || isReliefScheduled || isBlocked || !pending.isEmpty
            switch channel {
            case .open:
                try expect(resumes || !isReadPaused, "reading is paused, and nothing resumes it")
                try expect(resumes || input.isEmpty, "\(input.count) commands wait, and nothing takes them")
                try expect(output == 0 || isFlushScheduled || isSliceAwaited || isBlocked, "output waits, and nothing writes it")
            case .closed: try expect(isSliceAwaited, "the channel has closed, and nothing ends the connection")
            case .closing, .over: break
            }
        }

        // MARK: Events

        private mutating func receive(_ event: Int, _ choice: Int) throws(FuzzFinding) {
            guard channel == .open || channel == .closing else { return }
            let count = [1, 2, 3, 5, 17, 18, 40, 1, 2, 3, 4, event == 0 ? 1030 : 8, 9][choice]
            let commands: [Command] =
                switch event {
                case 0, 1: [.pending]
                case 2: [.cancelable]
                case 3, 4: [.answered]
                case 5: [.answered, .quit]
                default: [.pending, choice & 1 == 0 ? .malformed : .http]
                }
            let action = machine.bytesReceived()
            if action != .discard {
                for index in 0..<count { input.append(commands[index % commands.count]) }
            }
            if action == .take { try process() }
            guard channel == .open || channel == .closing else { return }
            try perform(machine.flush())
            isReadPaused = true
            try perform(machine.readRequested(inputLength: input.count, isRedisBusy: isRedisBusy))
            if channel == .closing { isReadPaused = false }
        }

        private mutating func answer(_ event: Int, _ choice: Int) throws(FuzzFinding) {
            let size = choice == 12 ? 700_000 : 10
            switch event {
            case 7: if let first = pending.first { try reply(first.tag, size: size) }
            case 8: if !pending.isEmpty { try reply(pending[choice % pending.count].tag, size: size) }
            case 9:
                let answered = (0..<nextTag).suffix(3) + buffered.values.sorted().suffix(3)
                for tag in answered { try expect(machine.replies.position(of: tag) == .answered, "\(tag) was answered twice") }
            default:
                output += size
                try perform(machine.outputAppended(output, inputLength: input.count, mayWrite: hasTime))
            }
        }

        private mutating func wake(_ event: Int, _ choice: Int) throws(FuzzFinding) {
            switch event {
            case 11:
                guard isFlushScheduled else { return }
                isFlushScheduled = false
                try perform(machine.flush())
            case 12:
                guard isSliceAwaited else { return }
                isSliceAwaited = false
                if machine.sliceGranted() == .take { try takeAll() }
                try perform(machine.sliceUsed())
            case 13:
                guard isReliefScheduled else { return }
                isReliefScheduled = false
                isRelieved = true
                try perform(machine.extraCommandGranted())
            default: isRedisBusy = choice & 1 == 0
            }
        }

        private mutating func change(_ event: Int, _ choice: Int) throws(FuzzFinding) {
            switch (event, choice % 3) {
            case (15, _): if channel == .open || channel == .closing { try setBlocked(!isBlocked) }
            case (16, 0): try close()
            case (16, _):
                isAbandoned = true
                try perform(machine.inputEnded(inputLength: input.count))
            case (17, 0): try perform(machine.closeAfterReplies(endedBy: .sidecar))
            case (17, _):
                isAbandoned = true
                try perform(machine.closeAfterOutput())
            case (18, 0):
                isAbandoned = true
                try cancel(machine.revoke())
                try perform(machine.closeAfterOutput())
            case (18, 1): machine.clientVanished()
            case (18, _): try perform(machine.loginExpired(isSecured: choice & 1 == 0))
            default: if channel == .open, isBlocked { try perform(machine.drop()) }
            }
        }

        private mutating func setBlocked(_ isBlocked: Bool) throws(FuzzFinding) {
            self.isBlocked = isBlocked
            try perform(machine.writabilityChanged(!isBlocked))
        }

        private mutating func close() throws(FuzzFinding) {
            guard channel == .open || channel == .closing else { return }
            channel = .closed
            try perform(machine.channelClosed(inputLength: input.count))
        }

        // MARK: Commands and replies

        private mutating func process() throws(FuzzFinding) {
            if hasTime { try takeAll() } else { try perform(machine.awaitSlice()) }
        }

        private mutating func takeAll() throws(FuzzFinding) {
            machine.sliceBegins()
            var remaining = sliceLength
            while let command = input.first, try mayTake(), try take(command) {
                if remaining % 64 == 0 { try perform(machine.flush()) }
                remaining -= 1
                guard remaining <= 0 else { continue }
                if !input.isEmpty, try mayTake() { try perform(machine.awaitSlice()) }
                break
            }
            machine.sliceEnds()
        }

        private mutating func mayTake() throws(FuzzFinding) -> Bool {
            let action = machine.nextCommand(isRedisBusy: isRedisBusy)
            if action != .take { try perform(action) }
            return action == .take
        }

        private mutating func take(_ command: Command) throws(FuzzFinding) -> Bool {
            let waiting = pending.count + buffered.count
            try expect(channel == .open || channel == .closed, "a command was taken on a connection that is closing")
            try expect(waiting < Machine.maximumPipeline && !isBlocked, "a command was taken beyond the limits")
            let isWithinQuota = waiting <= Machine.maximumPendingWhileBusy || !isRedisBusy || isRelieved
            try expect(isWithinQuota || isAbandoned || channel == .closed, "a command was taken beyond the quota of a busy Redis")
            input.removeFirst()
            isRelieved = false
            if command == .http {
                try perform(machine.drop())
                return false
            }
            if command == .malformed {
                try refuse()
                return false
            }
            let tag = machine.commandParsed()
            pending.append((tag, command == .cancelable))
            if command == .cancelable { machine.replies.recordPendingCall(.lock(tag), for: tag) }
            if command == .answered || command == .quit { try reply(tag, size: 10) }
            if command == .quit { try perform(machine.closeAfterReplies(endedBy: .client)) }
            return true
        }

        private mutating func refuse() throws(FuzzFinding) {
            input = []
            let tag = machine.refuse()
            pending.append((tag, false))
            try reply(tag, size: 10)
        }

        private mutating func reply(_ tag: UInt64, size: Int) throws(FuzzFinding) {
            pending.remove(at: pending.firstIndex { $0.tag == tag } ?? pending.endIndex)
            switch machine.replies.position(of: tag) {
            case .answered: throw FuzzFinding("\(tag) counts as answered before its reply was given")
            case .later:
                let writer = RESPWriter()
                writer.bulk(String(repeating: "x", count: size))
                buffered[ObjectIdentifier(writer.buffer)] = tag
                machine.replies.hold(writer.buffer, for: tag)
            case .first:
                try leave(tag)
                machine.replies.removeFirst()
                while let reply = machine.replies.popReady() { try leave(buffered.removeValue(forKey: ObjectIdentifier(reply))) }
                output += size
                try perform(machine.outputAppended(output, inputLength: input.count, mayWrite: hasTime))
            }
        }

        private mutating func leave(_ tag: UInt64?) throws(FuzzFinding) {
            try expect(tag == nextTag, "the reply to \(tag.map { "\($0)" } ?? "no command") was sent instead of \(nextTag)")
            nextTag += 1
        }

        private mutating func cancel(_ calls: [PendingCall]) throws(FuzzFinding) {
            let tags = calls.map { if case .lock(let tag) = $0 { tag } else { UInt64.max } }
            try expect(tags == pending.filter { $0.isCancelable }.map { $0.tag }, "\(tags) were cancelled, out of \(pending)")
            for index in pending.indices { pending[index].isCancelable = false }
        }

        // MARK: Actions

        private mutating func perform(_ action: Machine.Action) throws(FuzzFinding) {
            switch action {
            case .none, .take, .watchStall: break
            case .awaitSlice:
                try expect(!isSliceAwaited, "a slice was requested while one is awaited")
                isSliceAwaited = true
            case .scheduleExtraCommand:
                try expect(!isReliefScheduled, "a relief was planned while one is pending")
                isReliefScheduled = true
            case .read:
                try expect(channel == .open || channel == .closing, "a closed channel was read")
                isReadPaused = false
            case .resume: try resume()
            case .scheduleFlush: isFlushScheduled = true
            case .write:
                try expect(channel == .open && !isBlocked, "bytes were written to a socket that is closing or full")
                output = 0
                try resume()
            case .writeAndClose, .writeAndLinger:
                try expect(channel == .open, "bytes were written to a connection that is closing")
                try expect(pending.isEmpty || isAbandoned, "a connection closed before \(pending.count) replies")
                try expect(action == .writeAndClose || carrier == .plain, "a TLS connection lingers")
                endOutput()
            case .close, .drop:
                try expect(
                    action == .drop || output == 0 || channel == .open, "bytes were written to a connection that is closing")
                endOutput()
                // A plain socket closes immediately; TLS sends a close notification first.
                if carrier == .plain { try close() }
            case .discard:
                try expect(channel != .open, "output is discarded while the connection is open")
                output = 0
            case .refuse: try refuse()
            case .leave:
                try expect(channel == .closed, "the connection leaves an open channel")
                try perform(machine.awaitSlice())
            case .end: try end()
            }
        }

        private mutating func endOutput() {
            if channel == .open { channel = .closing }
            output = 0
            isReadPaused = false
        }

        private mutating func end() throws(FuzzFinding) {
            try expect(channel == .closed, "the connection ends at \(channel)")
            channel = .over
            isSliceAwaited = false
            try cancel(machine.end())
            for call in pending { try expect(machine.replies.position(of: call.tag) == .answered, "\(call.tag) is not answered") }
            pending = []
        }

        private mutating func resume() throws(FuzzFinding) {
            var action = machine.resume(inputLength: input.count, isRedisBusy: isRedisBusy)
            if action == .take {
                try process()
                if output > 0 { try perform(machine.scheduleFlush()) }
                action = machine.resumeReading(isRedisBusy: isRedisBusy)
            }
            try perform(action)
        }
    }
}
