import FoundationEssentials
import Testing

@testable import SidecarListeners
@testable import SidecarSettings

@Suite("Proxy: targets of calls")
struct ProxyTargetTests {
    @Test(
        "A path that could escape the base path is rejected",
        arguments: [
            "..", "../x", "a/../../x", "a/..", ".", "./x", "%2e%2e/x", "%2E%2e", ".%2e/x", "%2e", "a/%2e%2e%2f%2e%2e/x",
            "..%2fx", "..%2Fx", "..%5cx", "a%2f..%2fx", "a%5c..%5cx", "%252e%252e/x", "%252e%252e%252fx", "%252e", "..%252fx",
            "..;/x", "..;a=b/x", "%2e%2e;/x", "%2e%2e%3b/x", "a\\..\\x", "..\\x", "/evil.example/x", "//evil.example", "a%00b",
            "a%0d%0aHost:%20x", "a%7f", "%c0%ae%c0%ae/x", "%ff", "%e0%80%ae", "a%zz", "a%", "a%2", "a#b", "a b", "a\u{e9}",
            "%25%32%65%25%32%65/x", "a%2500", "..%23", "..%23/x", "..%3f", "..%3Fx/y", "a/..%2523", "%2f%2fevil.example",
            "%2F/evil.example", "%252f%252fevil.example", "%5c%5cevil.example", "%2f%5cevil.example",
        ])
    func pathThatCouldEscapeBasePathIsRejected(path: String) {
        #expect(throws: ProxyTarget.Violation.self) { try ProxyTarget("/proxy/shop/" + path) }
    }

    @Test(
        "A path that stays below the base path is forwarded unchanged",
        arguments: [
            "", "a", "a/", "a//b", "a/b.c/..d/e../...", "a%2Fb", "a%5Cb", "%41", "100%25", "@user/x:y", "a;b=c/d,e",
            "!$&'()*+,;=:@~_-.x",
            "%E2%82%AC", "a%252Fb",
        ])
    func pathThatStaysBelowBasePathIsForwardedUnchanged(path: String) throws {
        #expect(try ProxyTarget("/proxy/shop/" + path).path == path)
    }

    @Test("Invalid but common characters are percent-encoded")
    func invalidButCommonCharactersArePercentEncoded() throws {
        let target = try ProxyTarget("/proxy/shop/a[b]|\"{%20}?f[x]=<1>^`")
        #expect(target.path == "a%5Bb%5D%7C%22%7B%20%7D")
        #expect(target.query == "f%5Bx%5D=%3C1%3E%5E%60")
    }

    @Test(
        "Query and path are separated",
        arguments: [
            ("/proxy/shop", nil, nil), ("/proxy/shop?a=b", nil, "a=b"), ("/proxy/shop/", "", nil), ("/proxy/shop/?", "", ""),
            ("/proxy/shop/a?b/../c?d", "a", "b/../c?d"), ("/proxy/a%2Fb/c", "c", nil),
        ] as [(String, String?, String?)])
    func queryAndPathAreSeparated(target: String, path: String?, query: String?) throws {
        let parsedTarget = try ProxyTarget(target)
        #expect(parsedTarget.path == path)
        #expect(parsedTarget.query == query)
    }

    @Test("A malformed query is rejected", arguments: ["?a=%", "?a=%zz", "?a b", "?a#b", "?\u{e9}"])
    func badQuery(query: String) {
        #expect(throws: ProxyTarget.Violation.self) { try ProxyTarget("/proxy/shop/" + query) }
    }

    @Test(
        "The rest of a call's path is appended to the base URL",
        arguments: [
            ("http://h", "", "/"), ("http://h", "/", "/"), ("http://h/", "", "/"), ("http://h", "?q", "/?q"),
            ("https://h:8443/v1", "/a?b=c", "/v1/a?b=c"), ("https://h/v1/", "/a//b/", "/v1/a//b/"),
            ("https://h/v1/", "", "/v1/"), ("http://[::1]:80/x", "/%2Fy", "/x/%2Fy"), ("http://h/v1", "/", "/v1/"),
            ("http://h/v1", "/@evil.example:80/x", "/v1/@evil.example:80/x"), ("http://h/a{b}", "/c", "/a%7Bb%7D/c"),
        ])
    func restOfCallPathIsAppendedToBaseURL(base: String, rest: String, target: String) throws {
        let base = try #require(UpstreamBase(base))
        #expect(base.target(try ProxyTarget("/proxy/shop" + rest)) == target)
    }

    @Test(
        "A base URL sets the address and Host",
        arguments: [
            ("http://h", "h", 80, false, "h"), ("https://h/v1", "h", 443, true, "h"), ("http://h:80", "h", 80, false, "h"),
            ("HTTPS://H:8443/x", "H", 8443, true, "H:8443"), ("http://[::1]:81/", "::1", 81, false, "[::1]:81"),
            ("https://192.0.2.1:80", "192.0.2.1", 80, true, "192.0.2.1:80"),
        ])
    func baseURLSetsAddressAndHost(base: String, host: String, port: Int, isTLS: Bool, authority: String) throws {
        let base = try #require(UpstreamBase(base))
        #expect(base.host == host)
        #expect(base.port == port)
        #expect(base.isTLS == isTLS)
        #expect(base.authority == authority)
    }

    @Test(
        "A base URL with more than scheme, host, port and path is invalid",
        arguments: [
            "ftp://h", "http://", "http:///x", "http://u@h", "http://u:p@h/x", "http://h?x", "http://h/x?y", "http://h#x",
            "http://h/../x",
            "http://h/%2e%2e/x", "http://h//x", "http://h/%ff",
        ])
    func badBase(url: String) {
        #expect(UpstreamBase(url) == nil)
    }

    @Test("Host omits the scheme's default port")
    func hostOmitsSchemeDefaultPort() {
        #expect(UpstreamBase("https://h:443/x")?.authority == "h")
        #expect(UpstreamBase("http://h:443/x")?.authority == "h:443")
        #expect(UpstreamBase("http://[::1]:80")?.authority == "[::1]")
    }
}
