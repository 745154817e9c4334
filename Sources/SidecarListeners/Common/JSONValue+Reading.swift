extension JSONValue {
    package subscript(name: String) -> JSONValue? { if case .object(let members) = self { members[name] } else { nil } }

    /// Returns the object with one more member.
    package func adding(_ name: String, _ value: JSONValue?) -> JSONValue {
        guard case .object(var members) = self else { return self }
        members[name] = value
        return .object(members)
    }
}

extension Optional<JSONValue> {
    package subscript(name: String) -> JSONValue? { self?[name] }
    /// The value at the end of names that are joined by dots.
    package subscript(path path: String) -> JSONValue? { path.split(separator: ".").reduce(self) { $0[String($1)] } }
    package var text: String? { if case .text(let text) = self { text } else { nil } }
    package var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
    package var flag: Bool { self == .flag(true) }
    /// The elements of a list. An object is its own only element.
    package var list: [JSONValue] {
        switch self {
        case .list(let list): list
        case .object(let members): [.object(members)]
        default: []
        }
    }

    package var number: Double? {
        switch self {
        case .number(let value): value
        case .integer(let value): Double(value)
        default: nil
        }
    }
}
