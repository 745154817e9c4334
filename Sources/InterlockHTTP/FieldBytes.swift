package import NIOCore
package import NIOHTTP1

/// Restores the bytes of a connection's fields, which NIO decodes as text, and removes the space around values.
/// Confined to the connection's event loop.
///
/// Over HTTP/1.1, the handler before the decoder calls `read`, and the handler after it passes each decoded head and
/// end. NIO's decoder replaces bytes that are not UTF-8 with U+FFFD. A decoded value that contains this character is
/// read again from the received bytes, as `OpaqueText`; `MessageEncoder` restores the bytes. A head is not restored if
/// it starts in the read that ends the previous message and is completed by a later read.
///
/// NIO's HPACK decoder works on text as well, and its table counts the bytes of that text, so no other handler can
/// preserve the bytes. Over HTTP/2, a value that is not UTF-8 arrives repaired, and is sent in the form that
/// `OpaqueText.readable` returns.
package final class FieldBytes {
    private let isHTTP2: Bool
    private var raw = RawFields()
    /// Whether the current message has begun with a head and has not ended.
    private var isInMessage = false
    /// Whether the decoder has delivered a head or an end from the current read.
    private var hasDecoded = false
    private var hasEnded = false

    package init(isHTTP2: Bool) {
        self.isHTTP2 = isHTTP2
    }

    /// Stops recording, because the decoder gets no further message.
    package func end() {
        hasEnded = true
        raw.clear()
    }

    /// Records the bytes of a read, and passes them to the decoder by calling `decode`.
    package func read(_ bytes: ByteBuffer, decode: () -> Void) {
        guard !hasEnded else { return decode() }
        if isInMessage { raw.clear() }
        raw.append(bytes)
        hasDecoded = false
        decode()
        // The beginning of a head that is not decoded yet is kept until the next read.
        if isInMessage || hasDecoded { raw.clear() }
    }

    /// Records a decoded head.
    /// - Returns: its restored fields; `nil` if the decoded fields need no change.
    func decodedHead(_ fields: HTTPHeaders, isInformational: Bool = false) -> HTTPHeaders? {
        isInMessage = !isInformational
        hasDecoded = true
        return restored(fields)
    }

    /// Records the decoded end of a message.
    /// - Returns: its restored trailers; `nil` if the decoded trailers need no change.
    func decodedEnd(_ trailers: HTTPHeaders?) -> HTTPHeaders? {
        isInMessage = false
        hasDecoded = true
        return trailers.flatMap(restored)
    }

    /// Records a decoded part of a request, and returns it with its fields restored.
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
        guard fields.contains(where: { OpaqueText.mayNeedRepair($0.value) }) else { return nil }
        var restored = HTTPHeaders()
        restored.reserveCapacity(fields.count)
        for (name, value) in fields {
            let value = OpaqueText.trimmed(value) ?? value
            let original = isHTTP2 || !OpaqueText.mayContainEscapes(value) ? nil : raw.value(of: name, decodedAs: value)
            restored.add(name: name, value: original ?? value)
        }
        return restored
    }
}
