internal import HTTPTypes
internal import HummingbirdCore
internal import InterlockCore
internal import NIOCore

/// One admitted request on its way to its route.
struct HTTPCall: Sendable {
    let request: Request
    /// The variable segments of the path, decoded.
    let parameters: [String: String]
    let caller: AccessControl.Caller
    let access: AccessControl
    let channel: any Channel

    /// The variable segment `what` of the path as a name.
    func name(_ what: String) throws -> ResourceName {
        try ResourceName(parameters[what] ?? "", what: what)
    }

    func query(_ known: String...) throws -> HTTPQuery {
        try HTTPQuery(request.uri.query, known: known)
    }

    func header(_ name: HTTPField.Name) -> String? { request.headers[name] }

    /// The body's fields.
    /// - Throws: `HTTPProblem`; what reading from the connection throws.
    func fields(_ known: String...) async throws -> JSONFields {
        try await fields(known)
    }

    func fields(_ known: [String]) async throws -> JSONFields {
        let body: ByteBuffer
        do {
            body = try await request.body.collect(upTo: HTTPBounds.body)
        } catch is NIOTooManyBytesError {
            throw Self.tooLarge
        }
        return try JSONFields(reading: body, known: known)
    }

    /// Whether the client is there to be answered.
    func peer() async throws -> PeerPresence {
        try await PeerPresenceHandler.presence(on: channel)
    }

    static let tooLarge = HTTPProblem(.tooLarge, "the body is larger than \(HTTPBounds.body) bytes")
}
