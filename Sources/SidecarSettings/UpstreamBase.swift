internal import FoundationEssentials
internal import InterlockHTTP

/// The base URL of an upstream. Every call goes to the origin of this URL, to a path below that of the URL.
package struct UpstreamBase: Sendable {
    /// The value of the `Host` field.
    package let authority: String
    /// The host to connect to.
    package let host: String
    package let port: Int
    package let isTLS: Bool
    /// The configured path, percent-encoded; empty if the URL has no path.
    private let path: String

    /// Returns `nil` unless the text is an HTTP URL with an authority and an optional path without `.` and `..`
    /// segments.
    package init?(_ text: String) {
        let lowercasedText = text.lowercased()
        guard let scheme = ["http", "https"].first(where: { lowercasedText.hasPrefix($0 + "://") }) else { return nil }
        let authorityAndPath = text.dropFirst(scheme.count + 3)
        let authority = authorityAndPath.prefix { $0 != "/" }
        let path = authorityAndPath.dropFirst(authority.count)
        guard !authority.isEmpty, !authorityAndPath.contains(where: { "?#".contains($0) }), !authority.contains("@"),
            let parsed = URL(string: text), let host = parsed.host, !host.isEmpty,
            let target = try? ProxyTarget(ProxyTarget.prefix + "x" + path)
        else { return nil }
        isTLS = scheme == "https"
        self.host = host
        port = parsed.port ?? HTTPOrigin.standardPort(isTLS: isTLS)
        self.authority = HTTPOrigin.authority(host: host, port: port, isTLS: isTLS)
        self.path = target.path.map { "/" + $0 } ?? ""
    }

    /// The URL without a path, for messages.
    package var origin: String { "\(isTLS ? "https" : "http")://\(authority)" }

    /// Returns the target of the request line. The paths are only joined, because `ProxyTarget` guarantees that the
    /// result stays below this base.
    package func target(_ target: ProxyTarget) -> String {
        let basePath = path.isEmpty ? "/" : path
        var fullTarget = target.path.map { path.hasSuffix("/") ? path + $0 : "\(path)/\($0)" } ?? basePath
        if let query = target.query { fullTarget += "?" + query }
        return fullTarget
    }
}
