/// Reads a regular expression: what Perl's have in common with POSIX', as far as it can be searched for in bounded time.
struct ExpressionParser {
    typealias Violation = RegularExpression.Violation

    private let scalars: [Unicode.Scalar]
    private var index = 0
    private var isCaseFolded = false
    private var depth = 0

    private static let deepest = 50
    private static let mostRepetitions = 1000
    private static let syntax: [Unicode.Scalar] = Array("\\.[]{}()|*+?^$/-\"'#&~`!@%=:;,<>_ ".unicodeScalars)

    init(text: String) {
        scalars = Array(text.unicodeScalars)
    }

    mutating func wholeExpression() throws(Violation) -> ExpressionNode {
        if take("(?i)") { isCaseFolded = true }
        let node = try alternatives()
        guard peek == nil else { throw violation("a ) without its (") }
        return node
    }

    private mutating func alternatives() throws(Violation) -> ExpressionNode {
        var nodes = [try sequence()]
        while take("|") { nodes.append(try sequence()) }
        return nodes.count == 1 ? nodes[0] : .alternatives(nodes)
    }

    private mutating func sequence() throws(Violation) -> ExpressionNode {
        var nodes: [ExpressionNode] = []
        while let scalar = peek, scalar != "|", scalar != ")" { nodes.append(try repeated(try atom())) }
        return nodes.isEmpty ? .empty : .sequence(nodes)
    }

    private mutating func atom() throws(Violation) -> ExpressionNode {
        let start = index
        guard let scalar = next() else { return .empty }
        switch scalar {
        case "(": return try group()
        case "[": return .scalar(try characterClass())
        case "\\": return try escaped()
        case ".": return .scalar(.anyOfLine)
        case "^": return .assertion(.beginning)
        case "$": return .assertion(.end)
        case "*", "+", "?": throw violation("nothing is repeated by \(scalar)", at: start)
        default: return .scalar(literal(scalar))
        }
    }

    private mutating func group() throws(Violation) -> ExpressionNode {
        if take("?"), !take(":") {
            throw violation("of the groups that begin with (? only (?:…) is known, and (?i) at the very beginning")
        }
        depth += 1
        defer { depth -= 1 }
        guard depth <= Self.deepest else { throw violation("groups are nested more than \(Self.deepest) deep") }
        let node = try alternatives()
        guard take(")") else { throw violation("a ( without its )") }
        return node
    }

    // MARK: Repetition

    private mutating func repeated(_ node: ExpressionNode) throws(Violation) -> ExpressionNode {
        let start = index
        guard let counts = try repetition() else { return node }
        if case .assertion = node { throw violation("an assertion cannot be repeated", at: start) }
        // Lazy or not, it is found or it is not.
        _ = take("?")
        let behind = index
        if peek == "+" { throw violation("possessive repetition is not known") }
        guard try repetition() == nil else {
            throw violation("a repetition of a repetition; put a group around the first", at: behind)
        }
        return .repeated(node, least: counts.least, most: counts.most)
    }

    private mutating func repetition() throws(Violation) -> (least: Int, most: Int?)? {
        if take("*") { return (0, nil) }
        if take("+") { return (1, nil) }
        if take("?") { return (0, 1) }
        let start = index
        guard take("{") else { return nil }
        guard let least = number() else {
            // As most do: a brace that does not count is itself.
            index = start
            return nil
        }
        let most = take(",") ? number() : least
        guard take("}") else { throw violation("expected {m}, {m,} or {m,n}", at: start) }
        guard max(least, most ?? least) <= Self.mostRepetitions else {
            throw violation("at most \(Self.mostRepetitions) repetitions can be counted", at: start)
        }
        guard least <= most ?? least else { throw violation("the first number of a repetition is the higher one", at: start) }
        return (least, most)
    }

    private mutating func number() -> Int? {
        var digits = ""
        while let scalar = peek, ScalarSet.digit.contains(scalar) {
            digits.unicodeScalars.append(scalar)
            index += 1
        }
        return digits.isEmpty ? nil : Int(digits) ?? .max
    }

    // MARK: Characters

    private func literal(_ scalar: Unicode.Scalar) -> ScalarSet {
        isCaseFolded ? ScalarSet(scalar).caseFolded : ScalarSet(scalar)
    }

    /// Behind a backslash, outside of a class.
    private mutating func escaped() throws(Violation) -> ExpressionNode {
        let assertions: [Unicode.Scalar: ExpressionAssertion] = [
            "b": .wordBoundary, "B": .noWordBoundary, "A": .beginning, "z": .end,
        ]
        if let scalar = peek, let assertion = assertions[scalar] {
            index += 1
            return .assertion(assertion)
        }
        let (set, single) = try escapedSet()
        return .scalar(single.map(literal) ?? set)
    }

    /// Behind a backslash; `single` when it is one character.
    private mutating func escapedSet() throws(Violation) -> (set: ScalarSet, single: Unicode.Scalar?) {
        let start = index
        guard let scalar = next() else { throw violation("nothing behind a \\", at: start) }
        switch scalar {
        case "d": return (.digit, nil)
        case "D": return (ScalarSet.digit.inverted, nil)
        case "w": return (.word, nil)
        case "W": return (ScalarSet.word.inverted, nil)
        case "s": return (.space, nil)
        case "S": return (ScalarSet.space.inverted, nil)
        case "n": return (ScalarSet("\n"), "\n")
        case "r": return (ScalarSet("\r"), "\r")
        case "t": return (ScalarSet("\t"), "\t")
        case "f": return (ScalarSet("\u{0C}"), "\u{0C}")
        case "1"..."9": throw violation("references to groups cannot be searched for in bounded time", at: start)
        default:
            guard Self.syntax.contains(scalar) else { throw violation("\\\(scalar) is not known", at: start) }
            return (ScalarSet(scalar), scalar)
        }
    }

    /// Behind a bracket that opens.
    private mutating func characterClass() throws(Violation) -> ScalarSet {
        let start = index - 1
        let isInverted = take("^")
        var ranges: [ClosedRange<UInt32>] = []
        var isClosed = false
        while let scalar = next() {
            guard scalar != "]" else {
                isClosed = true
                break
            }
            let first = try member(scalar)
            guard let lower = first.single, peek == "-", let upper = peek(1), upper != "]" else {
                ranges += first.set.ranges
                continue
            }
            index += 1
            let end = try next().flatMap { scalar throws(Violation) in try member(scalar).single }
            guard let end, lower <= end else { throw violation("not a range of characters, lower one first", at: start) }
            ranges.append(lower.value...end.value)
        }
        guard isClosed else { throw violation("a [ without its ]", at: start) }
        guard !ranges.isEmpty else { throw violation("a class of no characters; a ] in it is written \\]", at: start) }
        let set = isCaseFolded ? ScalarSet(ranges).caseFolded : ScalarSet(ranges)
        return isInverted ? set.inverted : set
    }

    private mutating func member(_ scalar: Unicode.Scalar) throws(Violation) -> (set: ScalarSet, single: Unicode.Scalar?) {
        if scalar == "\\" { return try escapedSet() }
        if scalar == "[" { throw violation("a [ in a class is written \\[; named classes are not known", at: index - 1) }
        return (ScalarSet(scalar), scalar)
    }

    // MARK: The text

    private var peek: Unicode.Scalar? { peek(0) }

    private func peek(_ distance: Int) -> Unicode.Scalar? {
        scalars.indices.contains(index + distance) ? scalars[index + distance] : nil
    }

    private mutating func next() -> Unicode.Scalar? {
        guard let scalar = peek else { return nil }
        index += 1
        return scalar
    }

    private mutating func take(_ text: String) -> Bool {
        guard scalars[index...].starts(with: text.unicodeScalars) else { return false }
        index += text.unicodeScalars.count
        return true
    }

    private func violation(_ text: String, at place: Int? = nil) -> Violation {
        Violation(description: "\(text) (character \((place ?? index) + 1))")
    }
}
