import SidecarListeners

extension JSONValue {
    init(_ number: (some BinaryInteger)?) {
        self = number.map { .integer(Int64($0)) } ?? .null
    }

    init(_ text: String?) {
        self = text.map { .string($0) } ?? .null
    }

    init(_ texts: [String]) {
        self = .array(texts.map { .string($0) })
    }

    /// The value without members that are null, at any depth.
    var withoutNulls: JSONValue {
        switch self {
        case .object(let fields): .object(fields.filter { $0.value != .null }.mapValues(\.withoutNulls))
        case .array(let list): .array(list.map(\.withoutNulls))
        case .null, .bool, .integer, .number, .string: self
        }
    }
}
