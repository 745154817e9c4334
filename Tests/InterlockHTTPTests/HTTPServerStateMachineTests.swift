import InterlockHTTP
import Testing

@Suite("The state machine of a client's connection")
struct HTTPServerStateMachineTests {
    typealias Machine = HTTPServerStateMachine

    /// The largest weight of one part in these tests; two of them exceed each limit.
    private static let large = 40_000

    /// Returns a connection whose request has begun.
    private static func begun(_ carrier: Machine.Carrier = .connection, _ nextUse: Machine.NextUse = .another) -> Machine {
        var machine = Machine(carrier)
        begin(&machine, nextUse)
        return machine
    }

    private static func begin(_ machine: inout Machine, _ nextUse: Machine.NextUse = .another) {
        #expect(arrive(.head, &machine) == .take)
        #expect(machine.take(.head) == .begin)
        machine.begin(nextUse, contentLength: nil)
    }

    private static func arrive(
        _ part: Machine.Part, _ machine: inout Machine, isWritable: Bool = true, mayBegin: Bool = true
    ) -> Machine.WaitingAction {
        machine.partReceived(part, isWritable: isWritable, mayBegin: mayBegin)
    }

    /// Returns a connection whose request is complete, has no body, and goes to this receiver.
    private static func complete(
        _ carrier: Machine.Carrier = .connection, _ nextUse: Machine.NextUse = .another,
        to receiver: Machine.Receiver = .collector
    ) -> Machine {
        var machine = begun(carrier, nextUse)
        end(&machine, to: receiver)
        return machine
    }

    private static func end(_ machine: inout Machine, to receiver: Machine.Receiver = .collector) {
        #expect(machine.take(.end) == .choose)
        machine.continueResolved()
        machine.setReceiver(receiver)
        #expect(machine.take(.end) == (receiver == .relay ? .relayEnd : .executeRequest))
    }

    /// Returns a connection that receives the body of its request.
    private static func receiving(
        _ receiver: Machine.Receiver, _ carrier: Machine.Carrier = .connection, _ nextUse: Machine.NextUse = .another
    ) -> Machine {
        var machine = begun(carrier, nextUse)
        #expect(machine.take(.body(1)) == .choose)
        machine.setReceiver(receiver)
        return machine
    }

    private static func respond(_ machine: inout Machine, endsConnection: Bool = false) -> Machine.Action {
        _ = machine.responseBegins()
        machine.responseCompleted(endsConnection: endsConnection)
        return machine.advance()
    }

    private static func next(
        _ part: Machine.Part?, _ machine: inout Machine, isWritable: Bool = true, mayContinue: Bool = true
    ) -> Machine.WaitingAction {
        machine.nextWaiting(part, isWritable: isWritable, mayContinue: mayContinue)
    }

    private static func reads(_ machine: inout Machine, isWritable: Bool = true) -> Machine.StepAction {
        machine.readRequested()
        return machine.takeRead(isWritable: isWritable)
    }

    // MARK: Requests

    @Test("A connection awaits another request once the last one is answered")
    func answeredConnectionAwaitsAnotherRequest() {
        var machine = Machine(.connection)
        for _ in 0..<3 {
            Self.begin(&machine)
            Self.end(&machine)
            #expect(machine.responseBegins() == .another)
            machine.responseCompleted(endsConnection: false)
            #expect(machine.advance() == .awaitRequest)
        }
    }

    @Test("A collected request is executed at its end")
    func collectedRequestIsExecutedAtItsEnd() {
        var machine = Self.receiving(.collector)
        #expect(machine.take(.body(1)) == .collect)
        #expect(machine.take(.end) == .executeRequest)
    }

    @Test("Pipelined requests wait for the response to the previous one")
    func pipelined() {
        var machine = Self.complete()
        for part: Machine.Part in [.head, .body(5), .end, .head] { #expect(Self.arrive(part, &machine) == .wait) }
        #expect(Self.respond(&machine) == .awaitRequest)
        #expect(machine.beginDraining() == .proceed)
        #expect(Self.next(.head, &machine) == .take)
        #expect(machine.take(.head) == .begin)
        machine.begin(.another, contentLength: nil)
        machine.setReceiver(.collector)
        #expect(Self.next(.body(5), &machine) == .take)
        #expect(machine.take(.body(5)) == .collect)
        #expect(Self.next(.end, &machine) == .take)
        #expect(machine.take(.end) == .executeRequest)
        #expect(Self.next(.head, &machine) == .wait)
    }

    @Test("A part that arrives while others are processed is queued behind them")
    func order() {
        var machine = Self.complete()
        #expect(Self.arrive(.head, &machine) == .wait)
        #expect(Self.arrive(.end, &machine) == .wait)
        #expect(Self.respond(&machine) == .awaitRequest)
        #expect(machine.beginDraining() == .proceed)
        #expect(Self.next(.head, &machine) == .take)
        #expect(machine.take(.head) == .begin)
        machine.begin(.another, contentLength: nil)
        #expect(Self.arrive(.head, &machine) == .wait)
        #expect(machine.beginDraining() == .refuse)
    }

    @Test("A request without time in its slice waits for the next slice, which always processes it")
    func lateRequestWaitsForNextSlice() {
        var machine = Machine(.connection)
        #expect(Self.arrive(.head, &machine, mayBegin: false) == .waitForSlice)
        #expect(Self.arrive(.end, &machine) == .wait)
        #expect(machine.isSliceAwaited)
        #expect(machine.beginDraining() == .refuse)
        machine.sliceStarted()
        #expect(Self.next(.head, &machine, mayContinue: false) == .take)
        #expect(machine.take(.head) == .begin)
        machine.begin(.another, contentLength: nil)
        #expect(Self.next(.end, &machine, mayContinue: false) == .take)
        Self.end(&machine)
        #expect(Self.respond(&machine) == .awaitRequest)
        #expect(Self.next(.head, &machine, mayContinue: false) == .waitForSlice)
    }

    @Test("A request waits until the client has read the earlier responses")
    func requestWaitsUntilClientHasReadEarlierResponses() {
        var machine = Machine(.connection)
        #expect(Self.arrive(.head, &machine, isWritable: false) == .wait)
        #expect(Self.reads(&machine, isWritable: false) == .refuse)
        #expect(machine.writabilityChanged(false) == .none)
        #expect(machine.writabilityChanged(true) == .awaitRequest)
        #expect(machine.beginDraining() == .proceed)
        #expect(Self.next(.head, &machine) == .take)
    }

    // MARK: Reads

    @Test("Reading pauses while too many bytes are waiting")
    func readingPausesWhileTooManyBytesAreWaiting() {
        var machine = Self.complete()
        #expect(Self.arrive(.body(Self.large), &machine) == .wait)
        #expect(Self.reads(&machine) == .proceed)
        #expect(Self.arrive(.body(Self.large), &machine) == .wait)
        #expect(Self.reads(&machine) == .refuse)
        #expect(Self.respond(&machine) == .awaitRequest)
        #expect(machine.beginDraining() == .proceed)
        #expect(Self.next(.body(Self.large), &machine) == .take)
        #expect(machine.takeRead(isWritable: true) == .proceed)
        #expect(machine.takeRead(isWritable: true) == .refuse)
    }

    @Test("A relay whose body buffer is full holds reading")
    func relayWhoseBodyBufferIsFullHoldsReading() {
        var machine = Self.receiving(.relay)
        machine.setDemand(.held)
        #expect(Self.reads(&machine) == .refuse)
        machine.setDemand(.wanted)
        #expect(machine.takeRead(isWritable: false) == .proceed)
    }

    // MARK: Expect: 100-continue

    @Test("A connection is not reused after a body that was not requested")
    func unasked() {
        var machine = Self.begun(.connection, .afterContinue)
        #expect(machine.responseBegins() == .afterContinue)
    }

    @Test("A connection is reused after a body that was requested or is missing", arguments: [true, false])
    func asked(isAsked: Bool) {
        var machine = Self.begun(.connection, .afterContinue)
        if isAsked { machine.continueResolved() } else { Self.end(&machine) }
        #expect(machine.responseBegins() == .another)
    }

    // MARK: Other protocols

    @Test("Nothing is read after an upgrade request, and its connection closes")
    func nothingIsReadAfterUpgradeRequest() {
        var machine = Self.complete(.connection, .otherProtocol)
        #expect(machine.responseBegins() == .otherProtocol)
        #expect(Self.reads(&machine) == .refuse)
        #expect(Self.respond(&machine) == .finish)
        #expect(Self.reads(&machine) == .refuse)
        #expect(machine.outputFlushed() == .close)
    }

    @Test("A connection that is handed over is read, and closes when the sidecar shuts down")
    func handOver() {
        var machine = Self.complete(.connection, .otherProtocol, to: .relay)
        #expect(machine.handOver() == .proceed)
        #expect(Self.reads(&machine, isWritable: false) == .proceed)
        #expect(machine.clientLeft() == .none)
        #expect(machine.shutDown(isWritable: true) == .close)
    }

    @Test("Neither a stream nor a connection whose response has begun is handed over")
    func notHandedOver() {
        var stream = Self.complete(.stream, to: .relay)
        #expect(stream.handOver() == .refuse)
        var connection = Self.complete(to: .relay)
        _ = connection.responseBegins()
        #expect(connection.handOver() == .refuse)
    }

    // MARK: Ends

    @Test("A connection closes after its last response is written", arguments: [true, false])
    func connectionClosesAfterLastResponseIsWritten(endsConnection: Bool) {
        var machine = Self.complete(.connection, endsConnection ? .another : .last)
        #expect(Self.arrive(.head, &machine) == .wait)
        #expect(Self.respond(&machine, endsConnection: endsConnection) == .finish)
        #expect(machine.writabilityChanged(true) == .extend)
        #expect(machine.outputFlushed() == .close)
    }

    @Test("Nothing is delivered once the connection closes")
    func nothingIsDeliveredOnceConnectionCloses() {
        var machine = Self.complete(.connection, .last)
        #expect(Self.respond(&machine) == .finish)
        for part: Machine.Part in [.head, .body(1), .end] {
            #expect(Self.arrive(part, &machine) == .take)
            #expect(machine.take(part) == .drop(.none))
        }
        #expect(machine.responseBegins() == .last)
        #expect(machine.advance() == .none)
    }

    @Test("The rest of the last request is awaited after its response")
    func restOfLastRequestIsAwaitedAfterResponse() {
        var machine = Self.receiving(.nobody, .connection, .last)
        #expect(Self.respond(&machine) == .finish)
        #expect(machine.outputFlushed() == .closeOutput)
        #expect(machine.take(.body(1)) == .drop(.none))
        #expect(machine.take(.end) == .drop(.close))
    }

    @Test("The rest of a request that was answered early is dropped", arguments: [.collector, .relay] as [Machine.Receiver])
    func restOfRequestThatWasAnsweredEarlyIsDropped(receiver: Machine.Receiver) {
        var machine = Self.receiving(receiver)
        machine.setDemand(.held)
        #expect(Self.respond(&machine) == .dropRemainder)
        #expect(Self.reads(&machine) == .proceed)
        #expect(machine.take(.body(1)) == .drop(.extend))
        #expect(machine.take(.end) == .drop(.awaitRequest))
    }

    @Test("The deadline applies to a relay until it has answered")
    func deadlineAppliesUntilRelayAnswers() {
        var machine = Self.receiving(.relay)
        #expect(machine.deadlineReached() == .reportTimer)
        #expect(Self.respond(&machine) == .dropRemainder)
        #expect(machine.deadlineReached() == .close)
    }

    // MARK: Clients that leave

    @Test("A client that sends nothing after its request gets its response, and the connection closes")
    func halfClosed() {
        var machine = Self.complete()
        #expect(machine.clientLeft() == .reportDeparture)
        #expect(Self.respond(&machine) == .finish)
        #expect(machine.outputFlushed() == .close)
    }

    @Test("The rest of a request is not awaited from a client that has left")
    func leftWithinBody() {
        var machine = Self.receiving(.relay)
        #expect(machine.clientLeft() == .reportDeparture)
        #expect(Self.respond(&machine) == .finish)
        #expect(machine.outputFlushed() == .close)
    }

    @Test("A client that leaves after its response does not delay the end")
    func leftBehind() {
        var machine = Machine(.connection)
        #expect(machine.clientLeft() == .finish)
        #expect(machine.outputFlushed() == .close)
        machine = Self.receiving(.nobody, .connection, .last)
        #expect(Self.respond(&machine) == .finish)
        #expect(machine.outputFlushed() == .closeOutput)
        #expect(machine.clientLeft() == .close)
    }

    // MARK: Errors

    @Test("A complete request is answered although malformed bytes follow")
    func malformedAfterRequest() {
        var machine = Self.complete()
        #expect(Self.arrive(.head, &machine) == .wait)
        #expect(machine.errorCaught(.malformed) == .dropWaiting)
        #expect(Self.respond(&machine) == .finish)
    }

    @Test("A request with a malformed rest is aborted and ends the connection")
    func malformedRest() {
        var machine = Self.receiving(.collector)
        #expect(machine.errorCaught(.malformed) == .abortRequest)
        #expect(Self.respond(&machine) == .finish)
        #expect(machine.outputFlushed() == .closeOutput)
    }

    @Test("Malformed bytes where a request should begin are refused")
    func malformedBytesWhereRequestShouldBeginAreRefused() {
        var machine = Machine(.connection)
        #expect(machine.errorCaught(.malformed) == .refuse)
        #expect(Self.respond(&machine) == .finish)
    }

    @Test("Malformed bytes are not answered before requests that wait for the client to read")
    func malformedUnread() {
        var machine = Machine(.connection)
        #expect(Self.arrive(.head, &machine, isWritable: false) == .wait)
        #expect(machine.errorCaught(.malformed) == .finish)
    }

    @Test("A connection closes immediately when it fails or when the bytes of a client that has left are malformed")
    func failedConnectionClosesImmediately() {
        var machine = Self.complete()
        #expect(machine.errorCaught(.disconnection) == .leave)
        #expect(machine.clientLeft() == .reportDeparture)
        #expect(machine.errorCaught(.malformed) == .leave)
        #expect(machine.close() == .close)
    }

    // MARK: Unwanted bodies

    @Test("An endless unwanted body ends the connection and is read in small pieces")
    func endless() {
        var machine = Self.receiving(.relay)
        #expect(Self.respond(&machine) == .dropRemainder)
        #expect(machine.unwanted.readLength == .usual)
        #expect(machine.take(.body(Self.large)) == .drop(.extend))
        #expect(machine.unwanted.readLength == .small)
        #expect(Self.reads(&machine) == .proceed)
        #expect(machine.take(.body(Self.large)) == .drop(.finish))
        #expect(Self.reads(&machine) == .refuse)
    }

    @Test("An endless unwanted body resets its stream after the response is written")
    func endlessStream() {
        var machine = Self.receiving(.relay, .stream)
        #expect(machine.needsResponseWritten)
        #expect(Self.respond(&machine) == .dropRemainder)
        #expect(machine.take(.body(Self.large)) == .drop(.none))
        #expect(machine.responseWritten() == .reset)
    }

    @Test("A stream's short announced body is read to its end")
    func smallStream() {
        var machine = Machine(.stream)
        #expect(machine.take(.head) == .begin)
        machine.begin(.another, contentLength: 100_000)
        machine.setReceiver(.nobody)
        #expect(Self.respond(&machine) == .dropRemainder)
        #expect(machine.take(.body(100_000)) == .drop(.none))
        #expect(machine.responseWritten() == .none)
        #expect(Self.reads(&machine) == .proceed)
    }

    // MARK: The sidecar

    @Test("A connection without a request ends when the sidecar shuts down")
    func shutDown() {
        var machine = Machine(.connection)
        #expect(machine.shutDown(isWritable: true) == .finish)
    }

    @Test("A client that left and does not read cannot delay the end when the sidecar shuts down")
    func shutDownWhileClosing() {
        var machine = Machine(.connection)
        #expect(machine.clientLeft() == .finish)
        #expect(machine.shutDown(isWritable: true) == .linger)
    }

    @Test("A request in progress is answered when the sidecar shuts down, and is the last")
    func shutDownWithinRequest() {
        var machine = Self.complete()
        #expect(machine.shutDown(isWritable: true) == .none)
        #expect(machine.responseBegins() == .last)
        #expect(Self.respond(&machine) == .finish)
        #expect(machine.shutDown(isWritable: false) == .linger)
    }

    @Test("A client that does not read gets a short deadline when the sidecar shuts down, unless a relay has its own")
    func shutDownUnread() {
        var collected = Self.complete()
        #expect(collected.shutDown(isWritable: false) == .linger)
        var relayed = Self.complete(to: .relay)
        #expect(relayed.shutDown(isWritable: false) == .none)
    }

    @Test("A removed key ends a connection without a request but no stream")
    func removedKeyEndsIdleConnection() {
        var connection = Machine(.connection)
        #expect(connection.keyRevoked() == .finish)
        #expect(connection.keyRevoked() == .none)
        var stream = Machine(.stream)
        #expect(stream.keyRevoked() == .none)
    }

    @Test("A removed key aborts an unanswered request, whose rest is not awaited")
    func removedWithinBody() {
        var machine = Self.receiving(.collector)
        #expect(machine.keyRevoked() == .abortRequest)
        #expect(Self.respond(&machine) == .finish)
        #expect(machine.outputFlushed() == .close)
    }

    @Test("A removed key aborts a relay's response, and an event stream ends a moment later")
    func removedDuringResponse() {
        var relayed = Self.complete(to: .relay)
        _ = relayed.responseBegins()
        #expect(relayed.keyRevoked() == .abortRequest)
        var stream = Self.complete()
        _ = stream.responseBegins()
        #expect(stream.keyRevoked() == .linger)
    }
}
