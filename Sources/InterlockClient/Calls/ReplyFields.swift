internal import RedisClient

/// The flat map of a sidecar's RESP2 reply: alternating names and values.
struct ReplyFields {
    private var values: [String: RedisReply] = [:]

    /// Decodes a map. Returns `nil` if the reply is not a map.
    init?(_ reply: RedisReply) {
        guard let elements = reply.array, elements.count.isMultiple(of: 2) else { return nil }
        for index in stride(from: 0, to: elements.count, by: 2) {
            guard let name = elements[index].text else { return nil }
            values[name] = elements[index + 1]
        }
    }

    func reply(_ name: String) -> RedisReply? { values[name] }

    func text(_ name: String) -> String? { values[name]?.text }

    /// Returns the texts of a list, or an empty list if the field is missing.
    func texts(_ name: String) -> [String] { values[name]?.array?.compactMap(\.text) ?? [] }

    func integer(_ name: String) -> Int64? { values[name]?.integer }

    /// Returns a count, or 0 if the field is missing.
    func count(_ name: String) -> Int { Int(clamping: integer(name) ?? 0) }

    /// Returns the elements of a list, or an empty list if the field is missing.
    func array(_ name: String) -> [RedisReply] { values[name]?.array ?? [] }

    /// Returns a number; `nil` if the field is missing or not finite. JSON cannot represent numbers that are not
    /// finite.
    func number(_ name: String) -> Double? {
        text(name).flatMap(Double.init).flatMap { $0.isFinite ? $0 : nil }
    }
}
