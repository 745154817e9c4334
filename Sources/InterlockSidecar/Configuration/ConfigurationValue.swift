import InterlockCore
import Yams

/// One value of the file with its place. Its readers return what was meant, or report what is wrong and return `nil`.
struct ConfigurationValue {
    let node: Node
    /// Where it stands, as `services.catalog.limits[0]`; empty for the whole file.
    let path: String
    let findings: ConfigurationFindings
    /// What stands here may be a secret: messages do not repeat it.
    private(set) var isConcealed = false

    init(node: Node, path: String, findings: ConfigurationFindings) {
        self.node = node
        self.path = path
        self.findings = findings
    }

    /// The same value; messages do not repeat what it says.
    func concealed() -> ConfigurationValue {
        var copy = self
        copy.isConcealed = true
        return copy
    }

    var place: ConfigurationProblem.Place { .file(findings.fileName, line: node.mark?.line) }

    /// Reports a mistake at this value.
    func refuse(_ message: String) {
        findings.refuse(at: place, path: path.isEmpty ? nil : path, message)
    }

    /// Reports that something else was expected here.
    func refuse(expected expectation: ConfigurationExpectation) {
        refuse(expectation.message(got: shown))
    }

    /// What stands here, for a message.
    private var shown: String {
        switch node {
        case .mapping: "a mapping"
        case .sequence: "a list"
        case .alias: "an alias"
        case .scalar where isNull: "nothing"
        case .scalar where isConcealed: "another text (not shown, as it may be a secret)"
        case .scalar(let scalar):
            scalar.style == .plain && scalar.string.first?.isNumber == true ? Self.cut(scalar.string) : Self.quoted(scalar.string)
        }
    }

    /// Whether nothing was said: `null`, `~` or an empty value.
    var isNull: Bool {
        guard case .scalar(let scalar) = node, scalar.style == .plain else { return false }
        return ["", "~", "null"].contains(scalar.string)
    }

    /// A value inside of this one.
    func child(_ node: Node, _ step: String) -> ConfigurationValue {
        ConfigurationValue(node: node, path: path + step, findings: findings)
    }
}

extension ConfigurationValue {
    /// A value in a message: in quotes, not too long, without a password.
    static func quoted(_ text: String) -> String { "\"\(cut(masked(text)))\"" }

    /// What may be a password in a URL is replaced: all between `//` and the last `@`, and the query.
    static func masked(_ text: String) -> String {
        let scheme = text.firstRange(of: "://")
        let start = scheme?.upperBound ?? text.startIndex
        var rest = text[start...]
        var mask = ""
        if let at = rest.lastIndex(of: "@") {
            rest = rest[at...]
            mask = "***"
        }
        if scheme != nil, let query = rest.firstIndex(of: "?") { rest = rest[..<query] + "?***" }
        return text[..<start] + mask + rest
    }

    static func cut(_ text: String) -> String { Excerpt(text, length: 80).description }
}
