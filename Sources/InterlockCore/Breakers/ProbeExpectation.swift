/// What a good answer to an HTTP probe looks like: all that is said must hold.
package struct ProbeExpectation: Hashable, Sendable {
    /// What the body must have; judged on its first `inspectedBytes`.
    package enum Body: Hashable, Sendable {
        case contains(String)
        /// The value at a path of JSON (RFC 9535's dots and brackets with names and numbers), as text.
        case json(path: String, equals: String)
    }

    /// A header that must be there, with this value.
    package struct Header: Hashable, Sendable {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// How much of a body is looked at.
    package static let inspectedBytes = 64 * 1024

    package var statuses: StatusSet
    package var headers: [Header]
    package var body: [Body]

    package init(statuses: StatusSet = StatusSet(200...399), headers: [Header] = [], body: [Body] = []) {
        self.statuses = statuses
        self.headers = headers
        self.body = body
    }
}

extension ProbeExpectation: DigestedSetting {
    package var digestedParts: Parts { [("statuses", statuses), ("headers", headers), ("body", body)] }
}
