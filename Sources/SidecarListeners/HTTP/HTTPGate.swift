internal import Interlock
import InterlockCore
internal import InterlockHTTP
internal import NIOCore
internal import NIOHTTP1
internal import SidecarSettings

/// Decides which requests are admitted: by the name of the host, by the origin of a browser's request, and by API key.
///
/// A web page can make a browser on this host send requests here, even under the page's own host name, if that resolves
/// to 127.0.0.1 (DNS rebinding). So both the requested host and the page's origin must belong to this host. Browsers
/// report the origin of a request only at loopback addresses and names. So without keys, other hosts are served only if
/// `listen.hosts` names them.
package struct HTTPGate: Sendable {
    let access: AccessControl
    /// `listen.hosts`, in lower case.
    private let hosts: Set<String>
    /// The names of this host, in lower case.
    private let hostNames: Set<String>

    package init(access: AccessControl, hosts: [String]) {
        self.access = access
        self.hosts = Set(hosts.map { $0.lowercased() })
        let name = InterlockConfiguration.hostName.lowercased()
        hostNames = [name, String(name.prefix { $0 != "." })]
    }

    /// Rejects requests that NIO's HTTP/1.1 decoder rejects but its HTTP/2 decoder accepts.
    static func rejectMalformed(_ head: HTTPRequestHead) throws(HTTPProblem) {
        if case .RAW(let method) = head.method, !HTTPToken.isValid(method) {
            throw HTTPProblem(.invalid, "the method is not a valid token (RFC 9110, section 9.1)")
        }
        guard head.headers.hasValidContentLength else {
            throw HTTPProblem(.invalid, "Content-Length must be a single whole number")
        }
        let limit = HTTPListenerContext.limits.maxHeaderFieldCount
        guard head.headers.count <= limit else {
            throw HTTPProblem(.fieldsTooLarge, "the request has more than \(limit) header fields")
        }
    }

    /// Rejects a transfer coding that the decoder would silently drop (RFC 9112, section 6.1).
    static func rejectUnsupportedTransferCoding(_ fields: HTTPHeaders) throws(HTTPProblem) {
        guard let coding = fields.unsupportedTransferCoding else { return }
        throw HTTPProblem(
            .notImplemented, "the transfer coding \"\(Excerpt(coding))\" is not supported; send the body unencoded or in chunks")
    }

    /// Returns the host and port that a request is addressed to, from its target or its `Host`.
    /// - Throws: if the request has neither, or more than one `Host`.
    static func authority(of head: HTTPRequestHead, _ target: HTTPTarget) throws(HTTPProblem) -> String {
        var host: String?
        for (name, value) in head.headers where name.utf8.count == 4 && name.lowercased() == "host" {
            guard host == nil else { throw HTTPProblem(.invalid, "the request has more than one Host; send one") }
            host = value
        }
        guard let authority = target.authority.map({ String($0) }) ?? host else {
            throw HTTPProblem(.misdirected, "the request has no Host header; send the name or the address of this sidecar")
        }
        return authority
    }

    private static func notServed(_ authority: String) -> HTTPProblem {
        HTTPProblem(
            .misdirected,
            "the Host \"\(Excerpt(authority))\" is not served; use an IP address, localhost, this host's name, or one of "
                + "listen.hosts in the configuration")
    }

    private static func notLoopback(_ authority: String) -> HTTPProblem {
        HTTPProblem(
            .misdirected,
            "the Host \"\(Excerpt(authority))\" is not served without auth.keys; use localhost, a loopback address such as "
                + "127.0.0.1, or one of listen.hosts in the configuration")
    }

    /// Rejects requests to other hosts, and requests from web pages of other sites.
    func rejectOtherSites(_ fields: HTTPHeaders, authority: String) throws(HTTPProblem) {
        let requiresKey = access.requiresKey
        guard let host = Self.host(of: authority), isServed(host, requiresKey) else {
            throw requiresKey ? Self.notServed(authority) : Self.notLoopback(authority)
        }
        try Self.rejectOtherSites(fields, authority: authority)
    }

    /// Rejects requests from web pages of other sites. The authority must be one that is served.
    static func rejectOtherSites(_ fields: HTTPHeaders, authority: String) throws(HTTPProblem) {
        if let origin = fields.first(name: "Origin"), !isSame(origin: origin, authority: authority) {
            throw HTTPProblem(.foreignOrigin, "the Origin is another site; web pages of other sites may not call the sidecar")
        }
        if let site = fields.first(name: "Sec-Fetch-Site")?.lowercased(), site != "same-origin", site != "none" {
            throw HTTPProblem(.foreignOrigin, "Sec-Fetch-Site: the request comes from a web page of another site")
        }
    }

    /// Checks that a route admits the caller.
    /// - Returns: the caller.
    func admit(_ fields: HTTPHeaders, to admission: HTTPRoute.Admission) throws(HTTPProblem) -> AccessControl.Caller {
        switch admission {
        case .anyone:
            return .anonymous(.use)
        case .keyHolder where !access.requiresKey:
            throw HTTPProblem.notAuthenticated("this route needs an API key, but none is configured; see auth.keys")
        case .upstreamCaller:
            let key = fields.first(name: "X-Api-Key")
            guard let caller = access.anonymous ?? key.flatMap({ access.caller(key: $0) }) else {
                guard key == nil else { throw HTTPProblem.unknownKey }
                throw HTTPProblem.notAuthenticated(
                    "send an API key as X-Api-Key: KEY; Authorization is passed on to the service and not checked")
            }
            return caller
        case .role, .keyHolder:
            let key = Self.key(of: fields)
            guard let caller = access.anonymous ?? key.flatMap({ access.caller(key: $0) }) else {
                guard key == nil else { throw HTTPProblem.unknownKey }
                throw HTTPProblem.notAuthenticated
            }
            if admission == .role(.admin), caller.role != .admin {
                throw HTTPProblem(.forbidden, "this needs a key with the role admin; \"\(caller.name)\" has the role use")
            }
            return caller
        }
    }

    /// Returns whether requests to this host are served.
    private func isServed(_ host: String, _ requiresKey: Bool) -> Bool {
        if hosts.contains(host) || SocketEndpoint(host: host, port: 0).isLoopback { return true }
        return requiresKey && (hostNames.contains(host) || (try? SocketAddress(ipAddress: host, port: 0)) != nil)
    }

    /// Returns whether the request asks for another protocol. The decoder stops after such a request, even if the
    /// protocol does not change.
    static func requestsUpgrade(_ head: HTTPRequestHead) -> Bool {
        head.method == .CONNECT || head.headers.contains(name: "Upgrade")
    }

    /// Returns whether a body follows the head.
    static func hasBody(_ head: HTTPRequestHead) -> Bool {
        head.headers.contains(name: "Transfer-Encoding")
            || (head.headers.first(name: "Content-Length").flatMap { Int($0) } ?? 0) > 0
    }

    /// Returns whether a request presents a key, valid or not.
    static func presentsKey(_ fields: HTTPHeaders) -> Bool { key(of: fields) != nil }

    private static func key(of fields: HTTPHeaders) -> String? {
        key(apiKey: fields.first(name: "X-Api-Key"), authorization: fields.first(name: "Authorization"))
    }

    /// Returns the key in one of these fields; `nil` if there is none.
    static func key(apiKey: String?, authorization: String?) -> String? {
        if let apiKey { return apiKey }
        guard let authorization else { return nil }
        let words = authorization.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: true)
        guard words.count == 2, words[0].lowercased() == "bearer" else { return nil }
        return String(words[1].drop { $0 == " " })
    }

    /// Returns the host of `host:port`, in lower case, without brackets and without a trailing dot; `nil` if it is
    /// malformed.
    static func host(of authority: String) -> String? {
        let authority = authority.lowercased()
        if authority.hasPrefix("[") {
            guard let end = authority.firstIndex(of: "]") else { return nil }
            return String(authority[authority.index(after: authority.startIndex)..<end])
        }
        let parts = authority.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count <= 2, let host = parts.first, !host.isEmpty else { return nil }
        return String(host.hasSuffix(".") ? host.dropLast() : host)
    }

    /// Returns whether a page with this origin was served under this authority.
    private static func isSame(origin: String, authority: String) -> Bool {
        guard let scheme = origin.firstRange(of: "://") else { return false }
        return origin[scheme.upperBound...].lowercased() == authority.lowercased()
    }
}
