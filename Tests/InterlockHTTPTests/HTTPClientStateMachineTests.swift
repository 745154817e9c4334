import InterlockHTTP
import Testing

@Suite("The state machine of a connection to a server")
struct HTTPClientStateMachineTests {
    typealias Machine = HTTPClientStateMachine

    private static let now = Duration.seconds(100)
    /// The address at which a read ends, and with it the last part of a body.
    private static let end: UInt = 4096

    /// Returns a connection with a request.
    private static func machineWithRequest(
        _ carrier: Machine.Carrier = .connection, isReused: Bool = false, isSent: Bool = true
    ) -> Machine {
        var machine = Machine(carrier)
        #expect(machine.begin(isReused: isReused) == .proceed)
        if isSent { send(&machine) }
        return machine
    }

    private static func send(_ machine: inout Machine) {
        #expect(machine.requestPart() == .proceed)
        #expect(machine.requestEnd() == .proceed)
        #expect(machine.flushBegins() == .proceed)
        machine.flushEnds(at: now)
        if machine.carrier == .stream { machine.headSent(at: now) }
    }

    /// Delivers a response whose end is the end of its read.
    private static func respond(_ machine: inout Machine, keepsAlive: Bool = true) {
        if machine.carrier == .connection {
            #expect(machine.bytesReceived(.address(end), isLarge: false) == .deliver)
        }
        #expect(machine.responseHead(.final(keepsAlive: keepsAlive)) == .deliver)
        #expect(machine.responsePart(endingAt: end) == .deliver)
        #expect(machine.responseEnd() == .deliver)
    }

    // MARK: Reuse

    @Test("A complete response frees the connection for another request")
    func completeResponseFreesConnectionForAnotherRequest() {
        var machine = Self.machineWithRequest()
        for _ in 0..<3 {
            Self.respond(&machine)
            #expect(machine.allReceived() == .none)
            #expect(machine.readCompleted(isActive: true) == .returnToPool)
            #expect(machine.isPooled && machine.isResponseComplete)
            #expect(machine.begin() == .proceed)
            #expect(!machine.isResponseComplete)
            Self.send(&machine)
        }
    }

    @Test("A response that ends with an empty line ends with its read")
    func emptyLine() {
        var machine = Self.machineWithRequest()
        #expect(machine.bytesReceived(.emptyLine, isLarge: false) == .deliver)
        #expect(machine.responseHead(.final(keepsAlive: true)) == .deliver)
        #expect(machine.responseEnd() == .deliver)
        #expect(machine.readCompleted(isActive: true) == .returnToPool)
    }

    @Test("A connection closes when its last read continues past the response")
    func connectionClosesWhenLastReadContinuesPastResponse() {
        var machine = Self.machineWithRequest()
        #expect(machine.bytesReceived(.address(Self.end), isLarge: false) == .deliver)
        #expect(machine.responseHead(.final(keepsAlive: true)) == .deliver)
        #expect(machine.responsePart(endingAt: Self.end - 1) == .deliver)
        #expect(machine.responseEnd() == .deliver)
        #expect(machine.readCompleted(isActive: true) == .close)
        #expect(machine.begin() == .ignore)
    }

    @Test("Bytes between a response and the end of its read close the connection")
    func bytesAfterAnswer() {
        var machine = Self.machineWithRequest()
        Self.respond(&machine)
        #expect(machine.bytesReceived(.address(1), isLarge: false) == .close)
        #expect(machine.readCompleted(isActive: true) == .none)
        #expect(machine.begin() == .ignore)
    }

    @Test("Bytes on an unused connection close it")
    func unasked() {
        var machine = Machine(.connection)
        #expect(machine.bytesReceived(.emptyLine, isLarge: false) == .close)
        #expect(!machine.isPooled)
        #expect(machine.begin() == .ignore)
    }

    @Test("A second response in one read closes the connection, and is not delivered")
    func secondResponseClosesConnection() {
        var machine = Self.machineWithRequest()
        Self.respond(&machine)
        #expect(machine.responseHead(.final(keepsAlive: true)) == .close)
        #expect(machine.responsePart(endingAt: Self.end) == .ignore)
        #expect(machine.responseEnd() == .ignore)
    }

    @Test("A connection that the server does not keep alive is not reused")
    func notKept() {
        var machine = Self.machineWithRequest()
        Self.respond(&machine, keepsAlive: false)
        #expect(machine.readCompleted(isActive: true) == .close)
    }

    @Test("A connection closes when the response ends before the request")
    func connectionClosesWhenResponseEndsBeforeRequest() {
        var machine = Self.machineWithRequest(isSent: false)
        Self.respond(&machine)
        #expect(machine.requestPart() == .ignore)
        #expect(machine.requestEnd() == .ignore)
        #expect(machine.flushBegins() == .ignore)
        #expect(machine.readCompleted(isActive: true) == .close)
    }

    @Test("A response read within a flush is the last one")
    func flushed() {
        var machine = Self.machineWithRequest()
        #expect(machine.flushBegins() == .proceed)
        Self.respond(&machine)
        machine.flushEnds(at: Self.now)
        #expect(machine.readCompleted(isActive: true) == .close)
    }

    @Test("A closed channel is not free")
    func closedChannelIsNotFree() {
        var machine = Self.machineWithRequest()
        Self.respond(&machine)
        #expect(machine.readCompleted(isActive: false) == .close)
    }

    @Test("A connection on which an upgrade was offered carries no further request")
    func offered() {
        var machine = Self.machineWithRequest()
        machine.upgradeOffered()
        Self.respond(&machine)
        #expect(machine.readCompleted(isActive: true) == .close)
    }

    @Test("A stream leaves the pool with its response and closes in a later tick")
    func stream() {
        var machine = Self.machineWithRequest(.stream)
        Self.respond(&machine)
        #expect(machine.readCompleted(isActive: true) == .closeLater)
        #expect(machine.isResponseComplete && !machine.isPooled)
        #expect(machine.channelEnded(at: Self.now) == .none)
    }

    // MARK: The order of a response

    @Test("Informational answers precede the response, and their bodies are not delivered")
    func informationalAnswersPrecedeResponse() {
        var machine = Self.machineWithRequest()
        for _ in 0..<3 {
            #expect(machine.responseHead(.informational) == .deliverInformational)
            #expect(machine.responsePart(endingAt: Self.end) == .ignore)
        }
        Self.respond(&machine)
    }

    @Test("A second head within a response closes the connection")
    func secondHead() {
        var machine = Self.machineWithRequest()
        #expect(machine.responseHead(.final(keepsAlive: true)) == .deliver)
        #expect(machine.responseHead(.final(keepsAlive: true)) == .close)
        #expect(machine.responseEnd() == .ignore)
        #expect(machine.channelEnded(at: Self.now) == .fail(.failed))
    }

    @Test(
        "A malformed head closes the connection once, and nothing of the response is delivered",
        arguments: [.status, .contentLength, .transferCoding] as [HTTPClientStateMachine.ProtocolError])
    func malformedHeadClosesConnectionOnce(error: HTTPClientStateMachine.ProtocolError) {
        var machine = Self.machineWithRequest()
        #expect(machine.responseHead(.malformed(error)) == .reject(error))
        #expect(machine.responseHead(.malformed(error)) == .ignore)
        #expect(machine.responsePart(endingAt: Self.end) == .ignore)
        #expect(machine.responseEnd() == .ignore)
        #expect(machine.close() == .none)
        #expect(machine.channelEnded(at: Self.now) == .fail(.failed))
    }

    @Test("A connection that ends before the head of a response fails its request")
    func missingHead() {
        var machine = Self.machineWithRequest()
        #expect(machine.bytesReceived(.emptyLine, isLarge: false) == .deliver)
        #expect(machine.responseEnd() == .reject(.missingHead))
        #expect(machine.channelEnded(at: Self.now) == .fail(.failed))
    }

    // MARK: Failures

    @Test("A request that was not sent fails as unprocessed")
    func requestThatWasNotSentFailsAsUnprocessed() {
        var machine = Self.machineWithRequest(isSent: false)
        #expect(machine.channelEnded(at: Self.now) == .leaveAndFail(.unprocessed))
        #expect(!machine.isResponseComplete)
        #expect(machine.channelEnded(at: Self.now) == .none)
    }

    @Test("A reused connection that ends within a second was stale, and any other end is a failure")
    func quicklyEndedReusedConnectionWasStale() {
        var kept = Self.machineWithRequest()
        Self.respond(&kept)
        #expect(kept.readCompleted(isActive: true) == .returnToPool)
        #expect(kept.begin() == .proceed)
        Self.send(&kept)
        var late = kept
        var fresh = Self.machineWithRequest()
        #expect(kept.channelEnded(at: Self.now + .seconds(1)) == .leaveAndFail(.stale))
        #expect(late.channelEnded(at: Self.now + .seconds(1) + .nanoseconds(1)) == .leaveAndFail(.failed))
        #expect(fresh.channelEnded(at: Self.now) == .leaveAndFail(.failed))
    }

    @Test("Any error other than the connection's end is a failure, even on a reused connection")
    func otherError() {
        var machine = Self.machineWithRequest(.stream, isReused: true)
        #expect(machine.errorCaught(.other) == .recordCauseAndClose)
        #expect(machine.channelEnded(at: Self.now) == .fail(.failed))
    }

    @Test("A stream that the server refuses was not processed")
    func streamThatServerRefusesWasNotProcessed() {
        var machine = Self.machineWithRequest(.stream)
        #expect(machine.errorCaught(.refusedStream) == .recordCauseAndClose)
        #expect(machine.channelEnded(at: Self.now) == .fail(.unprocessed))
    }

    @Test("A stream excluded by GOAWAY was not processed unless its response has begun")
    func streamExcludedByGoawayWasNotProcessed() {
        var machine = Self.machineWithRequest(.stream)
        var answered = machine
        machine.declaredUnprocessed()
        #expect(machine.channelEnded(at: Self.now) == .leaveAndFail(.unprocessed))
        #expect(answered.responseHead(.informational) == .deliverInformational)
        answered.declaredUnprocessed()
        #expect(answered.channelEnded(at: Self.now) == .leaveAndFail(.failed))
    }

    @Test("The first error counts, and an error without a request closes the connection")
    func firstError() {
        var machine = Self.machineWithRequest()
        #expect(machine.errorCaught(.connectionEnd) == .recordCauseAndClose)
        #expect(machine.errorCaught(.other) == .ignore)
        var unused = Machine(.connection)
        #expect(unused.errorCaught(.other) == .close)
        #expect(unused.errorCaught(.other) == .ignore)
    }

    @Test("An error after a close is the cause of the failure")
    func errorAfterCloseExplainsFailure() {
        var machine = Self.machineWithRequest(.stream, isReused: true)
        #expect(machine.close() == .close)
        #expect(machine.errorCaught(.other) == .recordCause)
        #expect(machine.channelEnded(at: Self.now) == .fail(.failed))
    }

    @Test("After a failed write the decoder's end of the response is not delivered")
    func failedWrite() {
        var machine = Self.machineWithRequest()
        #expect(machine.bytesReceived(.address(Self.end), isLarge: false) == .deliver)
        #expect(machine.responseHead(.final(keepsAlive: false)) == .deliver)
        #expect(machine.writeFailed(.connectionEnd) == .recordCause)
        #expect(machine.writeFailed(.connectionEnd) == .ignore)
        #expect(machine.isPooled)
        #expect(machine.responseEnd() == .ignore)
        #expect(machine.allReceived() == .reportAllReceived)
        #expect(machine.readCompleted(isActive: true) == .none)
        #expect(machine.channelEnded(at: Self.now) == .leaveAndFail(.failed))
    }

    @Test("An unused connection that ends leaves the pool")
    func unusedEnds() {
        var machine = Machine(.connection)
        #expect(machine.channelEnded(at: Self.now) == .leave)
        #expect(machine.channelEnded(at: Self.now) == .none)
        #expect(machine.close() == .none)
    }

    // MARK: The receiver

    @Test("An abandoned request receives neither data nor a failure")
    func abandonedRequestReceivesNeitherDataNorFailure() {
        var machine = Self.machineWithRequest()
        #expect(machine.responseHead(.final(keepsAlive: true)) == .deliver)
        #expect(machine.abandon() == .close)
        #expect(!machine.isResponseComplete)
        #expect(machine.bytesReceived(.emptyLine, isLarge: false) == .ignore)
        #expect(machine.responsePart(endingAt: Self.end) == .ignore)
        #expect(machine.responseEnd() == .ignore)
        #expect(machine.allReceived() == .none && machine.writabilityChanged(true) == .none)
        #expect(machine.readCompleted(isActive: true) == .none)
        #expect(machine.channelEnded(at: Self.now) == .none)
    }

    @Test("The receiver is notified of writability and completed reads while its request is in progress")
    func receiverIsNotifiedOfReadsAndWritability() {
        var machine = Machine(.connection)
        #expect(machine.writabilityChanged(false) == .none && machine.allReceived() == .none)
        #expect(machine.begin() == .proceed)
        #expect(machine.writabilityChanged(false) == .reportWritability(false))
        #expect(machine.allReceived() == .reportAllReceived)
        #expect(machine.begin() == .ignore)
    }

    // MARK: Another protocol

    @Test("The protocol changes with the end of the head, and the connection is handed over once")
    func protocolChangesAtEndOfHead() {
        var machine = Self.machineWithRequest()
        machine.upgradeOffered()
        #expect(machine.handOver() == .ignore)
        #expect(machine.responseHead(.switching) == .keepForSwitch)
        #expect(machine.handOver() == .ignore)
        #expect(machine.responsePart(endingAt: Self.end) == .ignore)
        #expect(machine.responseEnd() == .switchProtocols)
        #expect(machine.responseEnd() == .ignore)
        #expect(machine.handOver() == .proceed)
        #expect(machine.handOver() == .ignore)
        #expect(machine.channelEnded(at: Self.now) == .none)
    }

    @Test("A receiver that does not take over the upgraded connection abandons or fails its request")
    func notTaken() {
        var machine = Self.machineWithRequest()
        #expect(machine.bytesReceived(.emptyLine, isLarge: false) == .deliver)
        #expect(machine.responseHead(.switching) == .keepForSwitch)
        #expect(machine.responseEnd() == .switchProtocols)
        var closed = machine
        #expect(machine.abandon() == .close)
        #expect(closed.close() == .close)
        #expect(closed.handOver() == .ignore)
        #expect(closed.channelEnded(at: Self.now) == .fail(.failed))
    }
}
