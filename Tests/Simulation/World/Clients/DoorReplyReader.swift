import Hiredis

/// Reads what a door answers, RESP2 and RESP3, piece by piece. hiredis 0.14 knows no RESP3.
struct DoorReplyReader {
    struct Unreadable: Error {}

    enum Message {
        case reply(RedisReply)
        /// It answers nothing that was asked.
        case push([RedisReply])
    }

    private var bytes: [UInt8] = []
    private var start = 0

    mutating func append(_ more: some Sequence<UInt8>) {
        bytes.append(contentsOf: more)
    }

    /// The next whole message; `nil`: more bytes are needed.
    mutating func next() throws(Unreadable) -> Message? {
        var place = start
        let isPush = place < bytes.count && bytes[place] == UInt8(ascii: ">")
        guard let reply = try value(&place) else { return nil }
        start = place
        if start > 4096 || start == bytes.count {
            bytes.removeFirst(start)
            start = 0
        }
        if isPush, case .array(let parts) = reply { return .push(parts) }
        return .reply(reply)
    }

    private func value(_ place: inout Int) throws(Unreadable) -> RedisReply? {
        guard place < bytes.count else { return nil }
        let kind = bytes[place]
        guard let end = bytes[place...].firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        let line = String(decoding: bytes[(place + 1)..<(end - 1)], as: UTF8.self)
        place = end + 1
        switch kind {
        case UInt8(ascii: "+"): return .status(line)
        case UInt8(ascii: "-"):
            let word = line.prefix { $0 != " " }
            return .error(RedisError(.server(ServerCondition(rawValue: String(word))), line))
        case UInt8(ascii: ":"):
            guard let number = Int64(line) else { throw Unreadable() }
            return .integer(number)
        case UInt8(ascii: "_"): return .null
        case UInt8(ascii: "$"):
            guard let length = Int(line) else { throw Unreadable() }
            guard length >= 0 else { return .null }
            guard bytes.count >= place + length + 2 else { return nil }
            defer { place += length + 2 }
            return .bulk(Array(bytes[place..<(place + length)]))
        case UInt8(ascii: "*"), UInt8(ascii: ">"), UInt8(ascii: "%"):
            guard var count = Int(line) else { throw Unreadable() }
            guard count >= 0 else { return .null }
            if kind == UInt8(ascii: "%") { count *= 2 }
            var elements: [RedisReply] = []
            for _ in 0..<count {
                guard let element = try value(&place) else { return nil }
                elements.append(element)
            }
            return .array(elements)
        default: throw Unreadable()
        }
    }
}
