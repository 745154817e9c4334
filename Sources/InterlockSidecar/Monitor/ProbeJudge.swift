internal import FoundationEssentials
package import InterlockCore
package import SidecarListeners

/// Judges the responses to a service's HTTP probes.
package struct ProbeJudge: Sendable {
    private enum Rule: Sendable {
        case contains(String)
        case json(path: JSONPath, name: String, text: String)
    }

    /// The maximum nesting depth of a JSON body.
    private static let maximumJSONDepth = 32

    private let expectation: ProbeExpectation
    private let rules: [Rule]

    /// Parses the expected paths.
    /// - Throws: `JSONPath.Violation` if an expected path is invalid.
    package init(_ expectation: ProbeExpectation) throws(JSONPath.Violation) {
        self.expectation = expectation
        rules = try expectation.body.map { rule throws(JSONPath.Violation) in
            switch rule {
            case .contains(let text): .contains(text)
            case .json(let path, let text): .json(path: try JSONPath(path), name: path, text: text)
            }
        }
    }

    /// Judges a response. The finding is good if the response meets all expectations. Of the body, only the first
    /// `inspectedBytes` are checked.
    package func judge(_ response: ProbeResponse) -> ProbeFinding {
        guard expectation.statuses.contains(response.status) else {
            return .bad("status \(response.status), expected \(expectation.statuses.summary)")
        }
        for header in expectation.headers {
            let values = response.values(of: header.name)
            guard !values.contains(where: { ExactText($0) == ExactText(header.value) }) else { continue }
            guard let value = values.first else { return .bad("the header \(header.name) is missing") }
            return .bad("the header \(header.name) is \"\(value.prefix(60))\", expected \"\(header.value.prefix(60))\"")
        }
        guard !rules.isEmpty else { return .good }
        if let coding = response.values(of: "Content-Encoding").first(where: { $0.lowercased() != "identity" }) {
            return .bad("the body is encoded as \(coding), which was not requested")
        }
        for rule in rules {
            if let reason = violation(of: rule, in: response) { return .bad(reason) }
        }
        return .good
    }

    /// Returns the reason why a response breaks a rule; `nil` if it meets the rule.
    private func violation(of rule: Rule, in response: ProbeResponse) -> ProbeReason? {
        switch rule {
        case .contains(let text):
            return response.body.firstRange(of: Array(text.utf8)) != nil
                ? nil : "the body does not contain \"\(text.prefix(100))\""
        case .json(let path, let name, let text):
            return violation(of: path, name, text, in: response)
        }
    }

    private func violation(of path: JSONPath, _ name: String, _ text: String, in response: ProbeResponse) -> ProbeReason? {
        guard !response.isTruncated else {
            return "the body is longer than \(ProbeExpectation.inspectedBytes / 1024) KiB, too long to check as JSON"
        }
        guard let document = try? JSONValue(reading: response.body, maximumDepth: Self.maximumJSONDepth) else {
            return "the body is not JSON"
        }
        let repeatedNames = DuplicateJSONKeys.names(in: response.body)
        if let member = path.steps.compactMap(\.member).first(where: repeatedNames.contains) {
            return "\(name.prefix(80)): an object in the body repeats the member \"\(member.prefix(40))\""
        }
        guard let value = path.value(in: document) else { return "the body has no value at \(name.prefix(80))" }
        guard !value.reads(as: text) else { return nil }
        let shownValue = if case .string(let string) = value { "\"\(string.prefix(40))\"" } else { value.kind }
        return "\(name.prefix(80)) is \(shownValue), expected \"\(text.prefix(40))\""
    }
}

extension StatusSet {
    /// The statuses in the notation of the configuration.
    fileprivate var summary: String {
        ranges.map { $0.lowerBound == $0.upperBound ? "\($0.lowerBound)" : "\($0.lowerBound)..\($0.upperBound)" }
            .joined(separator: ", ")
    }
}

extension JSONPath.Step {
    fileprivate var member: String? { if case .member(let name) = self { name } else { nil } }
}

extension JSONPath {
    /// Returns the value at the path; `nil` if the document has no such value.
    package func value(in document: JSONValue) -> JSONValue? {
        var value = document
        for step in steps {
            switch (step, value) {
            case (.member(let name), .object(let members)):
                guard let member = members[name] else { return nil }
                value = member
            case (.element(let index), .array(let elements)):
                let index = index < 0 ? elements.count + index : index
                guard elements.indices.contains(index) else { return nil }
                value = elements[index]
            default: return nil
            }
        }
        return value
    }
}

extension JSONValue {
    /// Returns whether the value equals the text that a user wrote. Compares numbers by value, not by notation.
    func reads(as text: String) -> Bool {
        switch self {
        case .null: text == "null"
        case .bool(let flag): text == "\(flag)"
        case .integer(let integer): text == "\(integer)" || Double(text).flatMap(Int64.init(exactly:)) == integer
        case .number(let number): Double(text) == number
        case .string(let string): ExactText(string) == ExactText(text)
        case .array, .object: false
        }
    }
}
