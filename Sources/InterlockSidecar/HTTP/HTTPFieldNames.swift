internal import HTTPTypes

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
