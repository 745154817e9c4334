import Glibc
import InterlockProcesses
import SimulatedRedis
import Testing

/// A group of real servers that communicate with each other, and a simulated server for each, with the same address. It
/// replaces the IDs of the real servers in compared replies with those of the simulated ones.
final class RedisGroup {
    let simulated: [SimulatedServer]
    private let real: [RealRedis]
    private let ports: [Int]
    private var serverIDs: [(real: String, simulated: String)] = []
    /// The number of equal replies.
    private(set) var agreementCount = 0
    private var history: [String] = []
    /// The bodies of the simulated servers' timers, in order.
    private var timers: [() -> Void] = []

    private init(real: [RealRedis], ports: [Int]) {
        self.real = real
        self.ports = ports
        simulated = ports.map { _ in SimulatedServer { 1_700_000_000_000_000 } }
        for server in simulated { server.schedule = { [unowned self] in timers.append($1) } }
    }

    /// Starts servers and waits until they accept connections. Tries again with other ports if other software takes a
    /// port, or the corresponding port of the cluster bus, before the server starts.
    static func start(_ count: Int, arguments: [String] = []) async throws -> RedisGroup {
        for _ in 1..<5 {
            if let group = try? await attempt(count, arguments: arguments) { return group }
        }
        return try await attempt(count, arguments: arguments)
    }

    private static func attempt(_ count: Int, arguments: [String]) async throws -> RedisGroup {
        var ports: [Int] = []
        while ports.count < count {
            let port = try await LocalPort.unused()
            // The cluster bus listens on the port plus 10,000.
            if port < 30_000, !ports.contains(port) { ports.append(port) }
        }
        let real = try ports.map { port in
            try RealRedis(arguments: ["--bind", "127.0.0.1", "--port", "\(port)"] + arguments, clockRuns: true)
        }
        for server in real { close(try server.connect()) }
        return RedisGroup(real: real, ports: ports)
    }

    func address(_ index: Int) -> ServerAddress { ServerAddress(host: "127.0.0.1", port: ports[index]) }

    func connect(to index: Int) throws -> ComparedConnection {
        ComparedConnection(real: try real[index].connect(), simulated: simulated[index])
    }

    /// Sends a command to the real server only. Returns its reply.
    @discardableResult
    func sendToReal(_ words: [String], at index: Int) throws -> RawReply {
        let console = ComparedConnection(real: try real[index].connect(), simulated: nil)
        console.send(words.map { Array($0.utf8) })
        return try console.readReal()
    }

    /// Waits up to 20 s until the reply of a real server contains `text`.
    func wait(for text: String, in words: [String], at index: Int) throws {
        for _ in 0..<2000 {
            if "\(try sendToReal(words, at: index))".contains(text) { return }
            // Poll, because nothing announces the change.
            usleep(10_000)
        }
        throw RealRedis.Failure(reason: "no \(text) in \(words.joined(separator: " "))\n\(real[index].log)")
    }

    /// Reads the servers' IDs, so that the real ones can be replaced with the simulated ones.
    func learnIDs() throws {
        for index in ports.indices {
            let connection = try connect(to: index)
            connection.send([Array("CLUSTER".utf8), Array("MYID".utf8)])
            if let real = try connection.readReal().text, let simulated = connection.readSimulated()?.text {
                serverIDs.append((real, simulated))
            }
        }
    }

    /// Sends a command to both servers and compares the replies.
    /// - Parameters:
    ///   - isTimed: whether the timers of the simulated servers must run before the reply arrives.
    ///   - change: replaces the parts that may differ.
    func compare(
        _ words: [String], on connection: ComparedConnection, isTimed: Bool = false,
        change: (RawReply) -> RawReply = { $0 }
    ) throws {
        history.append("#\(connection.number) " + words.joined(separator: " "))
        connection.send(words.map { Array($0.utf8) })
        if isTimed { runTimers() }
        try compareNext(on: connection, change: change)
    }

    /// Compares the next replies on the connection.
    func compareNext(on connection: ComparedConnection, change: (RawReply) -> RawReply = { $0 }) throws {
        let expected = excerpt(change(try connection.readReal()))
        let actual = connection.readSimulated().map { "\(change($0))" } ?? "nothing"
        if expected == actual { agreementCount += 1 }
        #expect(expected == actual, "after\n\(history.suffix(10).joined(separator: "\n"))")
    }

    private func runTimers() {
        let bodies = timers
        timers = []
        for body in bodies { body() }
    }

    private func excerpt(_ reply: RawReply) -> String {
        var text = "\(reply)"
        for (real, simulated) in serverIDs {
            while let found = text.firstRange(of: real) { text.replaceSubrange(found, with: simulated) }
        }
        return text
    }

    /// Replaces all numbers except ports, because an offset counts bytes in Redis and commands in the simulation.
    func hidingOffsets(_ reply: RawReply) -> RawReply {
        switch reply {
        case .array(let parts?): .array(parts.map { hidingOffsets($0) })
        case .line(let text) where Int(text.dropFirst()).map { !ports.contains($0) } ?? false: .line(":offset")
        case .bulk(let bytes?) where Int(String(decoding: bytes, as: UTF8.self)).map { !ports.contains($0) } ?? false:
            .bulk(Array("offset".utf8))
        case .line, .bulk, .array: reply
        }
    }
}
