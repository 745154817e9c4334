internal import FoundationEssentials
internal import InterlockCore
internal import InterlockSidecar
internal import SidecarListeners

/// The outage monitor evaluates any response with any accepted expectation, in bounded time and with a short reason.
enum ProbeProperties {
    static func check(_ input: [UInt8]) throws(FuzzFinding) {
        let parts = input.split(separator: UInt8(ascii: "\n"), maxSplits: 1, omittingEmptySubsequences: false)
        let path = String(decoding: parts[0], as: UTF8.self)
        try checkPath(path, body: parts.count > 1 ? Array(parts[1]) : [])
    }

    private static func judge(_ rule: ProbeExpectation.Body, _ body: [UInt8]) throws(FuzzFinding) {
        let response = ProbeResponse(status: 200, headers: [], body: body, isTruncated: false)
        guard let judge = try? ProbeJudge(ProbeExpectation(body: [rule])) else {
            throw FuzzFinding("an accepted expectation cannot be evaluated: \(rule)")
        }
        guard let reason = judge.judge(response).reason?.description else { return }
        let isPlain = !reason.isEmpty && reason.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
        try expect(isPlain && reason.utf8.count <= ProbeReason.maximumBytes, "a reason is \(reason)")
    }

    private static func checkPath(_ text: String, body: [UInt8]) throws(FuzzFinding) {
        guard let path = try? JSONPath(text) else { return }
        let pathText = pathText(path)
        try expect((try? JSONPath(pathText))?.steps == path.steps, "\(text) is \(path.steps), spelled \(pathText)")
        try judge(.json(path: text, equals: "ok"), body)
        guard let document = try? JSONDecoder().decode(JSONValue.self, from: Data(body)) else { return }
        try expect(path.steps.isEmpty ? path.value(in: document) == document : true, "$ is not the document")
        if case .string(let value)? = path.value(in: document) { try judge(.json(path: text, equals: value), body) }
    }

    /// Returns the path with every member in quotes.
    private static func pathText(_ path: JSONPath) -> String {
        path.steps.reduce(into: "$") { text, step in
            switch step {
            case .element(let index): text += "[\(index)]"
            case .member(let name):
                let escaped = name.map { "'\\".contains($0) ? "\\\($0)" : String($0) }.joined()
                text += "['\(escaped)']"
            }
        }
    }
}
