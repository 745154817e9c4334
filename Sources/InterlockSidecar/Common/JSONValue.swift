package import FoundationEssentials

/// A value of a JSON document.
package enum JSONValue: Codable, Hashable, Sendable {
    case null
    case flag(Bool)
    case integer(Int64)
    case number(Double)
    case text(String)
    case list([JSONValue])
    case object([String: JSONValue])

    /// Reads a document that is nested no deeper than that. What a decoder does for a value grows with its depth, and the
    /// values may be many: what is deeper is refused before anything is decoded. O(n).
    package init(reading document: some Collection<UInt8>, deepest: Int) throws {
        var depth = 0
        var isText = false
        var isEscaped = false
        for byte in document {
            switch byte {
            case _ where isEscaped: isEscaped = false
            case UInt8(ascii: "\\") where isText: isEscaped = true
            case UInt8(ascii: "\""): isText.toggle()
            case _ where isText: break
            case UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            default: break
            }
            guard depth <= deepest else {
                throw DecodingError.dataCorrupted(
                    .init(codingPath: [], debugDescription: "nested more than \(deepest) deep"))
            }
        }
        self = try JSONDecoder().decode(JSONValue.self, from: Data(document))
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
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

extension Encodable {
    /// As JSON on one line, in the form in which all of this door's answers and events have it.
    package func json() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(self)
    }
}
