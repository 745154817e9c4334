package import NIOCore
package import NIOHTTP1

/// Keeps the bytes of a connection's fields unchanged although NIO has them as text, and leaves out the space around values. Confined
/// to the connection's event loop.
///
/// Over HTTP/1.1 the handler before the encoder and the decoder calls `read` and `written`, and the one behind them asks for each head
/// and each end. NIO's decoder puts U+FFFD in the place of bytes that are not UTF-8. Where a decoded value has one, the value is read
/// again from the bytes that came, as `OpaqueText`; the encoder's bytes are turned back. A head that begins in the same read as the
/// message before it ends, and ends in another, is not read again.
///
/// NIO's HPACK decoder works on text as well, and its table counts the bytes of that text, so that nothing outside of it can put bytes
/// through: over HTTP/2 a value that is not UTF-8 arrives repaired, and is sent as `OpaqueText.readable` has it.
package final class FieldBytes {
    private let isHTTP2: Bool
    private var raw = RawFields()
    /// Whether the head or the trailers that are being written have characters that stand for bytes: see `written`.
    package private(set) var isEscaped = false
    /// A head has come, and its message has not ended.
    private var isInMessage = false
    private var hasDecoded = false
    private var isOver = false

    package init(isHTTP2: Bool) {
        self.isHTTP2 = isHTTP2
    }

    /// Nothing more is decoded or encoded.
    package func end() {
        isOver = true
        raw.clear()
    }

    // MARK: What comes

    /// Notes the bytes that the decoder is given.
    package func read(_ bytes: ByteBuffer, decode: () -> Void) {
        guard !isOver else { return decode() }
        if isInMessage { raw.clear() }
        raw.append(bytes)
        hasDecoded = false
        decode()
        // Only the beginning of a head is kept until the next read.
        if isInMessage || hasDecoded { raw.clear() }
    }

    /// - Returns: the fields of a head, where they are not as they were decoded; `nil`: they are.
    func decodedHead(_ fields: HTTPHeaders, isInformational: Bool = false) -> HTTPHeaders? {
        isInMessage = !isInformational
        hasDecoded = true
        return restored(fields)
    }

    /// The same of trailers.
    func decodedEnd(_ trailers: HTTPHeaders?) -> HTTPHeaders? {
        isInMessage = false
        hasDecoded = true
        return trailers.flatMap(restored)
    }

    /// - Returns: a part of a request with its fields as they came.
    package func decoded(_ part: HTTPServerRequestPart) -> HTTPServerRequestPart {
        switch part {
        case .head(var head):
            guard let restored = decodedHead(head.headers) else { return part }
            head.headers = restored
            return .head(head)
        case .body: return part
        case .end(let trailers): return decodedEnd(trailers).map { .end($0) } ?? part
        }
    }

    private func restored(_ fields: HTTPHeaders) -> HTTPHeaders? {
        guard fields.contains(where: { OpaqueText.isOdd($0.value) }) else { return nil }
        var restored = HTTPHeaders()
        restored.reserveCapacity(fields.count)
        for (name, value) in fields {
            let value = OpaqueText.trimmed(value) ?? value
            let found = isHTTP2 || !OpaqueText.isSuspect(value) ? nil : raw.value(of: name, readAs: value)
            restored.add(name: name, value: found ?? value)
        }
        return restored
    }

    // MARK: What is written

    /// Writes a head or trailers.
    /// - Parameter write: is given the fields for the encoder.
    package func encode(_ fields: HTTPHeaders, _ write: (HTTPHeaders) -> Void) {
        guard fields.contains(where: { OpaqueText.isEscaped($0.value) }) else { return write(fields) }
        guard !isHTTP2 else { return write(HTTPHeaders(fields.map { ($0.name, OpaqueText.readable($0.value)) })) }
        // The encoder writes them now, in one piece.
        isEscaped = true
        write(fields)
        isEscaped = false
    }

    /// - Returns: what the encoder has written, with the characters that stand for bytes turned back into these.
    package func written(_ data: IOData) -> IOData {
        guard case .byteBuffer(let buffer) = data else { return data }
        return .byteBuffer(ByteBuffer(bytes: OpaqueText.bytes(of: buffer.readableBytesView)))
    }
}
