internal import FoundationEssentials
internal import HTTPTypes
internal import HummingbirdCore
internal import InterlockCore
internal import NIOCore

/// What a route answers.
struct HTTPAnswer: Sendable {
    var status: HTTPResponse.Status
    var headers = HTTPFields()
    var body = ResponseBody()
    /// The connection ends with it: there is more of the request that nobody will read.
    var endsConnection = false
    /// It is another server's, who says of it what there is to say.
    var isRelayed = false
    /// Gives back what was granted, when the answer could not be written.
    var ifUndelivered: (@Sendable () async -> Void)?
    /// Waited for before the next request of the connection, written or not.
    var afterwards: (@Sendable () async -> Void)?

    init(_ status: HTTPResponse.Status) {
        self.status = status
    }

    static let noContent = HTTPAnswer(.noContent)

    static func json(_ value: some Encodable, _ status: HTTPResponse.Status = .ok) throws -> HTTPAnswer {
        try HTTPAnswer(status, encoding: value, mediaType: "application/json")
    }

    static func text(_ text: String, mediaType: String) -> HTTPAnswer {
        var answer = HTTPAnswer(.ok)
        answer.headers[.contentType] = mediaType
        answer.body = ResponseBody(byteBuffer: ByteBuffer(string: text))
        return answer
    }

    init(_ problem: HTTPProblem) {
        do {
            try self.init(problem.status, encoding: problem, mediaType: HTTPProblem.mediaType)
        } catch {
            // Numbers that JSON has no place for are all that can fail, and a problem has none.
            self.init(.internalServerError)
        }
        headers.append(contentsOf: problem.headers)
    }

    private init(_ status: HTTPResponse.Status, encoding value: some Encodable, mediaType: String) throws {
        self.init(status)
        headers[.contentType] = mediaType
        body = ResponseBody(byteBuffer: ByteBuffer(bytes: try value.json()))
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
        current = decision.limitName.map {
            "\(Self.quoted($0));r=\(max(0, decision.remaining));t=\(Self.seconds(time))"
        }
        policy = limits.filter { hasSubject || !$0.isPerSubject }
            .map { "\(Self.quoted($0.name));q=\($0.limit);w=\(max(1, Self.seconds($0.windowMilliseconds)))" }
            .joined(separator: ", ")
    }

    func add(to headers: inout HTTPFields) {
        if let current { headers[.rateLimit] = current }
        if !policy.isEmpty { headers[.rateLimitPolicy] = policy }
    }

    static func seconds(_ milliseconds: Int64) -> Int64 {
        milliseconds <= 0 ? 0 : (milliseconds - 1) / 1000 + 1
    }

    /// A string of a structured field (RFC 9651) is ASCII; other bytes are percent-encoded.
    private static func quoted(_ name: String) -> String {
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
