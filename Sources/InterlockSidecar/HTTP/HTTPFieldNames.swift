internal import HTTPTypes

/// Header fields that swift-http-types does not name. They are tokens, so making them cannot fail.
extension HTTPField.Name {
    static let xAPIKey = HTTPField.Name("X-Api-Key")!
    static let secFetchSite = HTTPField.Name("Sec-Fetch-Site")!
    static let leaseToken = HTTPField.Name("Lease-Token")!
    static let rateLimit = HTTPField.Name("RateLimit")!
    static let rateLimitPolicy = HTTPField.Name("RateLimit-Policy")!
}
