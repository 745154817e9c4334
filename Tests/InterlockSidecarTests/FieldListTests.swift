import NIOCore
import NIOHTTP1
import Testing

@testable import SidecarListeners
@testable import SidecarProxy

@Suite("Proxy: lists, dates and directives in fields")
struct FieldListTests {
    private func upstreamFields(_ fields: [(String, String)]) -> HTTPHeaders {
        ProxyFields.request(
            HTTPRequestHead(version: .http1_1, method: .GET, uri: "/", headers: HTTPHeaders(fields)), authority: "up:1",
            forwarded: "for=192.0.2.1", hasBody: false, isForHTTP2: true)
    }

    @Test(
        "Fields named in Connection are removed, regardless of spacing",
        arguments: ["close,\tX-Hop", "close\t,x-hop\t", "\tX-HOP ", "a b, X-Hop", ",,X-Hop"])
    func fieldsNamedInConnectionAreRemoved(value: String) {
        #expect(!upstreamFields([("Connection", value), ("X-Hop", "1")]).contains(name: "x-hop"))
    }

    @Test("TE and Upgrade are parsed the same way", arguments: ["trailers", " Trailers\t", "deflate,\ttrailers;q=0.5"])
    func teAndUpgradeAreParsedAlike(value: String) {
        #expect(upstreamFields([("TE", value)])["TE"] == ["trailers"])
    }

    @Test(
        "Retry-After accepts all three date formats, with surrounding space",
        arguments: [
            " 3 ", "3\t", "Sun, 06 Nov 1994 08:49:37 GMT ", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        ])
    func retryAfterAcceptsEveryDateFormat(text: String) {
        #expect(RetryAfter.milliseconds(text, now: 1_800_000_000) != nil)
    }

    @Test(
        "The three date formats denote the same second",
        arguments: [
            "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
            "sun, 06 nov 1994 08:49:37 gmt",
        ])
    func threeDateFormatsDenoteSameSecond(text: String) {
        #expect(HTTPDate.second(text) == 784_111_777)
    }

    @Test(
        "Responses that require revalidation are not cached, regardless of case and spacing",
        arguments: ["no-cache", "must-revalidate", "max-age=9, No-Cache", "proxy-revalidate", "s-maxage=9,\tmust-revalidate"])
    func responsesToRevalidateAreNotCached(value: String) {
        #expect(!LastGoodResponses.isStorable(.ok, ["Cache-Control": value]))
    }

    @Test("Requests with different From fields do not share a cached response")
    func from() {
        let request = HTTPRequestHead(version: .http1_1, method: .GET, uri: "/a", headers: ["From": "a@example.com"])
        let other = HTTPRequestHead(version: .http1_1, method: .GET, uri: "/a", headers: ["From": "b@example.com"])
        #expect(
            LastGoodResponses.key(of: request) == nil || LastGoodResponses.key(of: request) != LastGoodResponses.key(of: other))
    }

    @Test("Space around the names in Vary makes no difference")
    func spaceAroundNamesInVaryMakesNoDifference() {
        #expect(LastGoodResponses.isStorable(.ok, ["Vary": "\tAccept-Encoding "]))
    }

    @Test("An unsupported method is not a failure of the service")
    func unsupportedMethodIsNoServiceFailure() {
        #expect(!(500...599).contains(GRPCStatus.unimplemented.httpStatus))
    }

    @Test("gRPC is recognized by its media type in any spelling", arguments: ["application/grpc", "Application/gRPC+proto"])
    func grpcIsRecognizedInAnySpelling(type: String) {
        #expect(GRPCStatus.isUsed(in: type))
    }
}
