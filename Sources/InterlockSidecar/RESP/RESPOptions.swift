internal import Interlock
internal import InterlockCore

/// Reads a command's words after its fixed arguments: `NAME value` pairs, each at most once.
struct RESPOptions {
    /// What a command may be given.
    enum Option: String, CaseIterable {
        case wait = "WAIT"
        case owner = "OWNER"
        case label = "LABEL"
        case cost = "COST"
        case subject = "SUBJECT"
        case match = "MATCH"
        case count = "COUNT"
        case latency = "LATENCY"
        case status = "STATUS"
        case retryAfter = "RETRYAFTER"
    }

    /// The longest time a client can name, in milliseconds: about 31 years.
    static let longestMilliseconds: Int64 = 1_000_000_000_000

    private let request: RESPRequest
    /// Where the value of each given option lies.
    private var places: [(option: Option, index: Int)] = []

    init(_ request: RESPRequest, from start: Int, allowed: [Option]) throws(InterlockError) {
        self.request = request
        var index = start
        while index < request.count {
            guard let option = allowed.first(where: { request.isWord(index, $0) }) else {
                let expected = allowed.map(\.rawValue).joined(separator: ", ")
                throw InterlockError(
                    .invalid, "unknown option \"\(request.text(index).prefix(64))\"; expected one of \(expected)")
            }
            guard !places.contains(where: { $0.option == option }) else {
                throw InterlockError(.invalid, "\(option.rawValue) is given twice")
            }
            guard index + 1 < request.count else { throw InterlockError(.invalid, "\(option.rawValue) has no value") }
            places.append((option, index + 1))
            index += 2
        }
    }

    func text(_ option: Option) -> String? {
        places.first { $0.option == option }.map { request.text($0.index) }
    }

    func name(_ option: Option) throws(InterlockError) -> String? {
        guard let text = text(option) else { return nil }
        return try Self.name(text, what: option.rawValue).text
    }

    func milliseconds(_ option: Option) throws(InterlockError) -> Int64? {
        try integer(option, in: 0...Self.longestMilliseconds)
    }

    func integer(_ option: Option, in range: ClosedRange<Int64>) throws(InterlockError) -> Int64? {
        guard let place = places.first(where: { $0.option == option }) else { return nil }
        return try Self.integer(request, place.index, what: option.rawValue, in: range)
    }

    static func integer(
        _ request: RESPRequest, _ index: Int, what: String, in range: ClosedRange<Int64>
    ) throws(InterlockError) -> Int64 {
        guard let value = request.integer(index), range.contains(value) else {
            throw InterlockError(
                .invalid,
                "\(what): expected a whole number from \(range.lowerBound) to \(range.upperBound), got \"\(request.text(index).prefix(64))\""
            )
        }
        return value
    }

    static func name(_ text: String, what: String) throws(InterlockError) -> ResourceName {
        do throws(ResourceName.Violation) {
            return try ResourceName(text)
        } catch {
            throw InterlockError(.invalid, "\(what): \(error)")
        }
    }
}

extension RESPRequest {
    fileprivate func isWord(_ index: Int, _ option: RESPOptions.Option) -> Bool {
        switch option {
        case .wait: isWord(index, "WAIT")
        case .owner: isWord(index, "OWNER")
        case .label: isWord(index, "LABEL")
        case .cost: isWord(index, "COST")
        case .subject: isWord(index, "SUBJECT")
        case .match: isWord(index, "MATCH")
        case .count: isWord(index, "COUNT")
        case .latency: isWord(index, "LATENCY")
        case .status: isWord(index, "STATUS")
        case .retryAfter: isWord(index, "RETRYAFTER")
        }
    }
}
