import NIOCore
import RedisClient
import SimulatedRedis

/// A client's connection to a sidecar's RESP API. Replies arrive in the order of the commands.
final class ListenerConnection: ClientConnection {
    private enum State {
        case connecting
        case open
        case closed
    }

    private let wire: Wire
    private var state = State.connecting
    private var reader = ListenerReplyReader()
    /// The completions of the commands without a reply, in order.
    private var pending: [(Result<RedisReply, ClientLoss>) -> Void] = []
    private var unsent: [ByteBuffer] = []
    /// The commands of the write being assembled.
    private var batch: ByteBuffer?

    var onPush: ([RedisReply]) -> Void = { _ in }
    /// Runs when the connection is lost, but not when this side closes it.
    var onLost: () -> Void = {}

    /// Starts to connect. Commands sent before the connection is open are queued.
    init(to sidecar: SidecarHost, over path: Path, timeline: WorldTimeline, speaksRESP3: Bool) {
        wire = Wire(timeline: timeline, path: path)
        wire.near.onBytes = { [weak self] in self?.receive($0) }
        wire.near.onEnd = { [weak self] in self?.connectionLost() }
        if speaksRESP3 {
            send(["HELLO", "3"]) { _ in }
            send(["CLIENT", "LOSSES", "ON"]) { _ in }
        }
        timeline.schedule(in: path.drawDelay()) { [self] in
            guard state == .connecting else { return }
            guard sidecar.accept(wire) else {
                timeline.schedule(in: path.drawDelay()) { [self] in connectionLost() }
                return
            }
            state = .open
            for bytes in unsent { wire.send(bytes, to: wire.far) }
            unsent = []
        }
    }

    var isClosed: Bool { state == .closed }
    var isOpen: Bool { state == .open }

    /// Sends a command. Calls `completion` once.
    func send(_ arguments: [String], completion: @escaping (Result<RedisReply, ClientLoss>) -> Void) {
        guard state != .closed else { return completion(.failure(.notConnected)) }
        let bytes = ByteBuffer(bytes: RequestEncoder.encode(arguments))
        pending.append(completion)
        if batch?.writeImmutableBuffer(bytes) == nil { write(bytes) }
    }

    /// Sends all commands of `body` in one write.
    func sendTogether(_ body: () -> Void) {
        batch = ByteBuffer()
        body()
        guard let bytes = batch else { return }
        batch = nil
        write(bytes)
    }

    private func write(_ bytes: ByteBuffer) {
        switch state {
        case .connecting: unsent.append(bytes)
        case .open: wire.send(bytes, to: wire.far)
        case .closed: break
        }
    }

    /// Drops all calls, because the client can no longer match replies to its commands.
    func giveUpOnReplies() { pending = pending.map { _ in { _ in } } }

    /// Closes this end, even if commands are pending.
    func close() {
        guard state != .closed else { return }
        let wasOpen = state == .open
        state = .closed
        if wasOpen { wire.close(to: wire.far) }
        fail(.responseLost)
    }

    private func receive(_ bytes: ByteBuffer) {
        guard state == .open else { return }
        reader.append(bytes.readableBytesView)
        do throws(ListenerReplyReader.ParseError) {
            while state == .open, let message = try reader.next() {
                switch message {
                case .push(let parts): onPush(parts)
                case .reply(let reply):
                    // A published message looks like a reply in RESP2.
                    if pending.isEmpty { onPush(reply.array ?? []) } else { pending.removeFirst()(.success(reply)) }
                }
            }
        } catch {
            connectionLost()
        }
    }

    private func connectionLost() {
        guard state != .closed else { return }
        let loss: ClientLoss = state == .open ? .responseLost : .notConnected
        state = .closed
        fail(loss)
        onLost()
    }

    private func fail(_ loss: ClientLoss) {
        let completions = pending
        pending = []
        for completion in completions { completion(.failure(loss)) }
    }
}

/// An incremental parser of RESP2 and RESP3 replies. hiredis 0.14 cannot read RESP3.
struct ListenerReplyReader {
    struct ParseError: Error {}

    enum Message {
        case reply(RedisReply)
        /// A message that answers no command.
        case push([RedisReply])
    }

    private var bytes: [UInt8] = []
    private var start = 0

    mutating func append(_ newBytes: some Sequence<UInt8>) {
        bytes.append(contentsOf: newBytes)
    }

    /// Returns the next complete message; `nil` if more bytes are needed.
    mutating func next() throws(ParseError) -> Message? {
        var position = start
        let isPush = position < bytes.count && bytes[position] == UInt8(ascii: ">")
        guard let reply = try value(&position) else { return nil }
        start = position
        if start > 4096 || start == bytes.count {
            bytes.removeFirst(start)
            start = 0
        }
        if isPush, case .array(let parts) = reply { return .push(parts) }
        return .reply(reply)
    }

    private func value(_ position: inout Int) throws(ParseError) -> RedisReply? {
        guard position < bytes.count else { return nil }
        let kind = bytes[position]
        guard let end = bytes[position...].firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        let line = String(decoding: bytes[(position + 1)..<(end - 1)], as: UTF8.self)
        position = end + 1
        switch kind {
        case UInt8(ascii: "+"): return .status(line)
        case UInt8(ascii: "-"):
            let word = line.prefix { $0 != " " }
            return .error(RedisError(.server(ServerCondition(rawValue: String(word))), line))
        case UInt8(ascii: ":"):
            guard let number = Int64(line) else { throw ParseError() }
            return .integer(number)
        case UInt8(ascii: "_"): return .null
        case UInt8(ascii: "$"):
            guard let length = Int(line) else { throw ParseError() }
            guard length >= 0 else { return .null }
            guard bytes.count >= position + length + 2 else { return nil }
            defer { position += length + 2 }
            return .bulk(Array(bytes[position..<(position + length)]))
        case UInt8(ascii: "*"), UInt8(ascii: ">"), UInt8(ascii: "%"):
            guard var count = Int(line) else { throw ParseError() }
            guard count >= 0 else { return .null }
            if kind == UInt8(ascii: "%") { count *= 2 }
            var elements: [RedisReply] = []
            for _ in 0..<count {
                guard let element = try value(&position) else { return nil }
                elements.append(element)
            }
            return .array(elements)
        default: throw ParseError()
        }
    }
}
