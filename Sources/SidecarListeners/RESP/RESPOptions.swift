internal import Interlock
package import InterlockCore

/// Parses the options after a command's fixed arguments: `NAME value` pairs, flags, and `NAME count value …` lists.
/// Each option may appear once.
package struct RESPOptions {
    /// The options of all commands.
    package enum Option: String, CaseIterable {
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
        case linked = "LINKED"
        case shared = "SHARED"
        case permits = "PERMITS"
        case also = "ALSO"
        case duration = "FOR"
        case reason = "REASON"
        case named = "NAMED"
        case name = "NAME"
        case search = "SEARCH"
        case cursor = "CURSOR"
        case from = "FROM"
        case traceparent = "TRACEPARENT"
        case descriptor = "DESCRIPTOR"
        case fence = "FENCE"
    }

    /// An option of the command, and the indices of its values.
    private struct PassedOption {
        var option: Option
        var values: Range<Int>
    }

    private let request: RESPRequest
    private var passed: [PassedOption] = []

    /// Parses the arguments from index `start`.
    /// - Throws: `InterlockError` if an option is not allowed, is repeated, or lacks a value.
    package init(_ request: RESPRequest, from start: Int, allowed: [Option]) throws(InterlockError) {
        self.request = request
        var index = start
        while index < request.count {
            guard let option = allowed.first(where: { request.isWord(index, $0) }) else {
                let expected = allowed.map(\.rawValue).joined(separator: ", ")
                throw InterlockError(
                    .invalid, "unknown option \"\(Excerpt(request.text(index)))\"; expected one of \(expected)")
            }
            guard !passed.contains(where: { $0.option == option }) else {
                throw InterlockError(.invalid, "duplicate option \(option.rawValue); pass it once")
            }
            let values = try Self.values(of: option, at: index + 1, in: request)
            passed.append(PassedOption(option: option, values: values))
            index = values.upperBound
        }
    }

    /// Returns the indices of an option's values, which begin at `start`.
    private static func values(of option: Option, at start: Int, in request: RESPRequest) throws(InterlockError) -> Range<Int> {
        switch option {
        case .linked, .shared, .named:
            return start..<start
        case .also:
            guard start < request.count else { throw InterlockError(.invalid, "ALSO has no count; usage: ALSO count name …") }
            let count = Int(try integer(request, start, parameter: "ALSO", in: 1...Int64(JointLockRequest.maximumCount - 1)))
            guard start + count < request.count else {
                throw InterlockError(
                    .invalid, "ALSO \(count): expected \(count) names, got \(request.count - start - 1)")
            }
            return (start + 1)..<(start + 1 + count)
        default:
            guard start < request.count else { throw InterlockError(.invalid, "\(option.rawValue) requires a value") }
            return start..<(start + 1)
        }
    }

    func has(_ option: Option) -> Bool { passed.contains { $0.option == option } }

    package func text(_ option: Option) -> String? {
        passed.first { $0.option == option }?.values.first.map(request.text)
    }

    /// Returns the names in a list; `nil` if the option is absent.
    package func names(_ option: Option) throws(InterlockError) -> [ResourceName]? {
        guard let entry = passed.first(where: { $0.option == option }) else { return nil }
        var names: [ResourceName] = []
        for index in entry.values { names.append(try Self.name(request.text(index), parameter: option.rawValue)) }
        return names
    }

    /// Returns the requested lock mode.
    package func lockMode() throws(InterlockError) -> LockMode {
        let slots = try integer(.permits, in: Int64(LockMode.slots.lowerBound)...Int64(LockMode.slots.upperBound))
        switch (has(.shared), slots) {
        case (true, .some): throw InterlockError(.invalid, "SHARED and PERMITS cannot be combined")
        case (true, nil): return .shared
        case (false, let slots?): return .permits(Int(slots))
        case (false, nil): return .exclusive
        }
    }

    package func name(_ option: Option) throws(InterlockError) -> String? {
        guard let text = text(option) else { return nil }
        return try Self.name(text, parameter: option.rawValue).text
    }

    /// Returns the TTL of a lease, in milliseconds. The usual mistake is a number with a unit, which the error
    /// explains.
    static func ttlMilliseconds(_ request: RESPRequest, _ index: Int) throws(InterlockError) -> Int64 {
        guard let milliseconds = request.integer(index) else {
            throw InterlockError(
                .invalid, "ttl-ms: expected milliseconds, such as 30000 for 30 s, got \"\(Excerpt(request.text(index)))\"")
        }
        guard (1...RequestLimits.maximumMilliseconds).contains(milliseconds) else {
            throw InterlockError(
                .invalid,
                "ttl-ms: expected milliseconds from 1 to \(RequestLimits.maximumMilliseconds), got \(milliseconds)")
        }
        return milliseconds
    }

    package func milliseconds(_ option: Option) throws(InterlockError) -> Int64? {
        try integer(option, in: 0...RequestLimits.maximumMilliseconds)
    }

    func integer(_ option: Option, in range: ClosedRange<Int64>) throws(InterlockError) -> Int64? {
        guard let index = passed.first(where: { $0.option == option })?.values.first else { return nil }
        return try Self.integer(request, index, parameter: option.rawValue, in: range)
    }

    static func integer(
        _ request: RESPRequest, _ index: Int, parameter: String, in range: ClosedRange<Int64>
    ) throws(InterlockError) -> Int64 {
        guard let value = request.integer(index), range.contains(value) else {
            throw InterlockError(
                .invalid,
                "\(parameter): expected a whole number from \(range.lowerBound) to \(range.upperBound), got \"\(Excerpt(request.text(index)))\""
            )
        }
        return value
    }

    static func name(_ text: String, parameter: String) throws(InterlockError) -> ResourceName {
        do throws(ResourceName.Violation) {
            return try ResourceName(text)
        } catch {
            throw InterlockError(.invalid, error.message(for: parameter))
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
        case .linked: isWord(index, "LINKED")
        case .shared: isWord(index, "SHARED")
        case .permits: isWord(index, "PERMITS")
        case .also: isWord(index, "ALSO")
        case .duration: isWord(index, "FOR")
        case .reason: isWord(index, "REASON")
        case .named: isWord(index, "NAMED")
        case .name: isWord(index, "NAME")
        case .search: isWord(index, "SEARCH")
        case .cursor: isWord(index, "CURSOR")
        case .from: isWord(index, "FROM")
        case .traceparent: isWord(index, "TRACEPARENT")
        case .descriptor: isWord(index, "DESCRIPTOR")
        case .fence: isWord(index, "FENCE")
        }
    }
}
