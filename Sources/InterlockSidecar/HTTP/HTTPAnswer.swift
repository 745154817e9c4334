internal import FoundationEssentials
internal import HTTPTypes
internal import HummingbirdCore
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
