internal import InterlockCore
internal import NIOHTTP1
internal import SidecarSettings

/// The target of a request: its path and query, and its authority if the target is in absolute form.
package struct HTTPTarget: Sendable {
    /// The prefix of the targets that lead to a service.
    static let proxyPrefix = ProxyTarget.prefix
    /// The header field that names a service, in a request whose path does not name it and in a relayed response.
    package static let serviceField = "Interlock-Service"

    /// The path, which starts with a slash unless the target has another form, such as `*`.
    let path: Substring
    /// The query without its question mark; `nil` if there is no query.
    let query: Substring?
    /// The path and the query.
    package let pathAndQuery: Substring
    /// The authority of a target in absolute form, which overrides the `Host` field (RFC 9112, section 3.2.2).
    let authority: Substring?

    /// Returns the target of a request. If a header field names a service, the target leads to that service, whatever
    /// the path: gRPC clients, for example, cannot choose how their paths begin.
    static func uri(of head: HTTPRequestHead) throws(HTTPProblem) -> String {
        guard let service = head.headers.first(name: serviceField) else { return head.uri }
        let name = try ResourceName(service, parameter: serviceField)
        return proxyPrefix + PercentEncoding.encode(name.text) + HTTPTarget(head.uri).pathAndQuery
    }

    init(_ text: String) {
        var pathAndQuery = text[...]
        authority = Self.takeAuthority(of: &pathAndQuery)
        self.pathAndQuery = pathAndQuery
        if let mark = pathAndQuery.utf8.firstIndex(of: UInt8(ascii: "?")) {
            path = pathAndQuery[..<mark]
            query = pathAndQuery[pathAndQuery.utf8.index(after: mark)...]
        } else {
            path = pathAndQuery
            query = nil
        }
    }

    /// Removes and returns the authority at the start of a target in absolute form; `nil` for other forms.
    private static func takeAuthority(of text: inout Substring) -> Substring? {
        guard text.utf8.first != UInt8(ascii: "/") else { return nil }
        let lowered = text.prefix(8).lowercased()
        guard let scheme = ["http://", "https://"].first(where: { lowered.hasPrefix($0) }) else { return nil }
        let afterScheme = text.dropFirst(scheme.count)
        let end =
            afterScheme.utf8.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? afterScheme.endIndex
        text = end < afterScheme.endIndex ? afterScheme[end...] : "/"
        return afterScheme[..<end]
    }
}
