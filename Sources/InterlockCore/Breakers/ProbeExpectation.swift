/// The conditions for a successful response to an HTTP probe, all of which must hold.
package struct ProbeExpectation: Hashable, Sendable {
    /// A condition on the body, checked on its first `inspectedBytes`.
    package enum Body: Hashable, Sendable {
        case contains(String)
        /// The text of the value at a path of the JSON document; see `JSONPath`.
        case json(path: String, equals: String)
    }

    /// A header that the response must have, with its value.
    package struct Header: Hashable, Sendable {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// The number of bytes at the start of a body that conditions apply to.
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
