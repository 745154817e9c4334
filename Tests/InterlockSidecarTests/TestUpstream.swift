import Glibc
import NIOCore
import NIOPosix
import NIOConcurrencyHelpers
import NIOSSL

/// A server that a test scripts byte by byte, including misbehavior.
final class TestUpstream: Sendable {
    /// One request as received.
    struct Call {
        /// The request line and the header fields.
        let head: String
        /// The bytes of the head, including the empty line after it.
        let rawHead: [UInt8]
        fileprivate var unread: ByteBuffer
        fileprivate var inbound: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator
        fileprivate let channel: any Channel

        /// The method and the target.
        var request: String { String(head.prefix { $0 != "\r\n" }).replacing(" HTTP/1.1", with: "") }

        /// Returns all values of a header field.
        func values(_ name: String) -> [String] {
            head.split(separator: "\r\n").dropFirst().compactMap { line in
                guard let colon = line.firstIndex(of: ":"), line[..<colon].lowercased() == name else { return nil }
                return String(line[line.index(after: colon)...].drop { $0 == " " })
            }
        }

        /// Returns the next bytes after the head; `nil` if the other side has closed.
        mutating func nextBytes() async throws -> ByteBuffer? {
            if unread.readableBytes > 0 {
                defer { unread.clear() }
                return unread
            }
            return try await inbound.next(isolation: #isolation)
        }

        func send(_ text: String) async throws { try await send(ByteBuffer(string: text)) }

        /// Sends bytes. Returns once the system has accepted them.
        func send(_ bytes: ByteBuffer) async throws { try await channel.writeAndFlush(bytes).get() }

        /// Resets the connection, as the system does for a killed process that has not read everything.
        func reset() async throws {
            try await (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0)).get()
            try await channel.close().get()
        }

        /// Sends a complete answer.
        func answer(_ status: String, _ fields: [String] = [], _ body: String = "") async throws {
            let lines = (fields + ["Content-Length: \(body.utf8.count)"]).map { $0 + "\r\n" }.joined()
            try await send("HTTP/1.1 \(status)\r\n\(lines)\r\n\(body)")
        }
    }

    typealias Handler = @Sendable (inout Call) async throws -> Void

    /// An error that a handler throws to close the connection.
    struct Close: Error {}

    private let listeningPort = NIOLockedValueBox(0)
    private let calls = NIOLockedValueBox<[Task<Void, Never>]>([])
    private let heads = NIOLockedValueBox<[String]>([])
    private let connections = NIOLockedValueBox(0)

    private init() {}

    var port: Int { listeningPort.withLockedValue { $0 } }
    /// The heads of all requests so far.
    var received: [String] { heads.withLockedValue { $0 } }
    /// The number of connections accepted.
    var connectionCount: Int { connections.withLockedValue { $0 } }

    /// Answers every request with `handler` while `body` runs.
    /// - Parameter tls: the TLS settings; `nil` for plain text.
    static func with(
        tls: NIOSSLContext? = nil, _ handler: @escaping Handler, _ body: (TestUpstream) async throws -> Void
    ) async throws {
        let upstream = TestUpstream()
        // Each connection gets its reader when it is accepted, because NIO traps if an unread one is dropped.
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 256)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
                    let connection = try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                    let call = Task { await upstream.serve(connection, handler) }
                    upstream.calls.withLockedValue { $0.append(call) }
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        upstream.listeningPort.withLockedValue { $0 = listener.localAddress?.port ?? 0 }
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(upstream))
        } catch {
            result = .failure(error)
        }
        try await listener.close().get()
        let calls = upstream.calls.withLockedValue { $0 }
        for call in calls { call.cancel() }
        for call in calls { await call.value }
        try result.get()
    }

    private func serve(_ connection: NIOAsyncChannel<ByteBuffer, ByteBuffer>, _ handler: Handler) async {
        connections.withLockedValue { $0 += 1 }
        // However a test ends a connection, later connections must still be served.
        try? await connection.executeThenClose { inbound, _ in
            var iterator = inbound.makeAsyncIterator()
            var unread = ByteBuffer()
            while true {
                while let end = Self.headEnd(unread) {
                    let rawHead = Array(unread.readableBytesView.prefix(end + 4))
                    unread.moveReaderIndex(forwardBy: end)
                    let head = String(decoding: rawHead.dropLast(4), as: UTF8.self)
                    unread.moveReaderIndex(forwardBy: 4)
                    heads.withLockedValue { $0.append(head) }
                    var call = Call(head: head, rawHead: rawHead, unread: unread, inbound: iterator, channel: connection.channel)
                    try await handler(&call)
                    (iterator, unread) = (call.inbound, call.unread)
                }
                guard var nextBytes = try await iterator.next() else { return }
                unread.writeBuffer(&nextBytes)
            }
        }
    }

    /// Returns the length of the head; `nil` if it is incomplete.
    private static func headEnd(_ buffer: ByteBuffer) -> Int? {
        let bytes = buffer.readableBytesView
        return bytes.firstRange(of: "\r\n\r\n".utf8).map { $0.lowerBound - bytes.startIndex }
    }
}
