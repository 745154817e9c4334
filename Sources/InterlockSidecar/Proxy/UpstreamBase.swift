package import FoundationEssentials

/// Where an upstream begins: every call goes to this origin and below this path.
package struct UpstreamBase: Sendable {
    /// What the `Host` field says.
    let authority: String
    /// As it was configured.
    private let root: String
    /// Without a slash at its end, so that a path can be appended with one.
    private let stem: String
    private let parsed: URL
    /// Decoded, without a slash at its end.
    private let path: String

    /// `nil`: not a URL of a scheme, an authority and perhaps a path alone, or one that leads through `.` or `..`.
    package init?(_ text: String) {
        let lowered = text.lowercased()
        guard let scheme = ["http", "https"].first(where: { lowered.hasPrefix($0 + "://") }) else { return nil }
        let rest = text.dropFirst(scheme.count + 3)
        let authority = rest.prefix { $0 != "/" }
        let path = rest.dropFirst(authority.count)
        guard !authority.isEmpty, !rest.contains(where: { "?#".contains($0) }), !authority.contains("@"),
            let parsed = URL(string: text), parsed.host?.isEmpty == false,
            (try? ProxyTarget(ProxyTarget.prefix + "x" + path)) != nil
        else { return nil }
        let standardPort = scheme == "https" ? ":443" : ":80"
        self.authority = String(authority.hasSuffix(standardPort) ? authority.dropLast(standardPort.count) : authority)
        root = text
        stem = text.hasSuffix("/") ? String(text.dropLast()) : text
        self.parsed = parsed
        self.path = parsed.path.hasSuffix("/") ? String(parsed.path.dropLast()) : parsed.path
    }

    /// The URL to call; `nil`: it would be elsewhere than below this base as the client reads it, which nothing that
    /// `ProxyTarget` lets through should be.
    package func url(for target: ProxyTarget) -> URL? {
        var text = target.path.map { "\(stem)/\($0)" } ?? root
        if let query = target.query { text += "?" + query }
        guard let url = URL(string: text), url.scheme == parsed.scheme, url.host == parsed.host, url.port == parsed.port
        else { return nil }
        // A path that the client cannot decode is empty to it, and it would ask for the root instead.
        return url.path.hasPrefix(path) && (target.path == nil || !url.path.isEmpty) ? url : nil
    }
}
