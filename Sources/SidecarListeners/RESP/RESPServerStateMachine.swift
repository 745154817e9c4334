package import Interlock

/// The protocol of a connection from a RESP client: when it takes commands, reads, writes and closes. The machine is
/// pure: it takes events and returns actions, which `RESPConnection` executes.
///
/// Commands run in slices of the event loop's time. Reading pauses while too much is pending, and resumes after a
/// reply, a slice or a delay, or when the socket becomes writable. Nothing is written after the connection has begun to
/// close.
package struct RESPServerStateMachine {
    package enum Carrier { case plain, tls }

    /// The side that ends the connection.
    package enum Side { case client, sidecar }

    package enum Action: Equatable {
        case none
        /// Take commands from the input.
        case take
        /// Report `sliceGranted` in a later slice.
        case awaitSlice
        /// Report `extraCommandGranted` after a short delay.
        case scheduleExtraCommand
        case read
        /// Report `resume`.
        case resume
        /// Report `flush` at the end of the tick.
        case scheduleFlush
        /// Write the output, then report `resume`.
        case write
        /// Write the output, and close once the socket has taken it.
        case writeAndClose
        /// Write the output, close the output side, and close the connection after a while. Closing a connection with
        /// unread bytes immediately would discard the last reply.
        case writeAndLinger
        /// Write the output, and close immediately.
        case close
        /// Discard the output, and close immediately.
        case drop
        /// Discard the output, or the bytes that arrived.
        case discard
        /// Refuse the client, which has not logged in.
        case refuse
        /// Report `drop` if the socket does not become writable for too long.
        case watchStall
        /// Stop the timers. The remaining commands run in a later slice.
        case leave
        /// Report `end`, and release everything.
        case end
    }

    private enum Phase {
        case taking
        /// Takes no command, and closes after the replies.
        case closing
        /// Takes no command, and closes after the replies, because the client violated the protocol or did not log in.
        case refused
        /// The last bytes were passed to the socket or dropped, and the channel is closing.
        case ending
        /// Everything is released.
        case over
    }

    private enum Reading {
        /// The channel reads.
        case flowing
        /// The channel has requested a read that is held back.
        case heldBack
        /// The connection closes after the awaited slice: the client has stopped sending, or is no longer read.
        case ended
        /// The channel has closed. The remaining commands run without replies.
        case closed
    }

    /// The slice in which commands are taken.
    private enum Slice { case none, running, awaited, runningAndAwaited }

    /// The permission to take one command beyond the limit while Redis is busy. Without it, pending commands could wait
    /// forever for something that the next command releases, such as a lock.
    private enum ExtraCommand { case none, scheduled, granted }

    private enum Output {
        case idle
        case flushScheduled
        /// The socket accepts no bytes for now. The connection keeps the output, because `maximumOutput` applies only
        /// here.
        case blocked
    }

    /// The maximum number of pending commands of one connection.
    package static let maximumPipeline = 1024
    /// The maximum number of pending commands of one connection while Redis is busy.
    package static let maximumPendingWhileBusy = 16
    /// The total length of the kept replies, in bytes, at which reading pauses.
    package static let maximumWaiting = 1 << 20
    /// The maximum number of bytes that are buffered for a client that does not read.
    package static let maximumOutput = 4 << 20

    private let carrier: Carrier
    private var phase = Phase.taking
    private var reading = Reading.flowing
    private var slice = Slice.none
    private var extraCommand = ExtraCommand.none
    private var output = Output.idle
    /// The side that ends the connection: the client, unless the sidecar has decided to end it.
    package private(set) var endedBy = Side.client
    package var replies = RESPReplyQueue()

    package init(_ carrier: Carrier) {
        self.carrier = carrier
    }

    /// Whether the connection is open, or the client has left commands that still run.
    var isOpen: Bool { phase != .over }
    /// Whether the connection closes after the replies.
    var isClosing: Bool { phase == .closing || phase == .refused }
    /// Whether the channel has closed, and the last commands run without replies.
    var isChannelClosed: Bool { reading == .closed }

    private var isWritable: Bool { output != .blocked }
    private var canWrite: Bool { reading != .closed && (phase == .taking || isClosing) }
    private var isSliceAwaited: Bool { slice == .awaited || slice == .runningAndAwaited }
}

// MARK: - Commands

extension RESPServerStateMachine {
    /// Handles bytes that arrived.
    package func bytesReceived() -> Action {
        guard phase == .taking else { return .discard }
        return slice == .none ? .take : .none
    }

    /// Records that a slice begins. `sliceEnds` must follow.
    package mutating func sliceBegins() { slice = .running }

    package mutating func sliceEnds() { slice = isSliceAwaited ? .awaited : .none }

    /// Leaves the remaining commands for a later slice.
    package mutating func awaitSlice() -> Action {
        guard !isSliceAwaited else { return .none }
        slice = slice == .running ? .runningAndAwaited : .awaited
        return .awaitSlice
    }

    /// Begins the awaited slice. `sliceUsed` must follow.
    package mutating func sliceGranted() -> Action {
        slice = .none
        return phase == .taking ? .take : .none
    }

    /// Handles the end of an awaited slice.
    package mutating func sliceUsed() -> Action {
        guard reading == .closed, phase != .over else { return flush() }
        return slice == .none ? .end : .none
    }

    /// Decides about the next command in the input.
    /// - Returns: `take` if it may be taken.
    @inline(__always)
    package mutating func nextCommand(isRedisBusy: @autoclosure () -> Bool) -> Action {
        phase == .taking ? admit(isRedisBusy()) : .none
    }

    /// Records that a command was parsed.
    /// - Returns: the tag of the command.
    @inline(__always)
    package mutating func commandParsed() -> UInt64 {
        if extraCommand == .granted { extraCommand = .none }
        return replies.append()
    }

    @inline(__always)
    private mutating func admit(_ isRedisBusy: @autoclosure () -> Bool) -> Action {
        guard replies.count < Self.maximumPipeline, replies.waitingBytes < Self.maximumWaiting, isWritable else { return .none }
        // A client that has stopped sending cannot add to the load, so its remaining commands are executed.
        guard replies.count > Self.maximumPendingWhileBusy, reading == .flowing || reading == .heldBack, extraCommand != .granted,
            isRedisBusy()
        else {
            return .take
        }
        return scheduleExtraCommand()
    }

    private mutating func scheduleExtraCommand() -> Action {
        guard extraCommand != .scheduled else { return .none }
        extraCommand = .scheduled
        return .scheduleExtraCommand
    }
}

// MARK: - Reading

extension RESPServerStateMachine {
    /// Handles a read request of the channel.
    /// - Parameter inputLength: the length of the input, in bytes.
    package mutating func readRequested(inputLength: Int, isRedisBusy: @autoclosure () -> Bool) -> Action {
        guard reading != .closed, reading != .ended || phase == .ending else { return .none }
        // The client is read slowly, because its bytes are discarded and only their end matters.
        guard phase == .taking else { return scheduleExtraCommand() }
        reading = .heldBack
        return isSliceAwaited && inputLength >= ConnectionSlices.readAhead ? .none : readIfAdmitted(isRedisBusy())
    }

    /// Whether the connection closes after the awaited slice.
    package var isInputEnded: Bool { reading == .ended }

    /// Handles the end of the delay before an extra command or a slow read.
    package mutating func extraCommandGranted() -> Action {
        extraCommand = .granted
        guard reading != .closed else { return .none }
        return phase == .taking ? .resume : .read
    }

    /// Takes commands or reads again, because a reason to wait has ended.
    /// - Parameter inputLength: the length of the input, in bytes.
    /// - Returns: `take`, after which `resumeReading` follows, or the action for reading.
    package mutating func resume(inputLength: Int, isRedisBusy: @autoclosure () -> Bool) -> Action {
        guard phase == .taking, slice == .none, inputLength > 0 else {
            return resumeReading(isRedisBusy: isRedisBusy())
        }
        return admit(isRedisBusy())
    }

    /// Makes the read that is held back, if it may be made now.
    package mutating func resumeReading(isRedisBusy: @autoclosure () -> Bool) -> Action {
        reading == .heldBack && slice == .none ? readIfAdmitted(isRedisBusy()) : .none
    }

    private mutating func readIfAdmitted(_ isRedisBusy: @autoclosure () -> Bool) -> Action {
        let action = admit(isRedisBusy())
        guard action == .take else { return action }
        reading = .flowing
        return .read
    }
}

// MARK: - Writing

extension RESPServerStateMachine {
    /// Decides when to send the output, to which something was added.
    /// - Parameters:
    ///   - outputLength: the length of the output, in bytes.
    ///   - inputLength: the length of the input, in bytes.
    ///   - mayWrite: whether there is time for a write now.
    @inline(__always)
    package mutating func outputAppended(
        _ outputLength: Int, inputLength: Int, mayWrite: @autoclosure () -> Bool
    ) -> Action {
        guard canWrite else { return .discard }
        guard outputLength <= Self.maximumOutput else { return drop() }
        // The output is flushed between commands, not during one: a failed write makes NIO drain the socket
        // immediately, and the current command is still in the input.
        guard slice == .none || slice == .awaited else { return .none }
        // If nothing else is pending, no other reply could join this write.
        guard replies.isEmpty, phase == .taking, isWritable, inputLength == 0, reading != .heldBack, mayWrite() else {
            return scheduleFlush()
        }
        return .write
    }

    /// Schedules a flush at the end of the tick, unless one is scheduled.
    package mutating func scheduleFlush() -> Action {
        // A blocked output is flushed when the socket becomes writable.
        guard canWrite, output == .idle else { return .none }
        output = .flushScheduled
        return .scheduleFlush
    }

    /// Decides whether to write the output, and whether to close after it.
    package mutating func flush() -> Action {
        if output == .flushScheduled { output = .idle }
        guard canWrite else { return .none }
        if reading == .ended, slice == .none { return close() }
        guard isClosing, replies.isEmpty else { return isWritable ? .write : .none }
        defer { phase = .ending }
        return phase == .refused && carrier == .plain ? .writeAndLinger : .writeAndClose
    }

    package mutating func writabilityChanged(_ isWritable: Bool) -> Action {
        output = isWritable ? .idle : .blocked
        return isWritable ? flush() : .watchStall
    }
}

// MARK: - The end

extension RESPServerStateMachine {
    /// Handles the end of the client's input.
    /// - Parameter inputLength: the length of the input that is left, in bytes.
    package mutating func inputEnded(inputLength: Int) -> Action {
        guard reading != .closed else { return .none }
        guard phase != .ending, isSliceAwaited || hasCommandsLeft(inputLength) else { return close() }
        reading = .ended
        return awaitSlice()
    }

    /// Closes after the replies, because the client quits or the sidecar shuts down.
    package mutating func closeAfterReplies(endedBy side: Side) -> Action {
        endedBy = side
        if phase == .taking { phase = .closing }
        return scheduleFlush()
    }

    /// Refuses a client that violated the protocol or did not log in.
    /// - Returns: the tag of the error.
    package mutating func refuse() -> UInt64 {
        endedBy = .sidecar
        phase = .refused
        return replies.append()
    }

    /// Handles the end of the time limit for the login.
    package mutating func loginExpired(isSecured: Bool) -> Action {
        guard phase == .taking, reading != .closed else { return .none }
        return isSecured ? .refuse : drop()
    }

    /// Takes no further command, because the client's key was removed. `closeAfterOutput` must follow.
    /// - Returns: the calls to cancel.
    package mutating func revoke() -> [PendingCall] {
        if phase == .taking { phase = .closing }
        return replies.removeCalls()
    }

    /// Closes after the output, because the client lost a linked lease or its key. If it lost a lease, commands that
    /// wait for a slice run first.
    package mutating func closeAfterOutput() -> Action {
        endedBy = .sidecar
        guard canWrite else { return .none }
        if phase == .taking, isSliceAwaited {
            reading = .ended
            return .none
        }
        phase = .ending
        return .writeAndClose
    }

    /// Closes the connection of a client that reads too little or does not speak RESP, and discards its output.
    package mutating func drop() -> Action {
        guard phase != .over else { return .none }
        endedBy = .sidecar
        phase = .ending
        return .drop
    }

    /// Records that the network reports the client as unreachable. The client may still be running.
    package mutating func clientVanished() { endedBy = .sidecar }

    /// Handles the channel's end. Commands that arrived earlier still run, as they would without a wait for a slice.
    /// - Parameter inputLength: the length of the input that is left, in bytes.
    package mutating func channelClosed(inputLength: Int) -> Action {
        guard reading != .closed else { return .none }
        guard phase == .taking, isSliceAwaited || hasCommandsLeft(inputLength) else { return .end }
        reading = .closed
        return .leave
    }

    /// Ends the connection.
    /// - Returns: the calls to cancel.
    package mutating func end() -> [PendingCall] {
        phase = .over
        reading = .closed
        slice = .none
        return replies.close()
    }

    /// Returns whether the input may contain commands that were held back.
    private func hasCommandsLeft(_ inputLength: Int) -> Bool {
        inputLength > 0 && phase == .taking && replies.count < Self.maximumPipeline
    }

    private mutating func close() -> Action {
        phase = .ending
        return .close
    }
}
