import NIOHTTP1
import Testing

@testable import SidecarListeners
@testable import SidecarProxy

@Suite("Proxy: forwarded header fields")
struct ProxyFieldsTests {
    private func upstreamFields(_ fields: [(String, String)], method: HTTPMethod = .GET, hasBody: Bool = false) -> HTTPHeaders {
        let head = HTTPRequestHead(version: .http1_1, method: method, uri: "/", headers: HTTPHeaders(fields))
        return ProxyFields.request(
            head, authority: "up:1", forwarded: "for=192.0.2.1", hasBody: hasBody, isForHTTP2: false)
    }

    @Test(
        "Fields that concern one connection or this sidecar are not forwarded",
        arguments: [
            "Connection", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding",
            "Upgrade",
            "X-Api-Key", "Interlock-Subject", "Interlock-Service", "Expect", "Content-Length", "HTTP2-Settings",
        ])
    func stripped(name: String) {
        #expect(!upstreamFields([(name, "x")]).contains(name: name))
    }

    @Test("Fields named by Connection are not forwarded either")
    func fieldsNamedByConnectionAreNotForwardedEither() {
        let headers = upstreamFields([("Connection", "close, X-Hop ,x-other"), ("X-Hop", "1"), ("X-Other", "2"), ("X-End", "3")])
        #expect(!headers.contains(name: "x-hop"))
        #expect(!headers.contains(name: "x-other"))
        #expect(headers["x-end"] == ["3"])
    }

    @Test("Upstream credentials, cookies and encodings are forwarded unchanged")
    func kept() {
        let headers = upstreamFields([
            ("Authorization", "Bearer t"), ("Cookie", "a=b; c=d"), ("Accept-Encoding", "gzip, br"), ("X-Two", "1"),
            ("X-Two", "2"),
        ])
        #expect(headers["authorization"] == ["Bearer t"])
        #expect(headers["cookie"] == ["a=b; c=d"])
        #expect(headers["accept-encoding"] == ["gzip, br"])
        #expect(headers[canonicalForm: "x-two"].map(String.init) == ["1", "2"])
    }

    @Test("Host, Forwarded and Via are set after the entries of earlier proxies")
    func added() {
        let headers = upstreamFields([("Host", "mine"), ("Forwarded", "for=198.51.100.7"), ("Via", "1.0 first")])
        #expect(headers["host"] == ["up:1"])
        #expect(headers[canonicalForm: "forwarded"].map(String.init) == ["for=198.51.100.7", "for=192.0.2.1"])
        #expect(headers[canonicalForm: "via"].map(String.init) == ["1.0 first", "1.1 interlock"])
    }

    @Test("A body keeps its length or its chunks, and an absent one has length 0 where one is expected")
    func bodyKeepsLengthOrChunks() {
        #expect(upstreamFields([("content-length", "3")], method: .POST, hasBody: true)["Content-Length"] == ["3"])
        let chunked = upstreamFields([("Transfer-Encoding", "chunked")], method: .POST, hasBody: true)
        #expect(chunked["transfer-encoding"] == ["chunked"])
        #expect(!chunked.contains(name: "Content-Length"))
        #expect(upstreamFields([], method: .POST)["content-length"] == ["0"])
        #expect(!upstreamFields([("Content-Length", "0")]).contains(name: "Content-Length"))
    }

    @Test("An upstream cannot set the sidecar's fields, and hop-by-hop fields are not forwarded")
    func upstreamCannotSetSidecarFields() {
        let fields = ProxyFields.response([
            "Interlock-State": "open", "Interlock-Fallback": "fixed", "Connection": "keep-alive, X-Hop", "X-Hop": "1",
            "Keep-Alive": "timeout=5",
            "Transfer-Encoding": "chunked", "Set-Cookie": "a=b", "Content-Length": "3",
        ])
        #expect(fields.map { $0.name.lowercased() } == ["set-cookie", "content-length", "content-security-policy", "via"])
    }

    @Test("A forwarded page is sandboxed in addition to its upstream's own policy")
    func sandboxed() {
        let fields = ProxyFields.response(["Content-Security-Policy": "default-src 'self'"])
        #expect(fields["content-security-policy"] == ["default-src 'self'", "sandbox"])
    }

    @Test(
        "The Forwarded field names the caller in the form of RFC 7239",
        arguments: [
            ("192.0.2.1", "h:1", false, #"for=192.0.2.1;host="h:1";proto=http"#), ("::1", nil, true, #"for="[::1]";proto=https"#),
            (nil, "a\"b", true, #"for=unknown;host="ab";proto=https"#),
        ] as [(String?, String?, Bool, String)])
    func forwardedFieldFollowsRFC7239(address: String?, host: String?, isTLS: Bool, element: String) {
        #expect(Forwarded.element(for: address, host: host, isTLS: isTLS) == element)
    }

    @Test(
        "Retry-After is read as seconds or as a date",
        arguments: [
            ("0", 0), ("3", 3000), ("99999999999", 31_622_400_000), ("Sun, 06 Nov 1994 08:49:37 GMT", 0), ("-1", nil),
            ("soon", nil), ("1.5", nil),
        ]
            as [(String, Int64?)])
    func retryAfterIsSecondsOrDate(text: String, milliseconds: Int64?) {
        #expect(RetryAfter.milliseconds(text, now: 1_800_000_000) == milliseconds)
    }

    @Test(
        "A date in any valid form is read",
        arguments: [0, 784_111_777, 951_782_400, 951_868_800, 1_709_164_800, 4_107_542_400] as [Int64])
    func dateInAnyValidFormIsRead(second: Int64) {
        #expect(HTTPDate.second(HTTPDate.text(second: second)) == second)
    }

    @Test(
        "An invalid date is not read",
        arguments: ["", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994 25:49:37 GMT"])
    func badDates(text: String) {
        #expect(HTTPDate.second(text) == nil)
    }
}
