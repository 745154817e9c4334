extension JSONValue {
    /// The member of an object with this name; `nil` if there is none.
    package subscript(name: String) -> JSONValue? { if case .object(let fields) = self { fields[name] } else { nil } }

    /// Returns the object with this member added or replaced; `nil` removes it. Other values are returned unchanged.
    package func adding(_ name: String, _ value: JSONValue?) -> JSONValue {
        guard case .object(var fields) = self else { return self }
        fields[name] = value
        return .object(fields)
    }
}

extension Optional<JSONValue> {
    package subscript(name: String) -> JSONValue? { self?[name] }
    /// The value at a path of member names, joined by dots.
    package subscript(path path: String) -> JSONValue? { path.split(separator: ".").reduce(self) { $0[String($1)] } }
    package var text: String? { if case .string(let text) = self { text } else { nil } }
    package var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
    package var flag: Bool { self == .bool(true) }
    /// The elements of an array. An object counts as an array of itself; other values have no elements.
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
