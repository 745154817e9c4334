import Interlock
import InterlockCore
import Testing

@Suite("Published events")
struct EventMessageTests {
    private static let start = #"{"v":1,"origin":"a1","db":3,"at_ms":1795237271176,"#

    private static func event(_ fields: String) -> InterlockEvent<EventPayload>? {
        ReceivedEvent(Array((start + fields + "}").utf8))?.event
    }

    @Test("A breaker's change is read with all its fields")
    func breakerChangeIsReadWithFields() throws {
        let event = try #require(
            Self.event(
                #""type":"breaker","service":"catalog","state":"half_open","cause":"failures","since_ms":5,"until_ms":6,"#
                    + #""generation":1795237271176594,"trips":2,"failure_rate":0.5,"slow_rate":0.25,"calls":20,"by":"b2","#
                    + #""forced":"""#))
        #expect(event.origin == "a1")
        #expect(event.database == 3)
        #expect(event.atMilliseconds == 1_795_237_271_176)
        #expect(
            event.payload
                == .breaker(
                    BreakerEvent(
                        service: "catalog",
                        breaker: BreakerSnapshot(state: .halfOpen, generation: 1_795_237_271_176_594) {
                            ($0.cause, $0.changedBy) = ("failures", "b2")
                            ($0.sinceMilliseconds, $0.untilMilliseconds, $0.trips, $0.calls) = (5, 6, 2, 20)
                            ($0.failureRate, $0.slowRate) = (0.5, 0.25)
                        })))
    }

    @Test("A breaker's change with only the required fields is read")
    func shortBreaker() {
        let event = Self.event(#""type":"breaker","service":"catalog","state":"open","generation":7"#)
        #expect(
            event?.payload
                == .breaker(BreakerEvent(service: "catalog", breaker: BreakerSnapshot(state: .open, generation: 7))))
    }

    @Test("A broken lock is read")
    func brokenLock() {
        let event = Self.event(#""type":"lock.broken","lock":"orders","by":"ops""#)
        #expect(event?.payload == .lock(LockEvent(kind: .broken, lock: "orders", brokenBy: "ops")))
    }

    @Test("A limit event is read with or without its subject", arguments: LimitEvent.Kind.allCases, ["u 1", nil])
    func limitEventIsReadWithOrWithoutSubject(kind: LimitEvent.Kind, subject: String?) {
        let event = Self.event(
            #""type":"\#(kind.rawValue)","service":"catalog","limit":"1s","used":8,"capacity":10"#
                + (subject.map { #","subject":"\#($0)""# } ?? ""))
        #expect(
            event?.payload
                == .limit(LimitEvent(kind: kind, service: "catalog", limitName: "1s", subject: subject, used: 8, limit: 10)))
    }

    @Test("The origin of a join or leave event is the sidecar that joins or leaves", arguments: FleetEvent.Kind.allCases)
    func fleet(kind: FleetEvent.Kind) {
        #expect(Self.event(#""type":"\#(kind.rawValue)""#)?.payload == .fleet(FleetEvent(kind: kind, sidecar: "a1")))
    }

    @Test("Unknown fields are ignored, even those of types that use their names differently")
    func unknownFields() {
        #expect(Self.event(#""type":"fleet.left","color":"red","limit":5,"used":[]"#) != nil)
    }

    @Test("An event of unknown type is passed on without being decoded")
    func unknownType() throws {
        let json = Self.start + #""type":"weather.changed","limit":5}"#
        let received = try #require(ReceivedEvent(Array(json.utf8)))
        #expect(received.message == EventMessage(type: "weather.changed", json: json))
        #expect(received.event == nil)
    }

    @Test(
        "Messages that are not events of version 1 are skipped",
        arguments: [
            "", "hello", "{}", "[1]", #"{"v":2,"type":"fleet.left","origin":"a1","db":0,"at_ms":1}"#,
            #"{"v":1,"type":"fleet.left","db":0,"at_ms":1}"#, #"{"v":1,"type":"fleet.left","origin":"a1","db":"0","at_ms":1}"#,
            #"{"v":1,"type":"breaker","origin":"a1","db":0,"at_ms":1,"service":"catalog","state":"open"}"#,
            #"{"v":1,"type":"breaker","origin":"a1","db":0,"at_ms":1,"service":"catalog","state":"ajar","generation":1}"#,
            #"{"v":1,"type":"limit.near","origin":"a1","db":0,"at_ms":1,"service":"catalog","limit":"1s"}"#,
            "{\"v\":1,\"type\":\"fleet.left\",\n\"origin\":\"a1\",\"db\":0,\"at_ms\":1}",
            #"{"v":1,"type":"a\ndata: b","origin":"a1","db":0,"at_ms":1}"#, #"{"v":1,"type":"","origin":"a1","db":0,"at_ms":1}"#,
        ])
    func malformed(json: String) {
        #expect(ReceivedEvent(Array(json.utf8)) == nil)
    }

    @Test("A message too long to be one of Interlock's is skipped")
    func tooLong() {
        let padding = String(repeating: " ", count: 64 << 10)
        #expect(Self.event(#""type":"fleet.left""# + padding) == nil)
    }

    @Test("Every type has its own name")
    func everyTypeHasItsOwnName() {
        #expect(Set(EventPayload.allTypes).count == EventPayload.allTypes.count)
        #expect(EventPayload.allTypes.contains("limit.near"))
    }
}
