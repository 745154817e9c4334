internal import FoundationEssentials
internal import InterlockCore
package import NIOCore
package import NIOHTTP1

/// The response of a route.
package struct HTTPResponse: Sendable {
    package enum Body: Sendable {
        case none
        case complete(ByteBuffer)
        /// Written by this function, until it returns. If it throws an error, the connection closes.
        case stream(@Sendable (HTTPBodyWriter) async throws -> Void)
        /// Written through the responder, on the event loop, until `writeEnd`.
        case open
    }

    package var status: HTTPResponseStatus
    package var headers = HTTPHeaders()
    package var body = Body.none
    /// Whether the connection closes after the response, because the rest of the request is not read.
    var endsConnection = false
    /// Whether the response has another server's form, so that no fields are added.
    package var isRelayed = false
    /// Releases what was granted if the response could not be written. Called on the event loop.
    var ifUndelivered: (@Sendable () -> Void)?

    package init(_ status: HTTPResponseStatus) {
        self.status = status
    }

    static let noContent = HTTPResponse(.noContent)

    static func json(_ value: some Encodable, _ status: HTTPResponseStatus = .ok) throws -> HTTPResponse {
        try HTTPResponse(status, encoding: value, mediaType: "application/json")
    }

    /// Returns the same response as `json`, but without the cost of an encoder, for frequent responses.
    /// - Parameter fields: the fields of the object, sorted by name as in all responses.
    static func object(_ fields: KeyValuePairs<String, JSONValue>, _ status: HTTPResponseStatus = .ok) -> HTTPResponse {
        assert(zip(fields, fields.dropFirst()).allSatisfy { $0.key < $1.key }, "fields are in the order of their names")
        var response = HTTPResponse(status)
        response.set(fields, mediaType: "application/json")
        return response
    }

    package static func document(_ bytes: ByteBuffer, mediaType: String) -> HTTPResponse {
        var response = HTTPResponse(.ok)
        response.headers.add(name: "Content-Type", value: mediaType)
        response.body = .complete(bytes)
        return response
    }

    package static func text(_ text: String, mediaType: String) -> HTTPResponse {
        document(ByteBuffer(string: text), mediaType: mediaType)
    }

    package init(_ problem: HTTPProblem) {
        self.init(problem.status)
        set(problem.orderedFields, mediaType: HTTPProblem.mediaType)
        headers.add(contentsOf: problem.headers)
        // The rest of the request is not read, or will not arrive.
        endsConnection = problem.code == .tooLarge || problem.code == .cancelled
    }

    private mutating func set(_ fields: some Sequence<(key: String, value: JSONValue)>, mediaType: String) {
        headers.reserveCapacity(8)
        headers.add(name: "Content-Type", value: mediaType)
        var bytes = ByteBuffer()
        bytes.reserveCapacity(256)
        JSONValue.write(fields, into: &bytes)
        body = .complete(bytes)
    }

    private init(_ status: HTTPResponseStatus, encoding value: some Encodable, mediaType: String) throws {
        self.init(status)
        headers.add(name: "Content-Type", value: mediaType)
        body = .complete(ByteBuffer(bytes: try value.json()))
    }
}
