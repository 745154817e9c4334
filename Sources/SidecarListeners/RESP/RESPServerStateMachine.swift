package import Interlock

/// The protocol of a connection to a RESP client: whether it takes commands, reads, writes and closes. Pure: takes
/// events and returns actions, which `RESPConnection` executes.
///
/// Commands run in slices of the event loop's time. Reading pauses while too much is pending, and resumes with a reply,
/// a slice, a writable socket, or after a pause. Nothing is written after the connection has begun to close.
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
        /// Report `extraCommandGranted` after a short pause.
        case planExtraCommand
        case read
        /// Report `resume`.
        case resume
        /// Report `flush` at the end of the tick.
        case planFlush
        /// Write the output, then report `resume`.
        case write
        /// Write the output, and close once the socket has taken it.
        case writeAndClose
        /// Write the output, close the output side, and close the connection after a while: closing a connection with
        /// unread bytes would discard the last reply.
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
        /// The same as `closing`, after a violation of the protocol or a missing login.
        case refused
        /// Closes: the last bytes were handed to the socket, or dropped.
        case ending
        case over
    }

    private enum Reading {
        case flowing
        case heldBack
        /// The connection closes after the awaited slice: the client has stopped sending, or is no longer read.
        case ended
        /// The channel has closed. The remaining commands run without replies.
        case closed
    }

    /// The slice in which commands are taken.
    private enum Slice { case none, running, awaited, runningAndAwaited }

    /// The permission to take one command beyond the limit while Redis is busy: pending commands may wait for
    /// something that it releases, such as a lock.
    private enum ExtraCommand { case none, planned, granted }

    private enum Output {
        case idle
        case flushPlanned
        /// The socket accepts nothing for now. The connection keeps the output, because its limit applies only here.
        case blocked
    }

    /// The maximum number of pending commands of one connection.
    package static let maximumPipeline = 1024
    /// The maximum number of pending commands of one connection while Redis is busy.
    package static let maximumPendingWhileBusy = 16
    /// The size of the kept replies, in bytes, at which reading pauses.
    package static let maximumWaiting = 1 << 20
    /// The maximum number of bytes that are buffered for a client that does not read.
    package static let maximumOutput = 4 << 20

    private let carrier: Carrier
    private var phase = Phase.taking
    private var reading = Reading.flowing
    private var slice = Slice.none
    private var extraCommand = ExtraCommand.none
    private var output = Output.idle
    package private(set) var endedBy = Side.client
    package var replies = RESPReplyQueue()

    package init(_ carrier: Carrier) {
        self.carrier = carrier
    }

    /// Whether the client is connected, or has left commands that still run.
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
    package func bytesReceived() -> Action {
        guard phase == .taking else { return .discard }
        return slice == .none ? .take : .none
    }

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

    package mutating func sliceUsed() -> Action {
        guard reading == .closed, phase != .over else { return flush() }
        return slice == .none ? .end : .none
    }

    /// - Returns: `take` if another command may be taken.
    @inline(__always)
    package mutating func nextCommand(isRedisBusy: @autoclosure () -> Bool) -> Action {
        phase == .taking ? admit(isRedisBusy()) : .none
    }

    /// - Returns: the tag of the command.
    @inline(__always)
    package mutating func commandParsed() -> UInt64 {
        if extraCommand == .granted { extraCommand = .none }
        return replies.append()
    }

    @inline(__always)
    private mutating func admit(_ isRedisBusy: @autoclosure () -> Bool) -> Action {
        guard replies.count < Self.maximumPipeline, replies.waitingBytes < Self.maximumWaiting, isWritable else { return .none }
        // A client that has stopped sending cannot add to the load, so the commands that it has sent are executed.
        guard replies.count > Self.maximumPendingWhileBusy, reading == .flowing || reading == .heldBack, extraCommand != .granted,
            isRedisBusy()
        else {
            return .take
        }
        return planExtraCommand()
    }

    private mutating func planExtraCommand() -> Action {
        guard extraCommand != .planned else { return .none }
        extraCommand = .planned
        return .planExtraCommand
    }
}

// MARK: - Reading

extension RESPServerStateMachine {
    /// Call when the channel requests a read.
    /// - Parameter input: the size of the input, in bytes.
    package mutating func readRequested(input: Int, isRedisBusy: @autoclosure () -> Bool) -> Action {
        guard reading != .closed, reading != .ended || phase == .ending else { return .none }
        // The bytes would be discarded, and only their end matters: a client that keeps sending is read slowly.
        guard phase == .taking else { return planExtraCommand() }
        reading = .heldBack
        return isSliceAwaited && input >= ConnectionSlices.readAhead ? .none : readIfAdmitted(isRedisBusy())
    }

    package var isInputEnded: Bool { reading == .ended }

    package mutating func extraCommandGranted() -> Action {
        extraCommand = .granted
        guard reading != .closed else { return .none }
        return phase == .taking ? .resume : .read
    }

    /// Continues after a reason to wait has ended.
    /// - Returns: `take`, after which `resumeReading` follows, or the action for reading.
    package mutating func resume(input: Int, isRedisBusy: @autoclosure () -> Bool) -> Action {
        guard phase == .taking, slice == .none, input > 0 else { return resumeReading(isRedisBusy: isRedisBusy()) }
        return admit(isRedisBusy())
    }

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
    /// Call after a write to the output.
    /// - Parameters:
    ///   - size: the size of the output, in bytes.
    ///   - mayWrite: whether there is time for a write now.
    @inline(__always)
    package mutating func written(_ size: Int, input: Int, mayWrite: @autoclosure () -> Bool) -> Action {
        guard canWrite else { return .discard }
        guard size <= Self.maximumOutput else { return drop() }
        // The output is flushed between commands. A failed write makes NIO drain the socket immediately, and the
        // current command is still in the input.
        guard slice == .none || slice == .awaited else { return .none }
        // If nothing else is pending, no other reply could join this write.
        guard replies.isEmpty, phase == .taking, isWritable, input == 0, reading != .heldBack, mayWrite() else {
            return planFlush()
        }
        return .write
    }

    package mutating func planFlush() -> Action {
        // A socket that becomes writable causes another flush.
        guard canWrite, output == .idle else { return .none }
        output = .flushPlanned
        return .planFlush
    }

    package mutating func flush() -> Action {
        if output == .flushPlanned { output = .idle }
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
    /// Call when the client's input has ended.
    package mutating func inputEnded(input: Int) -> Action {
        guard reading != .closed else { return .none }
        guard phase != .ending, isSliceAwaited || hasCommandsLeft(input) else { return close() }
        reading = .ended
        return awaitSlice()
    }

    /// Closes after the replies, because the client quits or the sidecar shuts down.
    package mutating func closeAfterReplies(endedBy side: Side) -> Action {
        endedBy = side
        if phase == .taking { phase = .closing }
        return planFlush()
    }

    /// Refuses a client that violated the protocol or did not log in.
    /// - Returns: the tag of the error.
    package mutating func refuse() -> UInt64 {
        endedBy = .sidecar
        phase = .refused
        return replies.append()
    }

    package mutating func loginExpired(isSecured: Bool) -> Action {
        guard phase == .taking, reading != .closed else { return .none }
        return isSecured ? .refuse : drop()
    }

    /// Call when the client's key was removed. `closeAfterOutput` must follow.
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

    /// Drops a client that reads too little or does not speak RESP.
    package mutating func drop() -> Action {
        guard phase != .over else { return .none }
        endedBy = .sidecar
        phase = .ending
        return .drop
    }

    /// Records that the network reports the client as unreachable. The client may still be running.
    package mutating func clientVanished() { endedBy = .sidecar }

    /// Call when the channel has closed. Commands received earlier still run, as they would without a wait for a slice.
    package mutating func closed(input: Int) -> Action {
        guard reading != .closed else { return .none }
        guard phase == .taking, isSliceAwaited || hasCommandsLeft(input) else { return .end }
        reading = .closed
        return .leave
    }

    /// - Returns: the calls to cancel.
    package mutating func end() -> [PendingCall] {
        phase = .over
        reading = .closed
        slice = .none
        return replies.close()
    }

    /// Whether commands that were held back may be left.
    private func hasCommandsLeft(_ input: Int) -> Bool {
        input > 0 && phase == .taking && replies.count < Self.maximumPipeline
    }

    private mutating func close() -> Action {
        phase = .ending
        return .close
    }
}
