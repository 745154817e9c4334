import Interlock
import Testing

@testable import SidecarListeners

@Suite("Protocol of a RESP connection")
struct RESPServerStateMachineTests {
    typealias Machine = RESPServerStateMachine

    /// Takes commands in one slice. Returns their tags.
    @discardableResult
    private static func take(_ count: Int, _ machine: inout Machine, isRedisBusy: Bool = false) -> [UInt64] {
        machine.sliceBegins()
        defer { machine.sliceEnds() }
        return (0..<count).map { _ in
            #expect(machine.nextCommand(isRedisBusy: isRedisBusy) == .take)
            return machine.commandParsed()
        }
    }

    private static func reply(_ size: Int) -> ReplyBuffer {
        let writer = RESPWriter()
        writer.bulk(String(repeating: "x", count: size))
        return writer.buffer
    }

    /// Answers the first command.
    private static func replyToFirstCommand(_ machine: inout Machine, inputLength: Int = 0) -> Machine.Action {
        machine.replies.removeFirst()
        return machine.outputAppended(10, inputLength: inputLength, mayWrite: true)
    }

    // MARK: Limits

    @Test("1,024 pending commands pause reading, and one reply resumes it")
    func pipeline() {
        var machine = Machine(.plain)
        Self.take(Machine.maximumPipeline, &machine)
        #expect(machine.nextCommand(isRedisBusy: false) == .none)
        #expect(machine.readRequested(inputLength: 100, isRedisBusy: false) == .none)
        #expect(machine.resume(inputLength: 100, isRedisBusy: false) == .none)
        #expect(Self.replyToFirstCommand(&machine, inputLength: 100) == .scheduleFlush)
        #expect(machine.flush() == .write)
        #expect(machine.resume(inputLength: 100, isRedisBusy: false) == .take)
        Self.take(1, &machine)
        #expect(machine.resumeReading(isRedisBusy: false) == .none)
        #expect(Self.replyToFirstCommand(&machine) == .scheduleFlush)
        #expect(machine.resume(inputLength: 0, isRedisBusy: false) == .read)
        #expect(machine.resume(inputLength: 0, isRedisBusy: false) == .none)
    }

    @Test("A megabyte of replies that wait for an earlier one pauses reading")
    func keptReplies() {
        var machine = Machine(.plain)
        let tags = Self.take(2, &machine)
        machine.replies.hold(Self.reply(Machine.maximumWaiting), for: tags[1])
        #expect(machine.nextCommand(isRedisBusy: false) == .none)
        #expect(machine.readRequested(inputLength: 0, isRedisBusy: false) == .none)
        machine.replies.removeFirst()
        #expect(machine.replies.popReady() != nil)
        #expect(machine.outputAppended(10, inputLength: 0, mayWrite: true) == .scheduleFlush)
        #expect(machine.flush() == .write)
        #expect(machine.resume(inputLength: 0, isRedisBusy: false) == .read)
    }

    @Test("While Redis is busy, 17 commands may be pending, and one more each interval")
    func extraCommand() {
        var machine = Machine(.plain)
        Self.take(Machine.maximumPendingWhileBusy + 1, &machine, isRedisBusy: true)
        #expect(machine.nextCommand(isRedisBusy: true) == .scheduleExtraCommand)
        #expect(machine.nextCommand(isRedisBusy: true) == .none)
        #expect(machine.readRequested(inputLength: 0, isRedisBusy: true) == .none)
        #expect(machine.extraCommandGranted() == .resume)
        #expect(machine.resume(inputLength: 0, isRedisBusy: true) == .read)
        Self.take(1, &machine, isRedisBusy: true)
        #expect(machine.nextCommand(isRedisBusy: true) == .scheduleExtraCommand)
        #expect(machine.nextCommand(isRedisBusy: false) == .take)
    }

    @Test("At most 2 KiB are read ahead for a client that waits for a slice")
    func readAhead() {
        var machine = Machine(.plain)
        #expect(machine.bytesReceived() == .take)
        #expect(machine.awaitSlice() == .awaitSlice)
        #expect(machine.awaitSlice() == .none)
        #expect(machine.bytesReceived() == .none)
        #expect(machine.readRequested(inputLength: ConnectionSlices.readAhead - 1, isRedisBusy: false) == .read)
        #expect(machine.readRequested(inputLength: ConnectionSlices.readAhead, isRedisBusy: false) == .none)
        #expect(machine.resume(inputLength: ConnectionSlices.readAhead, isRedisBusy: false) == .none)
        #expect(machine.sliceGranted() == .take)
        Self.take(1, &machine)
        #expect(machine.sliceUsed() == .write)
        #expect(machine.resume(inputLength: 0, isRedisBusy: false) == .read)
    }

    // MARK: Replies

    @Test("Replies are sent in the order of their commands, each once")
    func repliesAreSentInCommandOrder() {
        var queue = RESPReplyQueue()
        let tags = (0..<4).map { _ in queue.append() }
        let (second, third) = (Self.reply(2), Self.reply(3))
        #expect(queue.position(of: tags[2]) == .later)
        queue.hold(third, for: tags[2])
        queue.hold(second, for: tags[1])
        #expect(queue.popReady() == nil)
        #expect(queue.position(of: tags[2]) == .answered)
        #expect(queue.waitingBytes == second.count + third.count)
        #expect(queue.position(of: tags[0]) == .first)
        queue.removeFirst()
        #expect(queue.popReady() === second)
        #expect(queue.popReady() === third)
        #expect(queue.popReady() == nil)
        #expect(queue.waitingBytes == 0)
        #expect(tags.map(queue.position) == [.answered, .answered, .answered, .first])
    }

    @Test("A reply is written immediately if nothing else is pending, and otherwise at the end of the tick")
    func loneReplyIsWrittenImmediately() {
        var machine = Machine(.plain)
        Self.take(2, &machine)
        #expect(Self.replyToFirstCommand(&machine) == .scheduleFlush)
        #expect(Self.replyToFirstCommand(&machine) == .write)
        Self.take(1, &machine)
        machine.sliceBegins()
        #expect(Self.replyToFirstCommand(&machine) == .none)
    }

    @Test("A client that does not read is watched, and disconnected once 4 MiB are unread")
    func unreadRepliesDisconnectClient() {
        var machine = Machine(.plain)
        Self.take(2, &machine)
        #expect(machine.writabilityChanged(false) == .watchStall)
        #expect(machine.nextCommand(isRedisBusy: false) == .none)
        #expect(machine.readRequested(inputLength: 0, isRedisBusy: false) == .none)
        #expect(Self.replyToFirstCommand(&machine) == .none)
        #expect(machine.writabilityChanged(true) == .write)
        #expect(machine.resume(inputLength: 0, isRedisBusy: false) == .read)
        #expect(machine.writabilityChanged(false) == .watchStall)
        #expect(machine.outputAppended(Machine.maximumOutput, inputLength: 0, mayWrite: true) == .none)
        #expect(machine.outputAppended(Machine.maximumOutput + 1, inputLength: 0, mayWrite: true) == .drop)
        #expect(machine.endedBy == .sidecar)
        #expect(machine.outputAppended(10, inputLength: 0, mayWrite: true) == .discard)
        #expect(machine.flush() == .none)
    }

    // MARK: The end

    @Test("A client that quits during a read is answered when the read completes, and nothing follows")
    func clientQuittingDuringReadIsAnswered() {
        var machine = Machine(.plain)
        machine.sliceBegins()
        _ = machine.commandParsed()
        #expect(Self.replyToFirstCommand(&machine) == .none)
        #expect(machine.closeAfterReplies(endedBy: .client) == .scheduleFlush)
        #expect(machine.nextCommand(isRedisBusy: false) == .none)
        machine.sliceEnds()
        #expect(machine.isClosing)
        #expect(machine.flush() == .writeAndClose)
        #expect(machine.flush() == .none)
        #expect(machine.outputAppended(10, inputLength: 0, mayWrite: true) == .discard)
        #expect(machine.channelClosed(inputLength: 0) == .end)
        #expect(machine.endedBy == .client)
    }

    @Test("A shutdown closes the connection after the replies, once the socket accepts them")
    func shutsDown() {
        var machine = Machine(.plain)
        Self.take(2, &machine)
        #expect(machine.closeAfterReplies(endedBy: .sidecar) == .scheduleFlush)
        #expect(machine.flush() == .write)
        #expect(machine.bytesReceived() == .discard)
        #expect(machine.readRequested(inputLength: 0, isRedisBusy: false) == .scheduleExtraCommand)
        #expect(machine.extraCommandGranted() == .read)
        #expect(Self.replyToFirstCommand(&machine) == .scheduleFlush)
        #expect(machine.writabilityChanged(false) == .watchStall)
        #expect(Self.replyToFirstCommand(&machine) == .none)
        #expect(machine.writabilityChanged(true) == .writeAndClose)
    }

    @Test("Malformed bytes are answered after the earlier replies, and the connection lingers", arguments: [true, false])
    func malformedBytesAreAnsweredLast(isPlain: Bool) {
        var machine = Machine(isPlain ? .plain : .tls)
        Self.take(1, &machine)
        let tag = machine.refuse()
        #expect(machine.replies.position(of: tag) == .later)
        #expect(machine.bytesReceived() == .discard)
        #expect(machine.flush() == .write)
        #expect(Self.replyToFirstCommand(&machine) == .scheduleFlush)
        #expect(Self.replyToFirstCommand(&machine) == .none)
        #expect(machine.flush() == (isPlain ? .writeAndLinger : .writeAndClose))
        #expect(machine.readRequested(inputLength: 0, isRedisBusy: false) == .scheduleExtraCommand)
        #expect(machine.inputEnded(inputLength: 0) == .close)
    }

    @Test("Commands that wait for a slice run before a lost lease closes the connection")
    func lostLeaseBehindCommands() {
        var machine = Machine(.plain)
        Self.take(1, &machine)
        #expect(machine.awaitSlice() == .awaitSlice)
        #expect(machine.closeAfterOutput() == .none)
        #expect(machine.sliceGranted() == .take)
        Self.take(3, &machine)
        #expect(machine.sliceUsed() == .close)
        #expect(machine.endedBy == .sidecar)
        #expect(machine.channelClosed(inputLength: 0) == .end)
    }

    @Test("A lost lease closes the connection after the replies written so far")
    func lostLease() {
        var machine = Machine(.plain)
        Self.take(2, &machine)
        #expect(Self.replyToFirstCommand(&machine) == .scheduleFlush)
        #expect(machine.closeAfterOutput() == .writeAndClose)
        #expect(Self.replyToFirstCommand(&machine) == .discard)
        #expect(machine.closeAfterOutput() == .none)
    }

    @Test("A revoked key cancels the calls, and commands that wait for a slice are not run")
    func revokedKeyCancelsCalls() {
        var machine = Machine(.plain)
        let tags = Self.take(3, &machine)
        machine.replies.recordPendingCall(.lock(7), for: tags[0])
        machine.replies.recordPendingCall(.permit(8), for: tags[2])
        machine.replies.hold(Self.reply(1), for: tags[2])
        #expect(machine.awaitSlice() == .awaitSlice)
        let calls = machine.revoke()
        #expect(calls.count == 1)
        if case .lock(7)? = calls.first {} else { Issue.record("\(calls)") }
        #expect(machine.closeAfterOutput() == .writeAndClose)
        #expect(machine.sliceGranted() == .none)
        #expect(machine.sliceUsed() == .none)
        #expect(machine.end().isEmpty)
        #expect(machine.replies.position(of: tags[1]) == .answered)
    }

    @Test("Commands left at the end of the input run before the connection closes, even if Redis is busy")
    func inputEnds() {
        var machine = Machine(.plain)
        Self.take(Machine.maximumPendingWhileBusy + 1, &machine, isRedisBusy: true)
        #expect(machine.nextCommand(isRedisBusy: true) == .scheduleExtraCommand)
        #expect(machine.inputEnded(inputLength: 100) == .awaitSlice)
        #expect(machine.flush() == .write)
        #expect(machine.sliceGranted() == .take)
        Self.take(5, &machine, isRedisBusy: true)
        #expect(machine.awaitSlice() == .awaitSlice)
        #expect(machine.sliceUsed() == .write)
        #expect(machine.sliceGranted() == .take)
        Self.take(5, &machine, isRedisBusy: true)
        #expect(machine.sliceUsed() == .close)
    }

    @Test("If the input ends while a slice takes commands, a later slice closes the connection")
    func inputEndsWithinSlice() {
        var machine = Machine(.plain)
        Self.take(1, &machine)
        machine.sliceBegins()
        #expect(machine.inputEnded(inputLength: 10) == .awaitSlice)
        #expect(Self.replyToFirstCommand(&machine) == .none)
        machine.sliceEnds()
        #expect(machine.flush() == .write)
        #expect(machine.sliceGranted() == .take)
        #expect(machine.sliceUsed() == .close)
    }

    @Test("If the input ends with no commands left, the connection closes, whatever is pending")
    func inputEndsWithoutCommands() {
        var machine = Machine(.plain)
        Self.take(1, &machine)
        #expect(machine.inputEnded(inputLength: 0) == .close)
        #expect(machine.channelClosed(inputLength: 0) == .end)
    }

    @Test("Commands left by a disconnected client run without replies")
    func commandsLeftByDisconnectedClientRunWithoutReplies() {
        var machine = Machine(.plain)
        Self.take(1, &machine)
        machine.sliceBegins()
        // A write within the slice fails.
        #expect(machine.channelClosed(inputLength: 100) == .leave)
        #expect(machine.awaitSlice() == .awaitSlice)
        #expect(machine.isChannelClosed)
        #expect(Self.replyToFirstCommand(&machine) == .discard)
        machine.sliceEnds()
        #expect(machine.channelClosed(inputLength: 100) == .none)
        #expect(machine.sliceGranted() == .take)
        Self.take(1, &machine)
        #expect(machine.sliceUsed() == .end)
        #expect(machine.end().isEmpty)
        #expect(!machine.isOpen)
        #expect(machine.channelClosed(inputLength: 0) == .none)
    }

    @Test("At the deadline an unauthenticated client is refused, and one in its TLS handshake is disconnected")
    func login() {
        var unauthenticated = Machine(.plain)
        #expect(unauthenticated.loginExpired(isSecured: true) == .refuse)
        _ = unauthenticated.refuse()
        #expect(Self.replyToFirstCommand(&unauthenticated) == .scheduleFlush)
        #expect(unauthenticated.loginExpired(isSecured: true) == .none)
        var silent = Machine(.tls)
        #expect(silent.loginExpired(isSecured: false) == .drop)
        #expect(silent.loginExpired(isSecured: false) == .none)
    }
}
