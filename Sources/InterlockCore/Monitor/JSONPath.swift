/// A path to one value of a JSON document: a singular query of RFC 9535, such as `$.checks[0]['disk space'].status`.
package struct JSONPath: Hashable, Sendable {
    /// One step from a value to a value inside it.
    package enum Step: Hashable, Sendable {
        /// A member of an object.
        case member(String)
        /// An element of an array; a negative index counts from the end.
        case element(Int)
    }

    /// A syntax error in a path, with its position.
    package struct Violation: Error, Hashable, Sendable, CustomStringConvertible {
        package let description: String
    }

    /// The steps from the root of the document; empty for the root.
    package let steps: [Step]

    /// Parses a path.
    /// - Throws: `Violation` if the text is not a path, or is a path to several values (with wildcards, slices, filters
    ///   or `..`).
    package init(_ text: String) throws(Violation) {
        var reader = Reader(text: text)
        steps = try reader.path()
    }
}

extension JSONPath {
    private struct Reader {
        private let characters: [Character]
        private var index = 0

        init(text: String) {
            characters = Array(text)
        }

        mutating func path() throws(Violation) -> [Step] {
            guard take("$") else { throw violation("a path must start with $") }
            var steps: [Step] = []
            while let character = next() {
                switch character {
                case ".": steps.append(.member(try bareName()))
                case "[": steps.append(try bracketed())
                default: throw violation("expected . or [ before \"\(character)\"", at: index - 1)
                }
            }
            return steps
        }

        private mutating func bareName() throws(Violation) -> String {
            var name = ""
            while let character = peek, character.isLetter || character.isNumber || "_-".contains(character) {
                name.append(character)
                index += 1
            }
            guard !name.isEmpty else {
                throw violation(
                    "expected a name after the dot; put characters other than letters, digits, _ and - in ['…']")
            }
            return name
        }

        private mutating func bracketed() throws(Violation) -> Step {
            let step: Step
            switch peek {
            case "'", "\"": step = .member(try quotedName())
            default: step = .element(try number())
            }
            guard take("]") else { throw violation("expected ]") }
            return step
        }

        private mutating func quotedName() throws(Violation) -> String {
            let quote = next()
            var name = ""
            while let character = next() {
                switch character {
                case quote: return name
                case "\\":
                    guard let escaped = next(), escaped == quote || escaped == "\\" || escaped == "/" else {
                        throw violation("only quotes, \\ and / may follow a \\", at: index - 1)
                    }
                    name.append(escaped)
                default: name.append(character)
                }
            }
            throw violation("a quoted name has no closing quote")
        }

        private mutating func number() throws(Violation) -> Int {
            let start = index
            _ = take("-")
            while let character = peek, character.isASCII, character.isNumber { index += 1 }
            guard let number = Int(String(characters[start..<index])) else {
                throw violation("expected a number or a quoted name; a path must lead to a single value", at: start)
            }
            return number
        }

        private var peek: Character? { characters.indices.contains(index) ? characters[index] : nil }

        private mutating func next() -> Character? {
            guard let character = peek else { return nil }
            index += 1
            return character
        }

        private mutating func take(_ character: Character) -> Bool {
            guard peek == character else { return false }
            index += 1
            return true
        }

        private func violation(_ message: String, at position: Int? = nil) -> Violation {
            Violation(description: "\(message) (character \((position ?? index) + 1))")
        }
    }
}
