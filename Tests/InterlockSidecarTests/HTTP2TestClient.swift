import NIOCore
import NIOHPACK
import NIOSSL
import Testing

/// A client that exchanges HTTP/2 frames (RFC 9113) with a listener, including frames that break the protocol.
struct HTTP2TestClient {
    struct Frame {
        enum Kind: UInt8 {
            case data, headers, priority, reset, settings, push, ping, goAway, windowUpdate, continuation
        }

        static let endStream: UInt8 = 0x1
        static let endHeaders: UInt8 = 0x4

        var kind: Kind
        var flags: UInt8 = 0
        var stream: UInt32 = 0
        var payload = ByteBuffer()

        var endsStream: Bool { (kind == .data || kind == .headers) && flags & Self.endStream != 0 }

        /// The error code of a RST_STREAM or GOAWAY frame.
        var errorCode: UInt32? {
            switch kind {
            case .reset: payload.getInteger(at: payload.readerIndex)
            case .goAway: payload.getInteger(at: payload.readerIndex + 4)
            default: nil
            }
        }

        func write(into bytes: inout ByteBuffer) {
            bytes.writeInteger(UInt8(payload.readableBytes >> 16))
            bytes.writeInteger(UInt16(truncatingIfNeeded: payload.readableBytes))
            bytes.writeInteger(kind.rawValue)
            bytes.writeInteger(flags)
            bytes.writeInteger(stream)
            bytes.writeImmutableBuffer(payload)
        }
    }

    struct Response {
        var status = ""
        var fields: [(name: String, value: String)] = []
        var body = ""
        var trailers: [(name: String, value: String)] = []
        /// The error code with which the stream was reset; `nil` if it was not.
        var reset: UInt32?

        func value(_ name: String) -> String? { fields.first { $0.name == name }?.value }
    }

    /// The error thrown once the listener has closed the connection.
    struct Closed: Error {}

    static let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

    private var inbound: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator
    private let channel: any Channel
    private var unread = ByteBuffer()
    private var decoder = HPACKDecoder(allocator: ByteBufferAllocator())
    private var answers: [UInt32: Response] = [:]
    private var ended: Set<UInt32> = []
    /// The last GOAWAY frame received.
    private(set) var goAway: Frame?

    /// Runs `body` with a client on a new connection.
    /// - Parameter settings: the identifiers and values of the initial SETTINGS frame.
    static func with(
        port: Int, tls: NIOSSLContext? = nil, settings: [(UInt16, UInt32)] = [],
        _ body: (inout HTTP2TestClient) async throws -> Void
    ) async throws {
        let channel = try await RawConnection.connect(to: port, tls: tls)
        var result: Result<Void, any Error>?
        do {
            try await channel.executeThenClose { inbound, _ in
                var client = HTTP2TestClient(inbound: inbound.makeAsyncIterator(), channel: channel.channel)
                var payload = ByteBuffer()
                for (identifier, value) in settings { payload.writeMultipleIntegers(identifier, value) }
                var first = ByteBuffer(string: preface)
                Frame(kind: .settings, payload: payload).write(into: &first)
                do {
                    // If the listener has already closed the connection, the next read reports it.
                    try? await client.send(first)
                    result = .success(try await body(&client))
                } catch {
                    result = .failure(error)
                }
            }
        } catch  where result != nil {
            // The listener may have closed the connection abruptly before this.
        }
        try result?.get()
    }

    // MARK: Sending

    func send(_ bytes: ByteBuffer) async throws { try await channel.writeAndFlush(bytes).get() }

    func send(_ frames: Frame...) async throws { try await send(frames) }

    func send(_ frames: [Frame]) async throws {
        var bytes = ByteBuffer()
        for frame in frames { frame.write(into: &bytes) }
        try await send(bytes)
    }

    /// Returns a request's head, in which `fields` follow the pseudo-fields unchanged.
    static func head(
        _ method: String, _ path: String, _ fields: [(String, String)] = [], stream: UInt32, ends: Bool = true
    ) -> Frame {
        block(
            [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)] + fields, stream: stream,
            ends: ends)
    }

    static func block(_ fields: [(String, String)], stream: UInt32, ends: Bool) -> Frame {
        var payload = ByteBuffer()
        for (name, value) in fields {
            // Literal, without indexing, a new name (RFC 7541, section 6.2.2).
            payload.writeInteger(UInt8(0))
            for text in [name, value] {
                write(length: text.utf8.count, into: &payload)
                payload.writeString(text)
            }
        }
        return Frame(kind: .headers, flags: Frame.endHeaders | (ends ? Frame.endStream : 0), stream: stream, payload: payload)
    }

    /// Writes a length with a seven-bit prefix (RFC 7541, section 5.1).
    private static func write(length: Int, into payload: inout ByteBuffer) {
        guard length >= 127 else {
            payload.writeInteger(UInt8(length))
            return
        }
        payload.writeInteger(UInt8(127))
        var rest = length - 127
        while rest >= 128 {
            payload.writeInteger(UInt8(rest % 128 + 128))
            rest /= 128
        }
        payload.writeInteger(UInt8(rest))
    }

    static func data(_ text: String, stream: UInt32, ends: Bool) -> Frame {
        Frame(kind: .data, flags: ends ? Frame.endStream : 0, stream: stream, payload: ByteBuffer(string: text))
    }

    static func reset(_ stream: UInt32, code: UInt32 = 8) -> Frame {
        Frame(kind: .reset, stream: stream, payload: ByteBuffer(integer: code))
    }

    static func windowUpdate(_ stream: UInt32, by increment: UInt32) -> Frame {
        Frame(kind: .windowUpdate, stream: stream, payload: ByteBuffer(integer: increment))
    }

    // MARK: Receiving

    /// Returns the next frame that is not connection upkeep; settings are acknowledged here.
    mutating func frame() async throws -> Frame {
        while true {
            guard let frame = Self.takeFrame(&unread) else {
                do {
                    guard var more = try await inbound.next(isolation: #isolation) else { throw Closed() }
                    unread.writeBuffer(&more)
                } catch is IOError {
                    throw Closed()
                }
                continue
            }
            switch frame.kind {
            // If the listener has closed the connection, the next read reports it.
            case .settings where frame.flags == 0: try? await send(Frame(kind: .settings, flags: 1))
            case .settings, .windowUpdate: break
            default:
                if frame.kind == .goAway { goAway = frame }
                return frame
            }
        }
    }

    static func takeFrame(_ bytes: inout ByteBuffer) -> Frame? {
        let start = bytes.readerIndex
        guard let top = bytes.getInteger(at: start, as: UInt8.self), let rest = bytes.getInteger(at: start + 1, as: UInt16.self)
        else { return nil }
        let length = Int(top) << 16 | Int(rest)
        guard bytes.readableBytes >= 9 + length, let kind = bytes.getInteger(at: start + 3, as: UInt8.self),
            let flags = bytes.getInteger(at: start + 4, as: UInt8.self),
            let stream = bytes.getInteger(at: start + 5, as: UInt32.self), let frameKind = Frame.Kind(rawValue: kind)
        else { return nil }
        bytes.moveReaderIndex(forwardBy: 9)
        return Frame(
            kind: frameKind, flags: flags, stream: stream & 0x7FFF_FFFF, payload: bytes.readSlice(length: length) ?? ByteBuffer())
    }

    /// Returns the response on a stream once it is complete or reset.
    /// - Parameter opensWindow: whether the windows are replenished by the length of the data received.
    mutating func answer(_ stream: UInt32, opensWindow: Bool = true) async throws -> Response {
        while !ended.contains(stream) { try await take(try await frame(), opensWindow: opensWindow) }
        return answers[stream] ?? Response()
    }

    /// Returns the partial response on a stream once `isEnough` accepts it.
    mutating func answer(_ stream: UInt32, until isEnough: (Response) -> Bool) async throws -> Response {
        while !isEnough(answers[stream] ?? Response()) { try await take(try await frame(), opensWindow: false) }
        return answers[stream] ?? Response()
    }

    private mutating func take(_ frame: Frame, opensWindow: Bool) async throws {
        var response = answers[frame.stream] ?? Response()
        switch frame.kind {
        case .headers:
            var payload = frame.payload
            let fields = try decoder.decodeHeaders(from: &payload).map { (name: $0.name, value: $0.value) }
            if let status = fields.first(where: { $0.name == ":status" })?.value {
                if !status.hasPrefix("1") { (response.status, response.fields) = (status, fields) }
            } else {
                response.trailers = fields
            }
        case .data:
            response.body += String(buffer: frame.payload)
            if opensWindow, frame.payload.readableBytes > 0 {
                let increment = UInt32(frame.payload.readableBytes)
                try? await send(Self.windowUpdate(frame.stream, by: increment), Self.windowUpdate(0, by: increment))
            }
        case .reset:
            response.reset = frame.errorCode
            ended.insert(frame.stream)
        default: return
        }
        if frame.endsStream { ended.insert(frame.stream) }
        answers[frame.stream] = response
    }

    /// Reads until the listener has closed the connection.
    /// - Returns: the error code of its GOAWAY frame; `nil` if it sent none.
    mutating func end() async throws -> UInt32? {
        while true {
            do {
                _ = try await frame()
            } catch is Closed {
                return goAway?.errorCode
            }
        }
    }
}
