import SidecarListeners

extension JSONValue {
    init(_ number: (some BinaryInteger)?) {
        self = number.map { .integer(Int64($0)) } ?? .null
    }

    init(_ text: String?) {
        self = text.map { .text($0) } ?? .null
    }

    init(_ texts: [String]) {
        self = .list(texts.map { .text($0) })
    }

    /// The value without members that are null, at any depth.
    var withoutNulls: JSONValue {
        switch self {
        case .object(let members): .object(members.filter { $0.value != .null }.mapValues(\.withoutNulls))
        case .list(let list): .list(list.map(\.withoutNulls))
        case .null, .flag, .integer, .number, .text: self
        }
    }
}
