import NIOCore
import NIOHTTP1
import Testing

@testable import SidecarProxy

@Suite("Proxy: the last good responses")
struct LastGoodResponsesTests {
    private func response(_ text: String, at time: NIODeadline = .uptimeNanoseconds(0)) -> LastGoodResponses.Response {
        .init(status: .ok, headers: [:], body: ByteBuffer(string: text), storedAt: time)
    }

    private func key(_ target: String) -> LastGoodResponses.Key { .init(target: target) }

    private func request(_ headers: HTTPHeaders = [:], method: HTTPMethod = .GET) -> HTTPRequestHead {
        HTTPRequestHead(version: .http1_1, method: method, uri: "/proxy/shop/a?b", headers: headers)
    }

    @Test("A response is kept until it is too old")
    func responseIsKeptUntilTooOld() {
        let responses = LastGoodResponses(maximumAge: .seconds(60))
        responses.store(response("x"), for: key("/a"))
        #expect(responses.response(for: key("/a"), now: .uptimeNanoseconds(60_000_000_000))?.ageSeconds == 60)
        #expect(responses.response(for: key("/a"), now: .uptimeNanoseconds(60_000_000_001)) == nil)
        #expect(responses.response(for: key("/b"), now: .uptimeNanoseconds(0)) == nil)
    }

    @Test("The least recently used response is evicted first")
    func bounded() {
        let responses = LastGoodResponses(maximumAge: .seconds(60))
        for number in 0..<256 { responses.store(response("x"), for: key("/\(number)")) }
        _ = responses.response(for: key("/0"), now: .uptimeNanoseconds(0))
        responses.store(response("x"), for: key("/256"))
        #expect(responses.response(for: key("/0"), now: .uptimeNanoseconds(0)) != nil)
        #expect(responses.response(for: key("/1"), now: .uptimeNanoseconds(0)) == nil)
    }

    @Test("The stored responses take at most 16 MiB in total")
    func storedResponsesTakeAtMost16MiBInTotal() {
        let responses = LastGoodResponses(maximumAge: .seconds(60))
        let body = String(repeating: "x", count: LastGoodResponses.maximumBodyBytes)
        for number in 0..<80 { responses.store(response(body), for: key("/\(number)")) }
        let kept = (0..<80).filter { responses.response(for: key("/\($0)"), now: .uptimeNanoseconds(0)) != nil }
        #expect(kept.count == 63)
        #expect(kept.first == 17)
    }

    @Test("Only a GET without credentials has a response that other callers may receive")
    func keys() {
        #expect(LastGoodResponses.key(of: request(["Accept-Encoding": "gzip"]))?.fields == ["accept-encoding: gzip"])
        #expect(LastGoodResponses.key(of: request(method: .HEAD)) == nil)
        for name in ["Authorization", "cookie", "Range"] {
            #expect(LastGoodResponses.key(of: request([name: "x"])) == nil)
        }
        #expect(LastGoodResponses.key(of: request(["X-Api-Key": "x"])) != nil)
    }

    @Test("Requests that differ in fields a service may read do not share a response")
    func differingRequestsShareNoResponse() {
        #expect(
            LastGoodResponses.key(of: request(["X-User-Id": "alice"])) != LastGoodResponses.key(of: request(["X-User-Id": "bob"]))
        )
        #expect(LastGoodResponses.key(of: request(["Accept-Language": "de"])) != LastGoodResponses.key(of: request()))
        #expect(
            LastGoodResponses.key(of: request(["traceparent": "1", "User-Agent": "a"]))
                == LastGoodResponses.key(of: request(["traceparent": "2"])))
    }

    @Test(
        "A custom field that identifies the caller also prevents sharing", arguments: ["X-Auth-Token", "PRIVATE-TOKEN", "apikey"])
    func customCredentials(name: String) {
        #expect(LastGoodResponses.key(of: request([name: "x"])) == nil)
    }

    @Test("A GET with a body does not share the response of one without")
    func bodies() {
        #expect(LastGoodResponses.key(of: request(["Content-Length": "2"])) == nil)
        #expect(LastGoodResponses.key(of: request(["Transfer-Encoding": "chunked"])) == nil)
        #expect(LastGoodResponses.key(of: request(["Content-Length": "0"])) != nil)
    }

    @Test(
        "A response's age is its valid Age field plus the time since it arrived",
        arguments: [(nil, 7), ("5", 12), ("-5", 7), ("x", 7), ("9223372036854775807", 2_147_483_655)] as [(String?, Int64)])
    func age(ageField: String?, age: Int64) {
        var response = response("x")
        if let ageField { response.headers.add(name: "Age", value: ageField) }
        #expect(response.ageSeconds(afterSeconds: 7) == age)
    }

    @Test(
        "A private, partial or varying response is not kept",
        arguments: [
            (200, [:], true), (204, [:], true), (206, [:], false), (301, [:], false), (500, [:], false),
            (200, ["Cache-Control": "max-age=1, No-Store"], false), (200, ["Cache-Control": "private"], false),
            (200, ["Set-Cookie": "a=b"], false),
            (200, ["Vary": "Accept-Encoding"], true), (200, ["Vary": "Accept-Encoding, Origin"], false),
            (200, ["Vary": "*"], false),
            (200, ["Content-Length": "262145"], false),
        ] as [(Int, HTTPHeaders, Bool)])
    func privatePartialOrVaryingResponseIsNotKept(status: Int, fields: HTTPHeaders, isKept: Bool) {
        #expect(LastGoodResponses.isStorable(HTTPResponseStatus(statusCode: status), fields) == isKept)
    }
}
