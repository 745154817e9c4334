import NIOCore

/// Sends a request and reads the response as bytes, concurrently.
enum ProxyTestClient {
    struct Response {
        var head: String
        /// The body without chunk framing.
        var body: ByteBuffer
        /// Whether the response is complete: it has the announced length or a last chunk.
        var isComplete: Bool
    }

    /// Sends a request on its own connection and reads until the other side closes.
    static func exchange(port: Int, head: String, body: ByteBuffer) async throws -> Response {
        let channel = try await RawConnection.connect(to: port)
        var received = try await channel.executeThenClose { inbound, outbound in
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask {
                    try await outbound.write(ByteBuffer(string: head))
                    var rest = body
                    while let slice = rest.readSlice(length: min(64 * 1024, rest.readableBytes)), slice.readableBytes > 0 {
                        try await outbound.write(slice)
                    }
                }
                var received = ByteBuffer()
                do {
                    for try await var part in inbound { received.writeBuffer(&part) }
                } catch is IOError {
                    // The listener closed the connection with bytes unread; the response received so far counts.
                }
                tasks.cancelAll()
                return received
            }
        }
        return try parse(&received)
    }

    private static func parse(_ received: inout ByteBuffer) throws -> Response {
        let beginning = String(decoding: received.readableBytesView.prefix(16 * 1024), as: Unicode.ASCII.self)
        guard let end = beginning.firstRange(of: "\r\n\r\n") else { throw HTTPTestClient.NotHTTP(text: beginning) }
        let head = String(beginning[..<end.lowerBound])
        received.moveReaderIndex(forwardBy: head.unicodeScalars.count + 4)
        let isChunked = head.lowercased().contains("transfer-encoding: chunked")
        guard isChunked else {
            let lengthField = head.lowercased().split(separator: "\r\n").first { $0.hasPrefix("content-length: ") }
            let length = lengthField.flatMap { Int($0.dropFirst("content-length: ".count)) } ?? 0
            return Response(head: head, body: received.slice(), isComplete: received.readableBytes == length)
        }
        var body = ByteBuffer()
        while let line = received.readLine(), let size = Int(line, radix: 16) {
            if size == 0 { return Response(head: head, body: body, isComplete: true) }
            guard var chunk = received.readSlice(length: size) else { break }
            body.writeBuffer(&chunk)
            received.moveReaderIndex(forwardBy: min(2, received.readableBytes))
        }
        return Response(head: head, body: body, isComplete: false)
    }
}

extension ByteBuffer {
    fileprivate mutating func readLine() -> String? {
        guard let end = readableBytesView.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        let line = readString(length: end - readerIndex)
        moveReaderIndex(forwardBy: 1)
        return line.map { $0.replacing("\r", with: "") }
    }
}
