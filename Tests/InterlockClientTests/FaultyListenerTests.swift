import InterlockClient
import InterlockProcesses
import InterlockTesting
import Testing

@Suite("A client of a faulty listener", .timeLimit(.minutes(3)))
struct FaultyListenerTests {
    private static func with(
        answersLogin: Bool = true, change: (inout SidecarClientConfiguration) -> Void = { _ in },
        api: @escaping @Sendable (ReceivedCommand) -> ScriptedReply,
        _ body: (SidecarClient, MisbehavingRedis) async throws -> Void
    ) async throws {
        try await MisbehavingRedis.withServer(answersLogin: answersLogin, script: api) { server in
            var configuration = TestSidecar.lenientConfiguration(port: server.port)
            change(&configuration)
            let client = SidecarClient(configuration)
            do {
                try await body(client, server)
            } catch {
                await client.close()
                throw error
            }
            await client.close()
        }
    }

    private static func code(_ call: () async throws -> Void) async -> InterlockError.Code? {
        do {
            try await call()
            return nil
        } catch {
            return (error as? InterlockError)?.code
        }
    }

    @Test("A truncated reply fails the call, and the next call uses another connection")
    func truncatedReply() async throws {
        try await Self.with(api: { command in
            command.connection == 0 ? .bytesThenClose(Array("*3\r\n$5\r\nto".utf8)) : .text(":1\r\n")
        }) { client, server in
            #expect(await Self.code { _ = try await client.locks.acquire("a", ttl: .seconds(1)) } == .responseLost)
            let wasHeld = try await client.locks.release("a", token: "t")
            #expect(wasHeld)
            #expect(server.connectionCount == 2)
        }
    }

    @Test("A call to a listener that never answers times out after the wait and the answer timeout")
    func silence() async throws {
        try await Self.with(
            change: { $0.responseTimeout = .milliseconds(100) },
            api: { _ in
                .silence
            }
        ) { client, server in
            #expect(await Self.code { _ = try await client.locks.acquire("a", ttl: .seconds(1)) } == .responseTimedOut)
            let clock = ContinuousClock()
            let length = await clock.measure {
                let code = await Self.code {
                    _ = try await client.locks.acquire("a", ttl: .seconds(1), wait: .milliseconds(300))
                }
                #expect(code == .responseTimedOut)
            }
            #expect(length >= .milliseconds(400))
        }
    }

    @Test("An unanswered release hides neither the body's result nor its error")
    func unansweredRelease() async throws {
        struct BodyError: Error {}
        try await Self.with(api: { command in
            switch command.text.first {
            case "LOCK.ACQUIRE": .text("*3\r\n$5\r\ntoken\r\n:7\r\n:29000\r\n")
            case "LOCK.RELEASE": .bytesThenClose([])
            default: .text("+PONG\r\n")
            }
        }) { client, _ in
            let fence = try await client.locks.withLock("orders") { $0.fence }
            #expect(fence == 7)
            await #expect(throws: BodyError.self) {
                try await client.locks.withLock("orders") { _ in throw BodyError() }
            }
        }
    }

    @Test("A release with an owner's token names the fence, because a later lease has the same token")
    func fencedRelease() async throws {
        try await Self.with(api: { command in
            switch command.text.first {
            case "LOCK.ACQUIRE": .text("*3\r\n$2\r\nme\r\n:7\r\n:29000\r\n")
            case "LOCK.RELEASE": .text(Array(command.text.suffix(2)) == ["FENCE", "7"] ? ":1\r\n" : ":0\r\n")
            default: .text("+PONG\r\n")
            }
        }) { client, _ in
            let leaseOfOwner = try #require(try await client.locks.acquireLinked("a", ttl: .seconds(30), owner: "me"))
            #expect(try await leaseOfOwner.release())
            let leaseWithoutOwner = try #require(try await client.locks.acquireLinked("a", ttl: .seconds(30)))
            #expect(try await leaseWithoutOwner.release() == false)
        }
    }

    @Test("Bytes that are not RESP fail the call")
    func invalidBytes() async throws {
        try await Self.with(api: { _ in
            .text("HTTP/1.1 400 Bad Request\r\n\r\n")
        }) { client, _ in
            #expect(await Self.code { _ = try await client.status() } == .responseLost)
        }
    }

    @Test("A reply of an unexpected shape is an error")
    func replyOfUnexpectedShapeIsError() async throws {
        try await Self.with(api: { _ in
            .text("+OK\r\n")
        }) { client, _ in
            #expect(await Self.code { _ = try await client.locks.acquire("a", ttl: .seconds(1)) } == .invalidResponse)
            #expect(await Self.code { _ = try await client.limits.take(from: "a") } == .invalidResponse)
            #expect(await Self.code { _ = try await client.status() } == .invalidResponse)
        }
    }

    @Test("A rejected login is reported with the listener's message, without the key")
    func refusedLogin() async throws {
        try await Self.with(
            answersLogin: false, change: { $0.apiKey = "the-key" },
            api: { command in
                .text(command.text[0] == "AUTH" ? "-WRONGPASS no such API key\r\n" : "-NOAUTH show a key\r\n")
            }
        ) { client, _ in
            let error = await #expect(throws: InterlockError.self) { try await client.status() }
            #expect(error?.code == .invalidAPIKey)
            #expect(error?.message == "no such API key")
        }
    }

    @Test("An address without a listener is a failed connection")
    func noListener() async throws {
        let client = SidecarClient(TestSidecar.lenientConfiguration(port: try await LocalPort.unused()))
        let error = await #expect(throws: InterlockError.self) { try await client.status() }
        #expect(error?.code == .connectionFailed)
        #expect(error?.message.contains("refuses connections") == true, "\(error?.message ?? "")")
        await client.close()
    }

    @Test("A listener that closes the connection during a call leaves its outcome unknown")
    func closedWhileWaiting() async throws {
        try await Self.with(api: { _ in
            .close
        }) { client, server in
            let error = await #expect(throws: InterlockError.self) {
                try await client.locks.acquire("a", ttl: .seconds(1), wait: .seconds(10))
            }
            #expect(error?.code == .responseLost)
            #expect(error?.isOutcomeUnknown == true)
            #expect(server.commands.count == 1)
        }
    }

    @Test("A linked lease on a silent connection is reported as lost before it can expire")
    func silentListener() async throws {
        try await Self.with(api: { command in
            command.text[0] == "LOCK.ACQUIRE" ? .text("*3\r\n$3\r\na/b\r\n:7\r\n:900\r\n") : .silence
        }) { client, _ in
            let clock = ContinuousClock()
            let start = clock.now
            let linked = try #require(try await client.locks.acquireLinked("a", ttl: .seconds(2)))
            var losses = linked.losses.makeAsyncIterator()
            #expect(await losses.next() != nil)
            #expect(clock.now - start >= .seconds(1))
        }
    }

    @Test("Calls beyond the limit fail without being sent")
    func callsBeyondLimitFailWithoutBeingSent() async throws {
        try await Self.with(
            change: { configuration in
                configuration.maximumInFlight = 2
                configuration.maximumWaiting = 1
            },
            api: { _ in
                .silence
            }
        ) { client, server in
            try await client.connect()
            let first = [Task { try await client.limits.take(from: "a") }, Task { try await client.limits.take(from: "a") }]
            let waiting = Task { try await client.limits.take(from: "a", wait: .seconds(60)) }
            try await eventually("three calls are sent") { server.commands.count == 3 }
            #expect(await Self.code { _ = try await client.limits.take(from: "b") } == .overloaded)
            #expect(await Self.code { _ = try await client.limits.take(from: "b", wait: .seconds(1)) } == .overloaded)
            #expect(server.commands.count == 3)
            await client.close()
            for task in first + [waiting] { #expect(await Self.code { _ = try await task.value } == .responseLost) }
        }
    }

    @Test("A lost subscription is renewed, and reports the interruption")
    func lostSubscriptionIsRenewed() async throws {
        try await Self.with(
            change: { $0.eventChannel = "e" },
            api: { command in
                switch command.text[0] {
                case "SUBSCRIBE":
                    let confirmation = Array("*3\r\n$9\r\nsubscribe\r\n$1\r\ne\r\n:1\r\n".utf8)
                    return command.connection == 0 ? .bytesThenClose(confirmation) : .bytes(confirmation)
                default: return .text(":1\r\n")
                }
            }
        ) { client, _ in
            var connection = client.events.connection.makeAsyncIterator()
            #expect(await connection.next() == .following)
            guard case .interrupted = await connection.next() else {
                return #expect(Bool(false), "the interruption was not reported")
            }
            #expect(await connection.next() == .following)
        }
    }
}
