extension JSONValue {
    package subscript(name: String) -> JSONValue? { if case .object(let fields) = self { fields[name] } else { nil } }

    /// Returns the object with one more member.
    package func adding(_ name: String, _ value: JSONValue?) -> JSONValue {
        guard case .object(var fields) = self else { return self }
        fields[name] = value
        return .object(fields)
    }
}

extension Optional<JSONValue> {
    package subscript(name: String) -> JSONValue? { self?[name] }
    /// The value at the end of names that are joined by dots.
    package subscript(path path: String) -> JSONValue? { path.split(separator: ".").reduce(self) { $0[String($1)] } }
    package var text: String? { if case .string(let text) = self { text } else { nil } }
    package var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
    package var flag: Bool { self == .bool(true) }
    /// The elements of a list. An object is its own only element.
    package var list: [JSONValue] {
        switch self {
        case .array(let list): list
        case .object(let fields): [.object(fields)]
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
