import Glibc
import InterlockProcesses
import SimulatedRedis
import Testing

/// Sends the same commands to a real and a simulated Redis server with equal clocks. The replies must be equal byte for
/// byte.
final class RedisComparison {
    let simulated: SimulatedServer
    private let real: RealRedis
    private let clock: Clock
    /// The number of equal replies and messages.
    private(set) var agreementCount = 0
    /// The commands so far, for the report of a difference.
    private var history: [String] = []
    private var isBroken = false

    private final class Clock {
        var microseconds: Int64 = 1_700_000_000_000_000
    }

    init(arguments: [String] = []) throws {
        let clock = Clock()
        self.clock = clock
        real = try RealRedis(arguments: arguments)
        simulated = SimulatedServer { clock.microseconds }
        try set(time: clock.microseconds)
        // Keep the real server from deleting expired keys in the background, so that only commands do.
        try sendToReal(["DEBUG", "SET-ACTIVE-EXPIRE", "0"])
    }

    /// Sends a command to the real server only.
    func sendToReal(_ words: [String]) throws {
        let console = ComparedConnection(real: try real.connect(), simulated: nil)
        console.send(words.map { Array($0.utf8) })
        _ = try console.readReal()
    }

    /// The time of both servers, as Unix time in microseconds.
    var time: Int64 { clock.microseconds }

    func set(time: Int64) throws {
        clock.microseconds = time
        try real.setTime(microseconds: time)
    }

    func advance(milliseconds: Int64) throws { try set(time: time + milliseconds * 1000) }

    func connect() throws -> ComparedConnection {
        ComparedConnection(real: try real.connect(), simulated: simulated)
    }

    /// Sends a command to both servers and compares the replies. Returns the real server's last reply.
    @discardableResult
    func send(
        _ arguments: [[UInt8]], on connection: ComparedConnection, isUnordered: Bool = false, replies: Int = 1
    ) throws -> RawReply {
        history.append("\(time) #\(connection.number) " + arguments.map { excerpt($0) }.joined(separator: " "))
        connection.send(arguments)
        var lastReply = RawReply.array(nil)
        for _ in 0..<replies { lastReply = try compare(connection, isUnordered: isUnordered) }
        return lastReply
    }

    @discardableResult
    func send(
        _ arguments: String..., on connection: ComparedConnection, isUnordered: Bool = false
    ) throws -> RawReply {
        try send(arguments.map { Array($0.utf8) }, on: connection, isUnordered: isUnordered)
    }

    /// Sends different commands to the two servers, because they number connections differently.
    func send(real: [String], simulated: [String], on connection: ComparedConnection) throws {
        history.append("\(time) #\(connection.number) \(simulated)")
        connection.send(real: real.map { Array($0.utf8) }, simulated: simulated.map { Array($0.utf8) })
        _ = try compare(connection, isUnordered: false)
    }

    /// Compares the messages that a subscribed connection has received so far.
    func compareMessages(to listener: ComparedConnection) throws {
        let token = "token-\(agreementCount)"
        listener.send([Array("PING".utf8), Array(token.utf8)])
        while true {
            let message = try compare(listener, isUnordered: false)
            if case .array(let parts?) = message, parts.count == 2, parts[1].text == token { return }
            if isBroken { return }
        }
    }

    private func compare(_ connection: ComparedConnection, isUnordered: Bool) throws -> RawReply {
        let expected: RawReply
        do {
            expected = try connection.readReal()
        } catch {
            Issue.record("\(error) after\n\(history.suffix(25).joined(separator: "\n"))\n\(real.log)")
            throw error
        }
        let actual = connection.readSimulated()
        let isSame = isUnordered ? actual?.sorted == expected.sorted : actual == expected
        if isSame {
            agreementCount += 1
        } else if !isBroken {
            isBroken = true
            Issue.record(
                """
                After \(agreementCount) equal replies:
                \(history.suffix(25).joined(separator: "\n"))
                real:      \(expected)
                simulated: \(actual?.description ?? "nothing")
                """)
        }
        return expected
    }

    private func excerpt(_ bytes: [UInt8]) -> String {
        let text = String(decoding: bytes, as: UTF8.self)
        return text.utf8.count > 400 ? "(\(bytes.count) bytes)" : text.debugDescription
    }
}

/// One connection to each server.
final class ComparedConnection {
    let number: Int64
    private let descriptor: Int32
    private let connection: SimulatedConnection?
    private var realBytes: ArraySlice<UInt8> = []
    private let output = Output()

    private final class Output {
        var bytes: ArraySlice<UInt8> = []
    }

    /// Creates a connection from an open socket to the real server.
    /// - Parameter simulated: the simulated server; `nil` to connect to the real server only.
    init(real descriptor: Int32, simulated: SimulatedServer?) {
        self.descriptor = descriptor
        connection = simulated?.connect { [output] in output.bytes += $0 }
        number = connection?.id ?? 0
    }

    deinit { disconnect() }

    func disconnect() {
        Glibc.close(descriptor)
        connection?.close()
    }

    func send(_ arguments: [[UInt8]]) { send(real: arguments, simulated: arguments) }

    func send(real: [[UInt8]], simulated: [[UInt8]]) {
        var unsentBytes = RequestEncoder.encode(real)[...]
        while !unsentBytes.isEmpty {
            let sent = unsentBytes.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard sent > 0 else { return }
            unsentBytes = unsentBytes.dropFirst(sent)
        }
        connection?.receive(RequestEncoder.encode(simulated))
    }

    func readSimulated() -> RawReply? { RawReply.read(from: &output.bytes) }

    func readReal() throws -> RawReply {
        while true {
            if let reply = RawReply.read(from: &realBytes) { return reply }
            var pollDescriptor = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&pollDescriptor, 1, 5000) > 0 else { throw RealRedis.Failure(reason: "no answer within 5 s") }
            var buffer = [UInt8](repeating: 0, count: 1 << 16)
            let count = read(descriptor, &buffer, buffer.count)
            guard count > 0 else { throw RealRedis.Failure(reason: "redis-server closed the connection") }
            realBytes += buffer.prefix(count)
        }
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips servers other than Redis 7.0 under libfaketime: their messages differ, and some read another clock.
    static var requiresRedis7: Self {
        .enabled("redis-server is Redis 7.0, as the simulated one is") {
            let program = try await RedisProgram.current
            return program.product == "Redis" && program.version.hasPrefix("7.0.")
        }
    }
}
