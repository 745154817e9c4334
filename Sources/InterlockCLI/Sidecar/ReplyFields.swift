import Hiredis

/// The flat map that a sidecar answers with in RESP2: names and values by turns.
struct ReplyFields {
    private var values: [String: RedisReply] = [:]

    /// `nil` when the reply is none.
    init?(_ reply: RedisReply) {
        guard let elements = reply.array, elements.count.isMultiple(of: 2) else { return nil }
        for index in stride(from: 0, to: elements.count, by: 2) {
            guard let name = elements[index].text else { return nil }
            values[name] = elements[index + 1]
        }
    }

    func text(_ name: String) -> String? { values[name]?.text }

    func integer(_ name: String) -> Int64? { values[name]?.integer }

    /// Only numbers that JSON has.
    func number(_ name: String) -> Double? {
        text(name).flatMap(Double.init).flatMap { $0.isFinite ? $0 : nil }
    }
}
