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

/// What a request may ask for, at most.
enum HTTPBounds {
    /// The largest body, in bytes.
    static let body = 64 * 1024
    /// Times in milliseconds.
    static let milliseconds: ClosedRange<Int64> = 0...DoorBounds.longestMilliseconds
    /// Leases in milliseconds; the coordinator's own bounds are closer.
    static let ttl: ClosedRange<Int64> = 1...DoorBounds.longestMilliseconds
    /// The places of a semaphore.
    static let permits: ClosedRange<Int64> = Int64(LockMode.places.lowerBound)...Int64(LockMode.places.upperBound)
    /// HTTP statuses that an outcome may report.
    static let statuses: ClosedRange<Int64> = 100...599
}

/// Header fields that swift-http-types does not name.
extension HTTPField.Name {
    static let xAPIKey = known("X-Api-Key")
    static let secFetchSite = known("Sec-Fetch-Site")
    static let leaseToken = known("Lease-Token")
    static let rateLimit = known("RateLimit")
    static let rateLimitPolicy = known("RateLimit-Policy")

    static let forwarded = known("Forwarded")
    static let interlockSubject = known("Interlock-Subject")
    static let interlockService = known("Interlock-Service")
    static let interlockState = known("Interlock-State")
    static let interlockWaited = known("Interlock-Waited")
    static let interlockFallback = known("Interlock-Fallback")

    private static func known(_ name: String) -> HTTPField.Name {
        guard let known = HTTPField.Name(name) else { preconditionFailure("\(name) is not a token") }
        return known
    }
}
