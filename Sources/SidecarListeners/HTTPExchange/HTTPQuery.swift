internal import InterlockCore
internal import SidecarSettings

/// The parameters of a request's query. Every parameter is known, and appears once.
package struct HTTPQuery: Sendable {
    private let values: [String: String]

    /// Parses a query, and decodes its percent-encoding once.
    /// - Throws: `HTTPProblem` if the query is malformed, repeats a parameter, or has an unknown one.
    package init(_ query: Substring?, knownNames: [String]) throws {
        var values: [String: String] = [:]
        for pair in (query ?? "").split(separator: "&") {
            let nameEnd = pair.firstIndex(of: "=") ?? pair.endIndex
            guard let name = PercentEncoding.decode(pair[..<nameEnd]),
                let value = PercentEncoding.decode(nameEnd < pair.endIndex ? pair[pair.index(after: nameEnd)...] : "")
            else { throw HTTPProblem(.invalid, "the query is not percent-encoded UTF-8") }
            guard knownNames.contains(name) else {
                let expected =
                    knownNames.isEmpty ? "this path has none" : "expected \(ConfigurationText.alternatives(knownNames))"
                throw HTTPProblem(.invalid, "unknown query parameter \"\(Excerpt(name))\"; \(expected)")
            }
            guard values.updateValue(value, forKey: name) == nil else {
                throw HTTPProblem(.invalid, "duplicate query parameter \(name); pass it once")
            }
        }
        self.values = values
    }

    package func text(_ name: String) -> String? { values[name] }

    /// Returns a flag: `true`, `false`, or the name alone for `true`. An absent flag is `false`.
    package func flag(_ name: String) throws -> Bool {
        switch values[name] {
        case nil, "false": return false
        case "", "true": return true
        case let text?: throw HTTPProblem(.invalid, "\(name): expected true or false, got \"\(Excerpt(text))\"")
        }
    }

    package func integer(_ name: String, in range: ClosedRange<Int64>) throws -> Int64? {
        guard let text = values[name] else { return nil }
        guard let integer = Int64(text), range.contains(integer) else {
            throw HTTPProblem(
                .invalid,
                "\(name): expected a whole number from \(range.lowerBound) to \(range.upperBound), got \"\(Excerpt(text))\"")
        }
        return integer
    }
}
