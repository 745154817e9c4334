/// One reply from Redis, of any RESP2 type.
package enum RedisReply: Hashable, Sendable {
    /// A simple string such as `OK`.
    case status(String)
    /// A bulk string: any bytes.
    case bulk([UInt8])
    case integer(Int64)
    /// An array, nested up to the depth that hiredis supports.
    case array([RedisReply])
    case null
    /// An error reply. Inside an array, only that element failed.
    case error(RedisError)
}

extension RedisReply {
    /// The text of a status or bulk reply; bytes that are not UTF-8 are replaced.
    package var text: String? {
        switch self {
        case .status(let text): text
        case .bulk(let bytes): String(decoding: bytes, as: UTF8.self)
        case .integer, .array, .null, .error: nil
        }
    }

    /// The number of an integer reply, or of a text reply that is a decimal number.
    package var integer: Int64? {
        switch self {
        case .integer(let value): value
        case .bulk, .status: text.flatMap(Int64.init)
        case .array, .null, .error: nil
        }
    }

    /// The elements of an array reply.
    package var array: [RedisReply]? {
        if case .array(let elements) = self { elements } else { nil }
    }

    /// Returns the number in a reply to `command`.
    package func integer(for command: String) throws(RedisError) -> Int64 {
        guard let integer else { throw unexpected(for: command) }
        return integer
    }

    /// Decodes each element of a reply to `command`.
    package func elements<Element>(
        for command: String, _ decode: (RedisReply) -> Element?
    ) throws(RedisError) -> [Element] {
        let elements = array.map { $0.compactMap(decode) }
        guard let elements, elements.count == array?.count else { throw unexpected(for: command) }
        return elements
    }

    /// Returns the error for a reply that `command` cannot have.
    package func unexpected(for command: String) -> RedisError {
        if case .error(let error) = self { return error }
        return RedisError(.unexpectedReply, "\(command): Redis replied with an unexpected \(kind)")
    }

    /// The alternating names and values of an array; `nil` if the reply is not an array.
    package var fields: [String: String]? {
        guard let array else { return nil }
        var fields: [String: String] = [:]
        for index in stride(from: 0, to: array.count - 1, by: 2) {
            if let name = array[index].text, let value = array[index + 1].text { fields[name] = value }
        }
        return fields
    }

    private var kind: String {
        switch self {
        case .status: "status"
        case .bulk: "bulk string"
        case .integer: "integer"
        case .array: "array"
        case .null: "nil"
        case .error: "error"
        }
    }
}
