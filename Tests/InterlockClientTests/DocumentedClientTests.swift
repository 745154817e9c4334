import Interlock
import InterlockClient
import InterlockCore
import InterlockProcesses
import Testing

@Suite("Documented examples of the client", .timeLimit(.minutes(2)))
struct DocumentedClientTests {
    private static let services = [
        ServiceDefinition(
            name: "catalog", limits: [LimitDefinition(name: "tenant", limit: 3, window: .seconds(600), isPerSubject: true)])
    ]

    @Test("A lock is held while a body runs")
    func lockIsHeldWhileBodyRuns() async throws {
        try await TestSidecar.with { sidecar in
            let examples = DocumentedClientExamples(configuration: sidecar.configuration)
            let wasFree = try await examples.hold { #expect($0 > 0) }
            #expect(wasFree)
        }
    }

    @Test("Leases are extended and released, and errors are distinguished")
    func leasesAreExtendedAndReleased() async throws {
        try await TestSidecar.withClient { client in
            let examples = DocumentedClientExamples(configuration: client.configuration)
            let validity = try await examples.renew(client)
            #expect(validity.map { $0 > .seconds(20) } == true)
            let wasLost = try await examples.link(client) {}
            #expect(!wasLost)
            #expect(try await examples.judged(client) == "held")
        }
    }

    @Test("Limits and permits refuse calls, and permits are reported")
    func limitsAndPermitsRefuseCalls() async throws {
        try await TestSidecar.withClient(services: Self.services) { client in
            let examples = DocumentedClientExamples(configuration: client.configuration)
            let items = try await examples.call(client) { 7 }
            let isAllowed = try await examples.take(client)
            let isTakenAgain = try await examples.take(client)
            let refusal = try await examples.call(client) { 7 }
            #expect(items == 7 && isAllowed && !isTakenAgain && refusal == nil)
        }
    }

    @Test("An event is read once the subscription is active")
    func eventIsReadOnceSubscriptionIsActive() async throws {
        try await TestSidecar.withClient { client in
            let examples = DocumentedClientExamples(configuration: client.configuration)
            let (activations, activation) = AsyncStream.makeStream(of: Void.self)
            async let state = examples.watch(client) { activation.finish() }
            for await _ in activations {}
            try await client.breakers.force("catalog", to: .open)
            #expect(await state == .open)
        }
    }

    @Test("The configuration of a remote sidecar has its address and key")
    func configurationOfRemoteSidecarHasAddressAndKey() throws {
        let configuration = try DocumentedClientExamples.addressed()
        #expect(configuration.address.description == "rediss://interlock.internal:7379")
    }
}
