internal import FoundationEssentials
internal import InterlockHTTP

/// Where an upstream begins: every call goes to this origin and below this path.
package struct UpstreamBase: Sendable {
    /// What the `Host` field says.
    package let authority: String
    /// As it is dialled.
    package let host: String
    package let port: Int
    package let isTLS: Bool
    /// As it was configured, encoded; empty when there is none.
    private let path: String

    /// `nil`: not a URL of a scheme, an authority and perhaps a path alone, or one that leads through `.` or `..`.
    package init?(_ text: String) {
        let lowered = text.lowercased()
        guard let scheme = ["http", "https"].first(where: { lowered.hasPrefix($0 + "://") }) else { return nil }
        let rest = text.dropFirst(scheme.count + 3)
        let authority = rest.prefix { $0 != "/" }
        let path = rest.dropFirst(authority.count)
        guard !authority.isEmpty, !rest.contains(where: { "?#".contains($0) }), !authority.contains("@"),
            let parsed = URL(string: text), let host = parsed.host, !host.isEmpty,
            let target = try? ProxyTarget(ProxyTarget.prefix + "x" + path)
        else { return nil }
        isTLS = scheme == "https"
        self.host = host
        port = parsed.port ?? HTTPOrigin.standardPort(isTLS: isTLS)
        self.authority = HTTPOrigin.authority(host: host, port: port, isTLS: isTLS)
        self.path = target.path.map { "/" + $0 } ?? ""
    }

    /// The target of the request's line. Plain text behind plain text: that it stays below this base is `ProxyTarget`'s promise.
    package func target(_ target: ProxyTarget) -> String {
        var text = target.path.map { path.hasSuffix("/") ? path + $0 : "\(path)/\($0)" } ?? (path.isEmpty ? "/" : path)
        if let query = target.query { text += "?" + query }
        return text
    }
}
