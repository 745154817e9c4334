internal import FoundationEssentials
internal import InterlockCore
internal import NIOCore
internal import NIOHTTP1

/// What a route answers.
package struct HTTPAnswer: Sendable {
    enum Body: Sendable {
        case none
        case whole(ByteBuffer)
        /// Written as it comes about, until the function returns; what it throws ends the connection.
        case stream(@Sendable (HTTPBodyWriter) async throws -> Void)
        /// Written by whoever has the reply, on the event loop, until its `writeEnd`.
        case open
    }

    var status: HTTPResponseStatus
    var headers = HTTPHeaders()
    var body = Body.none
    /// The connection ends with it: there is more of the request that nobody will read.
    var endsConnection = false
    /// It is another server's, who says of it what there is to say.
    var isRelayed = false
    /// Gives back what was granted, when the answer could not be written. Called on the event loop.
    var ifUndelivered: (@Sendable () -> Void)?

    init(_ status: HTTPResponseStatus) {
        self.status = status
    }

    static let noContent = HTTPAnswer(.noContent)

    static func json(_ value: some Encodable, _ status: HTTPResponseStatus = .ok) throws -> HTTPAnswer {
        try HTTPAnswer(status, encoding: value, mediaType: "application/json")
    }

    /// As `json`, without an encoder: for what is answered often.
    /// - Parameter members: in the order of their names, in which all answers have them.
    static func object(_ members: KeyValuePairs<String, JSONValue>, _ status: HTTPResponseStatus = .ok) -> HTTPAnswer {
        assert(zip(members, members.dropFirst()).allSatisfy { $0.key < $1.key }, "members are in the order of their names")
        var answer = HTTPAnswer(status)
        answer.set(members, mediaType: "application/json")
        return answer
    }

    /// - Parameter document: one JSON document.
    static func json(_ document: ByteBuffer) -> HTTPAnswer {
        var answer = HTTPAnswer(.ok)
        answer.headers.add(name: "Content-Type", value: "application/json")
        answer.body = .whole(document)
        return answer
    }

    package static func text(_ text: String, mediaType: String) -> HTTPAnswer {
        var answer = HTTPAnswer(.ok)
        answer.headers.add(name: "Content-Type", value: mediaType)
        answer.body = .whole(ByteBuffer(string: text))
        return answer
    }

    init(_ problem: HTTPProblem) {
        self.init(problem.status)
        set(problem.orderedMembers, mediaType: HTTPProblem.mediaType)
        headers.add(contentsOf: problem.headers)
        // What was not read to its end, or never ended.
        endsConnection = problem.code == .tooLarge || problem.code == .cancelled
    }

    private mutating func set(_ members: some Sequence<(key: String, value: JSONValue)>, mediaType: String) {
        headers.reserveCapacity(8)
        headers.add(name: "Content-Type", value: mediaType)
        var bytes = ByteBuffer()
        bytes.reserveCapacity(256)
        JSONValue.write(members, into: &bytes)
        body = .whole(bytes)
    }

    private init(_ status: HTTPResponseStatus, encoding value: some Encodable, mediaType: String) throws {
        self.init(status)
        headers.add(name: "Content-Type", value: mediaType)
        body = .whole(ByteBuffer(bytes: try value.json()))
    }
}

/// `RateLimit` and `RateLimit-Policy`: structured fields of the IETF's draft-ietf-httpapi-ratelimit-headers. Times are whole
/// seconds, rounded up.
struct RateLimitFields {
    private let current: String?
    private let policy: String

    init(_ decision: LimitAnswer, limits: [LimitDefinition], hasSubject: Bool) {
        // A refused caller is told when there is room again, and never a later time than by `Retry-After`.
        let time = decision.retryAfter.map { max(0, $0) } ?? decision.resetAfter
        current = decision.limitName.map { Self.current($0, remaining: decision.remaining, time: time) }
        var policy = ""
        for limit in limits where hasSubject || !limit.isPerSubject {
            if !policy.isEmpty { policy += ", " }
            policy += Self.policy(limit.name, limit: limit.limit, window: limit.windowMilliseconds)
        }
        self.policy = policy
    }

    /// - Parameter time: until there is room again, in milliseconds.
    static func current(_ name: String, remaining: Int64, time: Int64) -> String {
        "\(quoted(name));r=\(max(0, remaining));t=\(seconds(time))"
    }

    /// - Parameter window: in milliseconds.
    static func policy(_ name: String, limit: Int64, window: Int64) -> String {
        "\(quoted(name));q=\(limit);w=\(max(1, seconds(window)))"
    }

    func add(to headers: inout HTTPHeaders) {
        if let current { headers.add(name: "RateLimit", value: current) }
        if !policy.isEmpty { headers.add(name: "RateLimit-Policy", value: policy) }
    }

    static func seconds(_ milliseconds: Int64) -> Int64 {
        milliseconds <= 0 ? 0 : (milliseconds - 1) / 1000 + 1
    }

    /// A string of a structured field (RFC 9651) is ASCII; other bytes are percent-encoded.
    private static func quoted(_ name: String) -> String {
        let isPlain = name.utf8.allSatisfy { (0x20..<0x7F).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
        if isPlain { return "\"\(name)\"" }
        var text = "\""
        for byte in name.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): text += "\\" + String(Character(UnicodeScalar(byte)))
            case 0x20..<0x7F: text.unicodeScalars.append(UnicodeScalar(byte))
            default: text += "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
        }
        return text + "\""
    }
}
