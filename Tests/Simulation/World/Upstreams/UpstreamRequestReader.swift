import NIOCore

/// An incremental, strict parser of HTTP/1.1 requests. It rejects ambiguous requests, which a proxy must never send.
struct UpstreamRequestReader {
    struct ParseError: Error {
        var reason: String
    }

    enum Event {
        case head(UpstreamRequestHead)
        case end(body: ByteBuffer)
    }

    private enum Stage {
        case head
        case counted(remaining: Int)
        case chunkSize
        case chunk(remaining: Int)
        case chunkEnd
        case trailers
        case none
    }

    private var bytes: [UInt8] = []
    /// The index of the first byte that is not consumed.
    private var start = 0
    private var stage = Stage.head
    private var body = ByteBuffer()

    mutating func append(_ newBytes: some Sequence<UInt8>) {
        if start > 0 {
            bytes.removeFirst(start)
            start = 0
        }
        bytes.append(contentsOf: newBytes)
    }

    /// Whether bytes of another request have arrived.
    var hasBytes: Bool { start < bytes.count }

    /// Returns the next part of a request; `nil` if more bytes are needed.
    mutating func next() throws(ParseError) -> Event? {
        while true {
            switch stage {
            case .head: return try head()
            case .counted(let remaining):
                let remainingCount = remaining - consume(remaining)
                stage = remainingCount == 0 ? .none : .counted(remaining: remainingCount)
                if remainingCount > 0 { return nil }
            case .chunkSize:
                guard let line = try line() else { return nil }
                guard let size = Int(line, radix: 16), size >= 0 else {
                    throw ParseError(reason: "a chunk begins with \(line.debugDescription)")
                }
                stage = size == 0 ? .trailers : .chunk(remaining: size)
            case .chunk(let remaining):
                let remainingCount = remaining - consume(remaining)
                stage = remainingCount == 0 ? .chunkEnd : .chunk(remaining: remainingCount)
                if remainingCount > 0 { return nil }
            case .chunkEnd:
                guard let line = try line() else { return nil }
                guard line.isEmpty else { throw ParseError(reason: "a chunk ends with \(line.debugDescription)") }
                stage = .chunkSize
            case .trailers:
                guard let line = try line() else { return nil }
                if line.isEmpty { stage = .none }
            case .none:
                defer { body = ByteBuffer() }
                stage = .head
                return .end(body: body)
            }
        }
    }

    private mutating func consume(_ maximum: Int) -> Int {
        let count = min(maximum, bytes.count - start)
        body.writeBytes(bytes[start..<(start + count)])
        start += count
        return count
    }

    private mutating func line() throws(ParseError) -> String? {
        guard let end = bytes[start...].firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        guard end > start, bytes[end - 1] == UInt8(ascii: "\r") else { throw ParseError(reason: "a line ends without CR") }
        defer { start = end + 1 }
        return String(decoding: bytes[start..<(end - 1)], as: UTF8.self)
    }

    private var hasCompleteHead: Bool {
        guard bytes.count - start >= 4 else { return false }
        let end: [UInt8] = [13, 10, 13, 10]
        return (start...(bytes.count - 4)).contains { bytes[$0] == 13 && bytes[$0..<($0 + 4)].elementsEqual(end) }
    }

    private mutating func head() throws(ParseError) -> Event? {
        guard hasCompleteHead, let first = try line() else { return nil }
        let words = first.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        guard words.count == 3, words[1].hasPrefix("/"), words[2] == "HTTP/1.1" else {
            throw ParseError(reason: "no request line: \(first.debugDescription)")
        }
        var fields: [(name: String, value: String)] = []
        while let line = try line(), !line.isEmpty {
            guard let colon = line.firstIndex(of: ":"), colon > line.startIndex, !line.hasPrefix(" ") else {
                throw ParseError(reason: "no field: \(line.debugDescription)")
            }
            fields.append((line[..<colon].lowercased(), String(line[line.index(after: colon)...].drop { $0 == " " })))
        }
        let head = UpstreamRequestHead(method: words[0], target: words[1], fields: fields)
        stage = try framing(of: head)
        return .head(head)
    }

    private func framing(of head: UpstreamRequestHead) throws(ParseError) -> Stage {
        guard head.values("host").count == 1 else { throw ParseError(reason: "not exactly one Host field") }
        let lengths = head.values("content-length")
        let codings = head.values("transfer-encoding")
        switch (lengths.count, codings.count) {
        case (0, 0): return .none
        case (0, 1) where codings[0] == "chunked": return .chunkSize
        case (1, 0):
            guard let length = Int(lengths[0]), length >= 0 else { throw ParseError(reason: "Content-Length is \(lengths[0])") }
            return length == 0 ? .none : .counted(remaining: length)
        default: throw ParseError(reason: "Content-Length \(lengths) and Transfer-Encoding \(codings)")
        }
    }
}
