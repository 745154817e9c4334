import InterlockCore
import Testing

@testable import InterlockSidecar

@Suite("Evaluating the response to a probe")
struct ProbeJudgeTests {
    private func finding(
        _ expectation: ProbeExpectation, status: Int = 200, headers: [(name: String, value: String)] = [], body: String = "",
        isTruncated: Bool = false
    ) throws -> ProbeFinding {
        let response = ProbeResponse(status: status, headers: headers, body: Array(body.utf8), isTruncated: isTruncated)
        return try ProbeJudge(expectation).judge(response)
    }

    @Test("By default every status below 400 is good", arguments: [200, 204, 302, 399])
    func goodStatuses(status: Int) throws {
        #expect(try finding(ProbeExpectation(), status: status) == .good)
    }

    @Test("Other statuses are bad, and the reason names the expected ones", arguments: [101, 404, 429, 500, 503])
    func badStatuses(status: Int) throws {
        let expectation = ProbeExpectation(statuses: StatusSet(200...200, 301...302))
        #expect(try finding(expectation, status: status) == .bad("status \(status), expected 200, 301..302"))
    }

    @Test("A header must have the expected value, regardless of the case of its name")
    func headerMustHaveExpectedValue() throws {
        let expectation = ProbeExpectation(headers: [.init(name: "X-State", value: "up")])
        #expect(try finding(expectation, headers: [("x-state", "down"), ("X-STATE", "up")]) == .good)
        #expect(try finding(expectation, headers: [("x-state", "Up")]) == .bad("the header X-State is \"Up\", expected \"up\""))
        #expect(try finding(expectation) == .bad("the header X-State is missing"))
    }

    @Test("The body must contain the text")
    func bodyMustContainText() throws {
        let expectation = ProbeExpectation(body: [.contains("grün")])
        #expect(try finding(expectation, body: "alles grün") == .good)
        #expect(try finding(expectation, body: "alles rot") == .bad("the body does not contain \"grün\""))
    }

    @Test("The value at a JSON path must be the expected one")
    func json() throws {
        let expectation = ProbeExpectation(body: [.json(path: "$.status", equals: "ok")])
        #expect(try finding(expectation, body: "{\"status\":\"ok\"}") == .good)
        #expect(try finding(expectation, body: "{\"status\":\"degraded\"}") == .bad("$.status is \"degraded\", expected \"ok\""))
        #expect(try finding(expectation, body: "{\"status\":[]}") == .bad("$.status is an array, expected \"ok\""))
        #expect(try finding(expectation, body: "{}") == .bad("the body has no value at $.status"))
        #expect(try finding(expectation, body: "<html>") == .bad("the body is not JSON"))
        #expect(
            try finding(expectation, body: "{\"status\":\"ok\"}", isTruncated: true)
                == .bad("the body is longer than 64 KiB, too long to check as JSON"))
    }

    @Test(
        "A duplicate member on the path is bad, because parsers disagree about it",
        arguments: [
            #"{"status":"ok","status":"down"}"#, #"{"status":"ok","at":{},"\u0073tatus":"ok"}"#,
            #"{"a":[1,{"x":"}\"","y":null}], "status" : "ok" ,"status":{}}"#,
        ])
    func duplicateMemberOnPathIsBad(body: String) throws {
        let expectation = ProbeExpectation(body: [.json(path: "$.status", equals: "ok")])
        #expect(try finding(expectation, body: body) == .bad("$.status: an object in the body repeats the member \"status\""))
    }

    @Test(
        "Duplicate members elsewhere, or in different objects, do not matter",
        arguments: [
            #"{"status":"ok","at":{"status":"down"},"list":[{"status":1},{"status":2},"status","status"]}"#,
            #"{"other":1,"status":"ok","other":"status"}"#, #"{"status":"ok","text":"{\"status\":1,\"status\":2}"}"#,
        ])
    func duplicateMembersElsewhereAreIgnored(body: String) throws {
        #expect(try finding(ProbeExpectation(body: [.json(path: "$.status", equals: "ok")]), body: body) == .good)
    }

    @Test("Endlessly nested JSON is bad and does not exhaust the stack")
    func nested() throws {
        let expectation = ProbeExpectation(body: [.json(path: "$.status", equals: "ok")])
        let body = String(repeating: "[", count: ProbeExpectation.inspectedBytes)
        #expect(try finding(expectation, body: body) == .bad("the body is not JSON"))
    }

    @Test("JSON that is nested too deeply to read quickly is not read", arguments: [30, 33, 400])
    func deep(depth: Int) throws {
        let expectation = ProbeExpectation(body: [.json(path: "$.status", equals: "ok")])
        let body = String(repeating: "[", count: depth) + "1" + String(repeating: "]", count: depth)
        let reason: ProbeReason = depth > 32 ? "the body is not JSON" : "the body has no value at $.status"
        #expect(try finding(expectation, body: body) == .bad(reason))
    }

    @Test("All rules must hold")
    func rulesMustHold() throws {
        let expectation = ProbeExpectation(body: [.contains("ok"), .contains("ready")])
        #expect(try finding(expectation, body: "ok, ready") == .good)
        #expect(try finding(expectation, body: "ok") == .bad("the body does not contain \"ready\""))
        #expect(try finding(expectation, body: "ready") == .bad("the body does not contain \"ok\""))
    }

    @Test("An encoded body cannot be evaluated")
    func encodedBodyCannotBeEvaluated() throws {
        let headers = [(name: "content-encoding", value: "gzip")]
        let expectation = ProbeExpectation(body: [.contains("ok")])
        #expect(
            try finding(expectation, headers: headers, body: "ok")
                == .bad("the body is encoded as gzip, which was not requested"))
        #expect(try finding(ProbeExpectation(), headers: headers) == .good)
    }

    @Test("An invalid path is rejected before any response is evaluated")
    func invalidPathIsRejectedBeforeAnyResponseIsEvaluated() {
        #expect(throws: JSONPath.Violation.self) { try ProbeJudge(ProbeExpectation(body: [.json(path: "x", equals: "")])) }
    }
}
