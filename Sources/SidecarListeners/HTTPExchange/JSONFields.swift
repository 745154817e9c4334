internal import InterlockCore
package import NIOCore

/// The fields of a request's body: a JSON object that may contain only known fields of the right type. `null` counts as
/// absent.
package struct JSONFields {
    /// The maximum nesting depth. An object of plain values has one level.
    private static let maximumDepth = 3

    private let values: [String: JSONValue]

    /// Reads a body. An empty body has no fields.
    /// - Throws: `HTTPProblem` if the body is not a JSON object, or has a field that is not known.
    package init(reading body: ByteBuffer, knownNames: [String]) throws {
        guard body.readableBytes > 0 else {
            values = [:]
            return
        }
        let document: JSONValue
        do {
            document = try JSONValue(reading: body.readableBytesView, maximumDepth: Self.maximumDepth)
        } catch {
            throw HTTPProblem(
                .invalid,
                "the body is not well-formed JSON, or nested deeper than \(Self.maximumDepth) levels; send one object with the fields "
                    + Self.list(knownNames))
        }
        guard case .object(let fields) = document else {
            throw HTTPProblem(
                .invalid, "the body is \(document.kind), not a JSON object with the fields \(Self.list(knownNames))")
        }
        if let unknown = fields.keys.sorted().first(where: { !knownNames.contains($0) }) {
            throw HTTPProblem(
                .invalid,
                "unknown field \"\(Excerpt(unknown))\"; expected \(ConfigurationText.alternatives(knownNames))")
        }
        values = fields.filter { $0.value != .null }
    }

    func integer(_ field: String, in range: ClosedRange<Int64>) throws -> Int64? {
        guard let value = values[field] else { return nil }
        guard case .integer(let integer) = value, range.contains(integer) else {
            throw HTTPProblem(
                .invalid,
                "\(field): expected a whole number from \(range.lowerBound) to \(range.upperBound), got \(value.kind)")
        }
        return integer
    }

    func requiredInteger(_ field: String, in range: ClosedRange<Int64>) throws -> Int64 {
        guard let integer = try integer(field, in: range) else {
            throw HTTPProblem(
                .invalid, "\(field) is missing; expected a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return integer
    }

    func text(_ field: String) throws -> String? {
        guard let value = values[field] else { return nil }
        guard case .string(let text) = value else {
            throw HTTPProblem(.invalid, "\(field): expected a string, got \(value.kind)")
        }
        return text
    }

    func requiredText(_ field: String) throws -> String {
        guard let text = try text(field) else { throw HTTPProblem(.invalid, "\(field) is missing; expected a string") }
        return text
    }

    /// Returns a string that must be a valid name.
    func name(_ field: String) throws -> String? {
        guard let text = try text(field) else { return nil }
        return try ResourceName(text, parameter: field).text
    }

    /// Returns an array of strings that must be valid names.
    func names(_ field: String) throws -> [ResourceName]? {
        guard let value = values[field] else { return nil }
        guard case .array(let list) = value else {
            throw HTTPProblem(.invalid, "\(field): expected an array of names, got \(value.kind)")
        }
        var names: [ResourceName] = []
        for (index, element) in list.enumerated() {
            guard case .string(let text) = element else {
                throw HTTPProblem(.invalid, "\(field)[\(index)]: expected a string, got \(element.kind)")
            }
            names.append(try ResourceName(text, parameter: "\(field)[\(index)]"))
        }
        return names
    }

    func flag(_ field: String) throws -> Bool? {
        guard let value = values[field] else { return nil }
        guard case .bool(let flag) = value else {
            throw HTTPProblem(.invalid, "\(field): expected true or false, got \(value.kind)")
        }
        return flag
    }

    /// Returns the case that a string names.
    func choice<Choice: RawRepresentable & CaseIterable>(_ field: String) throws -> Choice? where Choice.RawValue == String {
        guard let text = try text(field) else { return nil }
        guard let choice = Choice(rawValue: text) else {
            throw HTTPProblem(
                .invalid, "\(field): expected one of \(Self.list(of: Choice.self)), got \"\(Excerpt(text))\"")
        }
        return choice
    }

    func requiredChoice<Choice: RawRepresentable & CaseIterable>(_ field: String) throws -> Choice
    where Choice.RawValue == String {
        guard let choice: Choice = try choice(field) else {
            throw HTTPProblem(.invalid, "\(field) is missing; expected one of \(Self.list(of: Choice.self))")
        }
        return choice
    }

    private static func list<Choice: RawRepresentable & CaseIterable>(of choices: Choice.Type) -> String
    where Choice.RawValue == String {
        list(choices.allCases.map(\.rawValue))
    }

    private static func list(_ fields: [String]) -> String { fields.joined(separator: ", ") }
}

extension ResourceName {
    /// Creates the name in a request's parameter.
    /// - Throws: `HTTPProblem` if it is invalid. The problem's detail begins with `parameter`.
    package init(_ text: String, parameter: String) throws(HTTPProblem) {
        do throws(Violation) {
            try self.init(text)
        } catch {
            throw HTTPProblem(.invalid, error.message(for: parameter))
        }
    }
}
