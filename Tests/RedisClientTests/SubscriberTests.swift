import InterlockProcesses
import Logging
import NIOCore
import NIOPosix
import RedisClient
import Testing

@Suite("Subscriptions", .timeLimit(.minutes(1)))
struct SubscriberTests {
    @Test("Messages arrive on their channels, in order")
    func messagesArriveInOrder() async throws {
        try await RedisServer.withServer { server in
            let recorder = SubscriptionRecorder(server.configuration, channels: ["one", "two"])
            await recorder.start()
            var events = recorder.stream.makeAsyncIterator()
            #expect(await events.next() == .subscribed)
            let messages = [("one", "a"), ("two", ""), ("one", "c")]
            try await withClient(server.configuration) { client in
                for (channel, payload) in messages {
                    let receivers = try await client.sendCommand("PUBLISH", channel, payload)
                    #expect(receivers == .integer(1))
                }
            }
            for (channel, payload) in messages {
                #expect(await events.next() == .message(channel: channel, payload: payload))
            }
            try await recorder.close()
        }
    }

    @Test("After a loss the channels are subscribed again, and the subscriber is notified")
    func resubscription() async throws {
        try await RedisServer.withServer { server in
            let recorder = SubscriptionRecorder(server.configuration, channels: ["one", "two"])
            await recorder.start()
            var events = recorder.stream.makeAsyncIterator()
            #expect(await events.next() == .subscribed)
            try await server.restart()
            #expect(await events.next() == .down)
            var event = await events.next()
            while event == .down { event = await events.next() }
            #expect(event == .subscribed)
            try await withClient(server.configuration) { client in
                let receivers = try await client.sendCommand("PUBLISH", "two", "after")
                #expect(receivers == .integer(1))
            }
            #expect(await events.next() == .message(channel: "two", payload: "after"))
            try await recorder.close()
        }
    }

    @Test("The pings of a subscriber are not reported as messages, and keep an idle connection open")
    func subscriberPingsAreNotMessages() async throws {
        try await RedisServer.withServer { server in
            let recorder = SubscriptionRecorder(server.configuration, channels: ["one"], checkInterval: .milliseconds(300))
            await recorder.start()
            var events = recorder.stream.makeAsyncIterator()
            #expect(await events.next() == .subscribed)
            try await withClient(server.configuration) { client in
                try await eventually("the subscriber has sent a few pings") {
                    let report = try await client.send(Info(section: "commandstats"))["cmdstat_ping"] ?? ""
                    // The count includes the PINGs of both logins.
                    return (report.split(separator: ",").first?.split(separator: "=").last.flatMap { Int($0) } ?? 0) >= 5
                }
                _ = try await client.sendCommand("PUBLISH", "one", "x")
            }
            #expect(await events.next() == .message(channel: "one", payload: "x"))
            try await recorder.close()
        }
    }

    @Test("A hanging server is abandoned after two checks without an answer")
    func hangingServer() async throws {
        try await RedisServer.withServer { server in
            let recorder = SubscriptionRecorder(server.configuration, channels: ["one"], checkInterval: .milliseconds(500))
            await recorder.start()
            var events = recorder.stream.makeAsyncIterator()
            // On a busy machine, even the first checks may fail.
            var first = await events.next()
            while first == .down { first = await events.next() }
            #expect(first == .subscribed)
            await server.pause()
            #expect(await events.next() == .down)
            await server.resume()
            var event = await events.next()
            while event == .down { event = await events.next() }
            #expect(event == .subscribed)
            try await recorder.close()
        }
    }

    @Test("A subscription that the server refuses is reported as down")
    func subscriptionThatServerRefusesIsReportedAsDown() async throws {
        let user = ["--user", "deaf", "on", "nopass", "~*", "resetchannels", "+@all"]
        try await RedisServer.withServer(arguments: user) { server in
            var configuration = server.configuration
            configuration.username = "deaf"
            configuration.password = "any"
            let recorder = SubscriptionRecorder(configuration, channels: ["one"])
            await recorder.start()
            var events = recorder.stream.makeAsyncIterator()
            #expect(await events.next() == .down)
            try await recorder.close()
        }
    }
}

/// A `RedisSubscriber` for tests, with a stream of events instead of callbacks.
actor SubscriptionRecorder {
    enum Event: Equatable, Sendable {
        case subscribed
        case message(channel: String, payload: String)
        case down
    }

    private nonisolated let eventLoop: any EventLoop
    private let subscriber: RedisSubscriber
    private let events: AsyncStream<Event>.Continuation
    nonisolated let stream: AsyncStream<Event>

    nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    init(_ configuration: RedisConfiguration, channels: [String], checkInterval: Duration = .seconds(5)) {
        eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        (stream, events) = AsyncStream.makeStream()
        subscriber = RedisSubscriber(
            configuration: configuration, channels: channels,
            environment: RedisEnvironment(eventLoop: eventLoop, logger: Logger(label: "test")),
            checkInterval: checkInterval)
    }

    func start() {
        subscriber.onSubscribed = { [events] in events.yield(.subscribed) }
        subscriber.onMessage = { [events] channel, payload in
            events.yield(.message(channel: channel, payload: String(decoding: payload, as: UTF8.self)))
        }
        subscriber.onDown = { [events] _, _ in events.yield(.down) }
        subscriber.start()
    }

    func close() async throws {
        try await subscriber.close().get()
        events.finish()
    }
}
