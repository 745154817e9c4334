internal import FoundationEssentials
internal import InterlockCore
internal import InterlockSidecar

/// The outage monitor evaluates any response with any accepted expectation, in bounded time and with a short reason.
enum ProbePromises {
    static func check(_ input: [UInt8]) throws(FuzzFinding) {
        let parts = input.split(separator: UInt8(ascii: "\n"), maxSplits: 2, omittingEmptySubsequences: false)
        let path = String(decoding: parts[0], as: UTF8.self)
        let expression = parts.count > 1 ? String(decoding: parts[1], as: UTF8.self) : ""
        let body = parts.count > 2 ? Array(parts[2]) : []
        try checkPath(path, body: body)
        try checkExpression(expression, body: body)
    }

    private static func judge(_ rule: ProbeExpectation.Body, _ body: [UInt8]) throws(FuzzFinding) {
        let answer = ProbeAnswer(status: 200, headers: [], body: body, isCut: false)
        guard let judge = try? ProbeJudge(ProbeExpectation(body: [rule])) else {
            throw FuzzFinding("an expectation was accepted that cannot be judged by: \(rule)")
        }
        guard let reason = judge.judge(answer).reason?.description else { return }
        let isPlain = !reason.isEmpty && reason.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
        try expect(isPlain && reason.utf8.count <= ProbeReason.longest, "a reason is \(reason)")
    }

    // MARK: Paths

    private static func checkPath(_ text: String, body: [UInt8]) throws(FuzzFinding) {
        guard let path = try? JSONPath(text) else { return }
        let spelled = spelled(path)
        try expect((try? JSONPath(spelled))?.steps == path.steps, "\(text) is \(path.steps), spelled \(spelled)")
        try judge(.json(path: text, equals: "ok"), body)
        guard let document = try? JSONDecoder().decode(JSONValue.self, from: Data(body)) else { return }
        try expect(path.steps.isEmpty ? path.value(in: document) == document : true, "$ is not the document")
        if case .text(let own)? = path.value(in: document) { try judge(.json(path: text, equals: own), body) }
    }

    /// The path with every member in quotes.
    private static func spelled(_ path: JSONPath) -> String {
        path.steps.reduce(into: "$") { text, step in
            switch step {
            case .element(let index): text += "[\(index)]"
            case .member(let name):
                let escaped = name.map { "'\\".contains($0) ? "\\\($0)" : String($0) }.joined()
                text += "['\(escaped)']"
            }
        }
    }

    // MARK: Expressions

    private static func checkExpression(_ text: String, body: [UInt8]) throws(FuzzFinding) {
        guard let expression = try? RegularExpression(text) else { return }
        try judge(.matches(text), body)
        let searched = String(decoding: body, as: UTF8.self)
        let found = expression.search(in: searched)
        guard found != .tooCostly, !text.hasPrefix("(?i)") else { return }
        // Equivalent expressions find the same, unless they are too long.
        for other in ["(?:\(text))", "(?:\(text)|\(text))", "(?:\(text)){1}"] {
            guard let search = (try? RegularExpression(other))?.search(in: searched), search != .tooCostly else { continue }
            try expect(search == found, "\(text) is \(found), \(other) is \(search) in \(searched)")
        }
    }
}
