import InterlockHTTP
import Testing

@Suite("The protocol of a client's connection")
struct HTTPServerStateMachineTests {
    typealias Machine = HTTPServerStateMachine

    /// The largest weight of one part in these tests; two of them exceed each limit.
    private static let large = 40_000

    /// A connection whose request has begun.
    private static func begun(_ carrier: Machine.Carrier = .connection, _ succession: Machine.Succession = .another) -> Machine {
        var machine = Machine(carrier)
        begin(&machine, succession)
        return machine
    }

    private static func begin(_ machine: inout Machine, _ succession: Machine.Succession = .another) {
        #expect(arrive(.head, &machine) == .take)
        #expect(machine.take(.head) == .begin)
        machine.begin(succession, announced: nil)
    }

    private static func arrive(
        _ part: Machine.Part, _ machine: inout Machine, isWritable: Bool = true, mayBegin: Bool = true
    ) -> Machine.WaitingAction {
        machine.arrived(part, isWritable: isWritable, mayBegin: mayBegin)
    }

    /// A connection whose request is complete, has no body, and goes to this receiver.
    private static func complete(
        _ carrier: Machine.Carrier = .connection, _ succession: Machine.Succession = .another,
        to receiver: Machine.Receiver = .collector
    ) -> Machine {
        var machine = begun(carrier, succession)
        end(&machine, to: receiver)
        return machine
    }

    private static func end(_ machine: inout Machine, to receiver: Machine.Receiver = .collector) {
        #expect(machine.take(.end) == .choose)
        machine.continued()
        machine.receives(receiver)
        #expect(machine.take(.end) == (receiver == .relay ? .relayEnd : .carryOut))
    }

    /// A connection that receives the body of its request.
    private static func receiving(
        _ receiver: Machine.Receiver, _ carrier: Machine.Carrier = .connection, _ succession: Machine.Succession = .another
    ) -> Machine {
        var machine = begun(carrier, succession)
        #expect(machine.take(.body(1)) == .choose)
        machine.receives(receiver)
        return machine
    }

    private static func answer(_ machine: inout Machine, endsConnection: Bool = false) -> Machine.Action {
        _ = machine.answerBegins()
        machine.answerCompleted(endsConnection: endsConnection)
        return machine.advance()
    }

    private static func next(
        _ part: Machine.Part?, _ machine: inout Machine, isWritable: Bool = true, mayGoOn: Bool = true
    ) -> Machine.WaitingAction {
        machine.nextWaiting(part, isWritable: isWritable, mayGoOn: mayGoOn)
    }

    private static func reads(_ machine: inout Machine, isWritable: Bool = true) -> Machine.StepAction {
        machine.readRequested()
        return machine.takeRead(isWritable: isWritable)
    }

    // MARK: Requests

    @Test("a connection awaits another request once the last one is answered")
    func another() {
        var machine = Machine(.connection)
        for _ in 0..<3 {
            Self.begin(&machine)
            Self.end(&machine)
            #expect(machine.answerBegins() == .another)
            machine.answerCompleted(endsConnection: false)
            #expect(machine.advance() == .awaitRequest)
        }
    }

    @Test("a collected request is carried out at its end")
    func collected() {
        var machine = Self.receiving(.collector)
        #expect(machine.take(.body(1)) == .collect)
        #expect(machine.take(.end) == .carryOut)
    }

    @Test("pipelined requests wait for the answer to the one before")
    func pipelined() {
        var machine = Self.complete()
        for part: Machine.Part in [.head, .body(5), .end, .head] { #expect(Self.arrive(part, &machine) == .wait) }
        #expect(Self.answer(&machine) == .awaitRequest)
        #expect(machine.beginTaking() == .proceed)
        #expect(Self.next(.head, &machine) == .take)
        #expect(machine.take(.head) == .begin)
        machine.begin(.another, announced: nil)
        machine.receives(.collector)
        #expect(Self.next(.body(5), &machine) == .take)
        #expect(machine.take(.body(5)) == .collect)
        #expect(Self.next(.end, &machine) == .take)
        #expect(machine.take(.end) == .carryOut)
        #expect(Self.next(.head, &machine) == .wait)
    }

    @Test("a part that arrives while others are taken waits behind them")
    func order() {
        var machine = Self.complete()
        #expect(Self.arrive(.head, &machine) == .wait)
        #expect(Self.arrive(.end, &machine) == .wait)
        #expect(Self.answer(&machine) == .awaitRequest)
        #expect(machine.beginTaking() == .proceed)
        #expect(Self.next(.head, &machine) == .take)
        #expect(machine.take(.head) == .begin)
        machine.begin(.another, announced: nil)
        #expect(Self.arrive(.head, &machine) == .wait)
        #expect(machine.beginTaking() == .refuse)
    }

    @Test("a request without time in its slice waits for another one, which takes it in any case")
    func turn() {
        var machine = Machine(.connection)
        #expect(Self.arrive(.head, &machine, mayBegin: false) == .waitForTurn)
        #expect(Self.arrive(.end, &machine) == .wait)
        #expect(machine.isTurnAwaited)
        #expect(machine.beginTaking() == .refuse)
        machine.turnCame()
        #expect(Self.next(.head, &machine, mayGoOn: false) == .take)
        #expect(machine.take(.head) == .begin)
        machine.begin(.another, announced: nil)
        #expect(Self.next(.end, &machine, mayGoOn: false) == .take)
        Self.end(&machine)
        #expect(Self.answer(&machine) == .awaitRequest)
        #expect(Self.next(.head, &machine, mayGoOn: false) == .waitForTurn)
    }

    @Test("a request waits until the client reads its answers")
    func unread() {
        var machine = Machine(.connection)
        #expect(Self.arrive(.head, &machine, isWritable: false) == .wait)
        #expect(Self.reads(&machine, isWritable: false) == .refuse)
        #expect(machine.writabilityChanged(false) == .none)
        #expect(machine.writabilityChanged(true) == .awaitRequest)
        #expect(machine.beginTaking() == .proceed)
        #expect(Self.next(.head, &machine) == .take)
    }

    // MARK: Reads

    @Test("reading pauses while too many bytes wait")
    func backlog() {
        var machine = Self.complete()
        #expect(Self.arrive(.body(Self.large), &machine) == .wait)
        #expect(Self.reads(&machine) == .proceed)
        #expect(Self.arrive(.body(Self.large), &machine) == .wait)
        #expect(Self.reads(&machine) == .refuse)
        #expect(Self.answer(&machine) == .awaitRequest)
        #expect(machine.beginTaking() == .proceed)
        #expect(Self.next(.body(Self.large), &machine) == .take)
        #expect(machine.takeRead(isWritable: true) == .proceed)
        #expect(machine.takeRead(isWritable: true) == .refuse)
    }

    @Test("a relay that takes no more of the body holds reading")
    func demand() {
        var machine = Self.receiving(.relay)
        machine.demand(.held)
        #expect(Self.reads(&machine) == .refuse)
        machine.demand(.wanted)
        #expect(machine.takeRead(isWritable: false) == .proceed)
    }

    // MARK: Expect: 100-continue

    @Test("a connection is not reused after a body that was not asked for")
    func unasked() {
        var machine = Self.begun(.connection, .afterContinue)
        #expect(machine.answerBegins() == .afterContinue)
    }

    @Test("a connection is reused after a body that was asked for, or that is missing", arguments: [true, false])
    func asked(isAsked: Bool) {
        var machine = Self.begun(.connection, .afterContinue)
        if isAsked { machine.continued() } else { Self.end(&machine) }
        #expect(machine.answerBegins() == .another)
    }

    // MARK: Other protocols

    @Test("nothing is read after a request that asks for another protocol, and its connection closes")
    func upgrade() {
        var machine = Self.complete(.connection, .otherProtocol)
        #expect(machine.answerBegins() == .otherProtocol)
        #expect(Self.reads(&machine) == .refuse)
        #expect(Self.answer(&machine) == .finish)
        #expect(Self.reads(&machine) == .refuse)
        #expect(machine.outputIsOut() == .close)
    }

    @Test("a connection that is handed over is read, and closes when the sidecar goes down")
    func handOver() {
        var machine = Self.complete(.connection, .otherProtocol, to: .relay)
        #expect(machine.handOver() == .proceed)
        #expect(Self.reads(&machine, isWritable: false) == .proceed)
        #expect(machine.clientLeft() == .none)
        #expect(machine.shutDown(isWritable: true) == .close)
    }

    @Test("neither a stream nor a connection whose answer has begun is handed over")
    func notHandedOver() {
        var stream = Self.complete(.stream, to: .relay)
        #expect(stream.handOver() == .refuse)
        var connection = Self.complete(to: .relay)
        _ = connection.answerBegins()
        #expect(connection.handOver() == .refuse)
    }

    // MARK: Ends

    @Test("a connection closes once its last answer is written", arguments: [true, false])
    func last(endsConnection: Bool) {
        var machine = Self.complete(.connection, endsConnection ? .another : .last)
        #expect(Self.arrive(.head, &machine) == .wait)
        #expect(Self.answer(&machine, endsConnection: endsConnection) == .finish)
        #expect(machine.writabilityChanged(true) == .extend)
        #expect(machine.outputIsOut() == .close)
    }

    @Test("nothing is delivered once the connection closes")
    func closing() {
        var machine = Self.complete(.connection, .last)
        #expect(Self.answer(&machine) == .finish)
        for part: Machine.Part in [.head, .body(1), .end] {
            #expect(Self.arrive(part, &machine) == .take)
            #expect(machine.take(part) == .drop(.none))
        }
        #expect(machine.answerBegins() == .last)
        #expect(machine.advance() == .none)
    }

    @Test("the rest of the last request is awaited after its answer")
    func rest() {
        var machine = Self.receiving(.nobody, .connection, .last)
        #expect(Self.answer(&machine) == .finish)
        #expect(machine.outputIsOut() == .closeOutput)
        #expect(machine.take(.body(1)) == .drop(.none))
        #expect(machine.take(.end) == .drop(.close))
    }

    @Test("the rest of a request that is answered early is dropped", arguments: [.collector, .relay] as [Machine.Receiver])
    func early(receiver: Machine.Receiver) {
        var machine = Self.receiving(receiver)
        machine.demand(.held)
        #expect(Self.answer(&machine) == .dropRest)
        #expect(Self.reads(&machine) == .proceed)
        #expect(machine.take(.body(1)) == .drop(.extend))
        #expect(machine.take(.end) == .drop(.awaitRequest))
    }

    @Test("the deadline concerns a relay until it has answered")
    func deadline() {
        var machine = Self.receiving(.relay)
        #expect(machine.timedOut() == .reportAlarm)
        #expect(Self.answer(&machine) == .dropRest)
        #expect(machine.timedOut() == .close)
    }

    // MARK: Clients that leave

    @Test("a client that sends nothing more gets its answer, and the connection closes")
    func halfClosed() {
        var machine = Self.complete()
        #expect(machine.clientLeft() == .reportDeparture)
        #expect(Self.answer(&machine) == .finish)
        #expect(machine.outputIsOut() == .close)
    }

    @Test("the rest of a request is not awaited from a client that has left")
    func leftWithinBody() {
        var machine = Self.receiving(.relay)
        #expect(machine.clientLeft() == .reportDeparture)
        #expect(Self.answer(&machine) == .finish)
        #expect(machine.outputIsOut() == .close)
    }

    @Test("a client that leaves after its answer does not delay the end")
    func leftBehind() {
        var machine = Machine(.connection)
        #expect(machine.clientLeft() == .finish)
        #expect(machine.outputIsOut() == .close)
        machine = Self.receiving(.nobody, .connection, .last)
        #expect(Self.answer(&machine) == .finish)
        #expect(machine.outputIsOut() == .closeOutput)
        #expect(machine.clientLeft() == .close)
    }

    // MARK: Errors

    @Test("a complete request is answered although malformed bytes follow")
    func malformedBehind() {
        var machine = Self.complete()
        #expect(Self.arrive(.head, &machine) == .wait)
        #expect(machine.failed(.malformed) == .dropWaiting)
        #expect(Self.answer(&machine) == .finish)
    }

    @Test("a request whose rest is malformed is broken, and ends the connection")
    func malformedRest() {
        var machine = Self.receiving(.collector)
        #expect(machine.failed(.malformed) == .breakRequest)
        #expect(Self.answer(&machine) == .finish)
        #expect(machine.outputIsOut() == .closeOutput)
    }

    @Test("malformed bytes where a request should begin are refused")
    func malformed() {
        var machine = Machine(.connection)
        #expect(machine.failed(.malformed) == .refuse)
        #expect(Self.answer(&machine) == .finish)
    }

    @Test("malformed bytes are not answered before requests that wait for the client to read")
    func malformedUnread() {
        var machine = Machine(.connection)
        #expect(Self.arrive(.head, &machine, isWritable: false) == .wait)
        #expect(machine.failed(.malformed) == .finish)
    }

    @Test("a connection closes at once when it fails, or when a client that has left is malformed")
    func failed() {
        var machine = Self.complete()
        #expect(machine.failed(.disconnection) == .leave)
        #expect(machine.clientLeft() == .reportDeparture)
        #expect(machine.failed(.malformed) == .leave)
        #expect(machine.close() == .close)
    }

    // MARK: Unwanted bodies

    @Test("an endless body that nobody wants ends the connection, and is read in small pieces")
    func endless() {
        var machine = Self.receiving(.relay)
        #expect(Self.answer(&machine) == .dropRest)
        #expect(machine.unwanted.readLength == .usual)
        #expect(machine.take(.body(Self.large)) == .drop(.extend))
        #expect(machine.unwanted.readLength == .little)
        #expect(Self.reads(&machine) == .proceed)
        #expect(machine.take(.body(Self.large)) == .drop(.finish))
        #expect(Self.reads(&machine) == .refuse)
    }

    @Test("an endless body that nobody wants resets its stream once the answer is written")
    func endlessStream() {
        var machine = Self.receiving(.relay, .stream)
        #expect(machine.isWrittenAwaited)
        #expect(Self.answer(&machine) == .dropRest)
        #expect(machine.take(.body(Self.large)) == .drop(.none))
        #expect(machine.answerWritten() == .reset)
    }

    @Test("a stream's body that announces little is read to its end")
    func smallStream() {
        var machine = Machine(.stream)
        #expect(machine.take(.head) == .begin)
        machine.begin(.another, announced: 100_000)
        machine.receives(.nobody)
        #expect(Self.answer(&machine) == .dropRest)
        #expect(machine.take(.body(100_000)) == .drop(.none))
        #expect(machine.answerWritten() == .none)
        #expect(Self.reads(&machine) == .proceed)
    }

    // MARK: The sidecar

    @Test("a connection without a request ends when the sidecar goes down")
    func down() {
        var machine = Machine(.connection)
        #expect(machine.shutDown(isWritable: true) == .finish)
    }

    @Test("a client that left and does not read cannot delay the end when the sidecar goes down")
    func downWhileClosing() {
        var machine = Machine(.connection)
        #expect(machine.clientLeft() == .finish)
        #expect(machine.shutDown(isWritable: true) == .linger)
    }

    @Test("a request is answered although the sidecar goes down, and is the last")
    func downWithinRequest() {
        var machine = Self.complete()
        #expect(machine.shutDown(isWritable: true) == .none)
        #expect(machine.answerBegins() == .last)
        #expect(Self.answer(&machine) == .finish)
        #expect(machine.shutDown(isWritable: false) == .linger)
    }

    @Test("a client that does not read gets a short deadline when the sidecar goes down, unless a relay has its own")
    func downUnread() {
        var collected = Self.complete()
        #expect(collected.shutDown(isWritable: false) == .linger)
        var relayed = Self.complete(to: .relay)
        #expect(relayed.shutDown(isWritable: false) == .none)
    }

    @Test("a removed key ends a connection without a request, and no stream")
    func removed() {
        var connection = Machine(.connection)
        #expect(connection.callerRemoved() == .finish)
        #expect(connection.callerRemoved() == .none)
        var stream = Machine(.stream)
        #expect(stream.callerRemoved() == .none)
    }

    @Test("a removed key breaks a request without an answer, whose rest is not awaited")
    func removedWithinBody() {
        var machine = Self.receiving(.collector)
        #expect(machine.callerRemoved() == .breakRequest)
        #expect(Self.answer(&machine) == .finish)
        #expect(machine.outputIsOut() == .close)
    }

    @Test("a removed key breaks a relay's answer, and leaves an event stream a moment")
    func removedWithinAnswer() {
        var relayed = Self.complete(to: .relay)
        _ = relayed.answerBegins()
        #expect(relayed.callerRemoved() == .breakRequest)
        var stream = Self.complete()
        _ = stream.answerBegins()
        #expect(stream.callerRemoved() == .linger)
    }
}
