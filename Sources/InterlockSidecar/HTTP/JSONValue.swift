/// A value of a JSON document.
package enum JSONValue: Codable, Hashable, Sendable {
    case null
    case flag(Bool)
    case integer(Int64)
    case number(Double)
    case text(String)
    case list([JSONValue])
    case object([String: JSONValue])

    /// What a decoder does for a value grows with its depth, and the values may be many: without a bound, 64 KiB keep it busy for a
    /// minute.
    package static let deepest = 32

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard decoder.codingPath.count <= Self.deepest else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "nested more than \(Self.deepest) deep")
        }
        if container.decodeNil() {
            self = .null
        } else if let text = try? container.decode(String.self) {
            self = .text(text)
        } else if let flag = try? container.decode(Bool.self) {
            self = .flag(flag)
        } else if let integer = try? container.decode(Int64.self) {
            self = .integer(integer)
        } else if let number = try? container.decode(Double.self) {
            self = .number(number)
        } else if let list = try? container.decode([JSONValue].self) {
            self = .list(list)
        } else {
            self = .object(try container.decode([String: JSONValue].self))
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .flag(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .text(let value): try container.encode(value)
        case .list(let value): try container.encode(value)
        case .object(let value): try container.encode(value)
        }
    }

    /// What it is, for a person who sent something else.
    var kind: String {
        switch self {
        case .null: "null"
        case .flag: "true or false"
        case .integer(let value): "\(value)"
        case .number(let value): "\(value)"
        case .text: "a string"
        case .list: "an array"
        case .object: "an object"
        }
    }
}
