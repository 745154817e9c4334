/// A parsed RESP2 reply.
indirect enum RawReply: Hashable, CustomStringConvertible {
    case line(String)
    case bulk([UInt8]?)
    case array([RawReply]?)

    /// Reads one reply from the front of the bytes. Returns `nil` if it is incomplete.
    static func read(from bytes: inout ArraySlice<UInt8>) -> RawReply? {
        var remainingBytes = bytes
        guard let end = remainingBytes.firstIndex(of: 13), end + 1 < remainingBytes.endIndex else { return nil }
        let line = String(decoding: remainingBytes[..<end], as: UTF8.self)
        remainingBytes = remainingBytes[(end + 2)...]
        let reply: RawReply
        switch (line.first, Int(line.dropFirst())) {
        case ("$", let length?) where length >= 0:
            guard remainingBytes.count >= length + 2 else { return nil }
            reply = .bulk(Array(remainingBytes.prefix(length)))
            remainingBytes = remainingBytes.dropFirst(length + 2)
        case ("$", _): reply = .bulk(nil)
        case ("*", let count?) where count >= 0:
            var elements: [RawReply] = []
            for _ in 0..<count {
                guard let element = read(from: &remainingBytes) else { return nil }
                elements.append(element)
            }
            reply = .array(elements)
        case ("*", _): reply = .array(nil)
        default: reply = .line(line)
        }
        bytes = remainingBytes
        return reply
    }

    /// The reply with arrays sorted at every level, for replies that Redis does not order.
    var sorted: RawReply {
        guard case .array(let elements?) = self else { return self }
        return .array(elements.map(\.sorted).sorted { "\($0)" < "\($1)" })
    }

    var text: String? {
        guard case .bulk(let bytes?) = self else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }

    var description: String {
        switch self {
        case .line(let line): line
        case .bulk(nil): "nil"
        case .bulk(let bytes?): String(decoding: bytes, as: UTF8.self).debugDescription
        case .array(nil): "nil array"
        case .array(let elements?): "[\(elements.map(\.description).joined(separator: ", "))]"
        }
    }
}
