import NIOCore
import NIOHTTP1
import Testing

@testable import SidecarProxy

@Suite("Proxy: the last good responses")
struct LastGoodAnswersTests {
    private func answer(_ text: String, at time: NIODeadline = .uptimeNanoseconds(0)) -> LastGoodAnswers.Answer {
        .init(status: .ok, headers: [:], body: ByteBuffer(string: text), storedAt: time)
    }

    private func key(_ target: String) -> LastGoodAnswers.Key { .init(target: target) }

    private func request(_ headers: HTTPHeaders = [:], method: HTTPMethod = .GET) -> HTTPRequestHead {
        HTTPRequestHead(version: .http1_1, method: method, uri: "/proxy/shop/a?b", headers: headers)
    }

    @Test("A response is kept until it is too old")
    func age() {
        let answers = LastGoodAnswers(maximumAge: .seconds(60))
        answers.keep(answer("x"), for: key("/a"))
        #expect(answers.answer(for: key("/a"), now: .uptimeNanoseconds(60_000_000_000))?.age == 60)
        #expect(answers.answer(for: key("/a"), now: .uptimeNanoseconds(60_000_000_001)) == nil)
        #expect(answers.answer(for: key("/b"), now: .uptimeNanoseconds(0)) == nil)
    }

    @Test("The least recently used response is evicted first")
    func bounded() {
        let answers = LastGoodAnswers(maximumAge: .seconds(60))
        for number in 0..<256 { answers.keep(answer("x"), for: key("/\(number)")) }
        _ = answers.answer(for: key("/0"), now: .uptimeNanoseconds(0))
        answers.keep(answer("x"), for: key("/256"))
        #expect(answers.answer(for: key("/0"), now: .uptimeNanoseconds(0)) != nil)
        #expect(answers.answer(for: key("/1"), now: .uptimeNanoseconds(0)) == nil)
    }

    @Test("The stored responses take at most 16 MiB in total")
    func bytes() {
        let answers = LastGoodAnswers(maximumAge: .seconds(60))
        let body = String(repeating: "x", count: LastGoodAnswers.maximumBodyBytes)
        for number in 0..<80 { answers.keep(answer(body), for: key("/\(number)")) }
        let kept = (0..<80).filter { answers.answer(for: key("/\($0)"), now: .uptimeNanoseconds(0)) != nil }
        #expect(kept.count == 63)
        #expect(kept.first == 17)
    }

    @Test("Only a GET without credentials has a response that other callers may receive")
    func keys() {
        #expect(LastGoodAnswers.key(of: request(["Accept-Encoding": "gzip"]))?.fields == ["accept-encoding: gzip"])
        #expect(LastGoodAnswers.key(of: request(method: .HEAD)) == nil)
        for name in ["Authorization", "cookie", "Range"] {
            #expect(LastGoodAnswers.key(of: request([name: "x"])) == nil)
        }
        #expect(LastGoodAnswers.key(of: request(["X-Api-Key": "x"])) != nil)
    }

    @Test("Requests that differ in fields a service may read do not share a response")
    func fieldsThatDiffer() {
        #expect(
            LastGoodAnswers.key(of: request(["X-User-Id": "alice"])) != LastGoodAnswers.key(of: request(["X-User-Id": "bob"])))
        #expect(LastGoodAnswers.key(of: request(["Accept-Language": "de"])) != LastGoodAnswers.key(of: request()))
        #expect(
            LastGoodAnswers.key(of: request(["traceparent": "1", "User-Agent": "a"]))
                == LastGoodAnswers.key(of: request(["traceparent": "2"])))
    }

    @Test(
        "A custom field that identifies the caller also prevents sharing", arguments: ["X-Auth-Token", "PRIVATE-TOKEN", "apikey"])
    func customCredentials(name: String) {
        #expect(LastGoodAnswers.key(of: request([name: "x"])) == nil)
    }

    @Test("A GET with a body does not share the response of one without")
    func bodies() {
        #expect(LastGoodAnswers.key(of: request(["Content-Length": "2"])) == nil)
        #expect(LastGoodAnswers.key(of: request(["Transfer-Encoding": "chunked"])) == nil)
        #expect(LastGoodAnswers.key(of: request(["Content-Length": "0"])) != nil)
    }

    @Test(
        "A response's age is its valid Age field plus the time since it arrived",
        arguments: [(nil, 7), ("5", 12), ("-5", 7), ("x", 7), ("9223372036854775807", 2_147_483_655)] as [(String?, Int64)])
    func age(ageField: String?, age: Int64) {
        var answer = answer("x")
        if let ageField { answer.headers.add(name: "Age", value: ageField) }
        #expect(answer.age(after: 7) == age)
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
    func kept(status: Int, fields: HTTPHeaders, isKept: Bool) {
        #expect(LastGoodAnswers.isStorable(HTTPResponseStatus(statusCode: status), fields) == isKept)
    }
}
