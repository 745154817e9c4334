/// A regular expression that is searched for in a time that grows with the text and not beyond it.
///
/// All its states advance together, one character of the text at a time (Thompson, "Regular Expression Search Algorithm", CACM
/// 11(6), 1968; Cox, "Regular Expression Matching: the Virtual Machine Approach", 2009). Nothing is ever tried again, so no
/// text that a service sends can keep it busy. That rules out references to groups, looking ahead or behind, and possessive
/// repetition; lazy repetition is understood and, as only finding counts, finds the same.
package struct RegularExpression: Hashable, Sendable {
    /// What a search came to.
    package enum Search: Hashable, Sendable {
        case found
        case notFound
        /// Given up: too many states were alive for too much of the text.
        case tooCostly
    }

    /// What is wrong with an expression, and where.
    package struct Violation: Error, Hashable, Sendable, CustomStringConvertible {
        package let description: String
    }

    /// The most states that an expression may have, repetitions written out.
    package static let mostStates = 1000
    /// The most steps of one search: a tenth of a second or less.
    package static let mostSteps = 8_000_000

    /// The expression as it was written.
    package let text: String
    private let program: [ExpressionInstruction]
    private let sets: [ScalarSet]

    /// - Throws: `Violation` for what is not an expression, and for syntax that cannot be searched for in bounded time.
    package init(_ text: String) throws(Violation) {
        self.text = text
        var parser = ExpressionParser(text: text)
        let compiled = try ExpressionCompiler(try parser.wholeExpression())
        program = compiled.program
        sets = compiled.sets
    }

    /// Whether it is found anywhere in `text`. O(n · m) in characters of the text and states, at most `mostSteps` steps.
    package func search(in text: String) -> Search {
        var states = ExpressionStates(count: program.count)
        var steps = 0
        var previous: Unicode.Scalar?
        var scalars = text.unicodeScalars.makeIterator()
        while true {
            let scalar = scalars.next()
            states.reached.append(0)
            guard !follow(&states, between: previous, and: scalar) else { return .found }
            guard let scalar else { return .notFound }
            steps += states.visited
            guard steps <= Self.mostSteps else { return .tooCostly }
            states.advance()
            for waiting in states.waiting where sets[waiting.set].contains(scalar) { states.reached.append(waiting.state + 1) }
            states.waiting.removeAll(keepingCapacity: true)
            previous = scalar
        }
    }

    /// Follows what needs no character from the states that were reached on.
    /// - Returns: whether the end of the expression was reached.
    private func follow(
        _ states: inout ExpressionStates, between previous: Unicode.Scalar?, and next: Unicode.Scalar?
    ) -> Bool {
        while let state = states.reached.popLast() {
            guard states.visit(state) else { continue }
            switch program[state] {
            case .take(let set): states.waiting.append((state, set))
            case .jump(let target): states.reached.append(target)
            case .split(let one, let other):
                states.reached.append(other)
                states.reached.append(one)
            case .check(let assertion):
                if assertion.holds(between: previous, and: next) { states.reached.append(state + 1) }
            case .end: return true
            }
        }
        return false
    }
}

/// The states that are alive at one place of the text, each once.
private struct ExpressionStates {
    /// Yet to be followed.
    var reached: [Int] = []
    /// Those that wait for a character of a set.
    var waiting: [(state: Int, set: Int)] = []
    private(set) var visited = 0
    /// By state: at which place it was last alive.
    private var places: [Int]
    private var place = 1

    init(count: Int) {
        places = Array(repeating: 0, count: count)
    }

    /// To the next place of the text.
    mutating func advance() {
        visited = 0
        place += 1
    }

    /// `false`: it is alive already.
    mutating func visit(_ state: Int) -> Bool {
        guard places[state] != place else { return false }
        places[state] = place
        visited += 1
        return true
    }
}

/// Turns a parsed expression into states.
struct ExpressionCompiler {
    private(set) var program: [ExpressionInstruction] = []
    /// The sets of characters that instructions name by number.
    private(set) var sets: [ScalarSet] = []

    /// - Throws: `Violation` when there would be more states than an expression may have; the work is bounded by that too.
    init(_ node: ExpressionNode) throws(RegularExpression.Violation) {
        try add(node)
        try add(.end)
    }

    private mutating func add(_ instruction: ExpressionInstruction) throws(RegularExpression.Violation) {
        guard program.count < RegularExpression.mostStates else {
            throw RegularExpression.Violation(
                description: "it has more than \(RegularExpression.mostStates) states, repetitions written out")
        }
        program.append(instruction)
    }

    private mutating func add(_ node: ExpressionNode) throws(RegularExpression.Violation) {
        switch node {
        case .empty: break
        case .scalar(let set):
            try add(.take(sets.count))
            sets.append(set)
        case .assertion(let assertion): try add(.check(assertion))
        case .sequence(let nodes):
            for node in nodes { try add(node) }
        case .alternatives(let nodes): try add(alternatives: nodes)
        case .repeated(let node, let least, let most): try add(node, least: least, most: most)
        }
    }

    private mutating func add(alternatives nodes: [ExpressionNode]) throws(RegularExpression.Violation) {
        var jumps: [Int] = []
        for node in nodes.dropLast() {
            let split = program.count
            try add(.split(split + 1, 0))
            try add(node)
            jumps.append(program.count)
            try add(.jump(0))
            program[split] = .split(split + 1, program.count)
        }
        if let last = nodes.last { try add(last) }
        for jump in jumps { program[jump] = .jump(program.count) }
    }

    private mutating func add(_ node: ExpressionNode, least: Int, most: Int?) throws(RegularExpression.Violation) {
        for _ in 0..<least {
            let start = program.count
            try add(node)
            // What takes no state need not be repeated, however often that is asked for.
            guard program.count > start else { return }
        }
        guard let most else {
            let split = program.count
            try add(.split(split + 1, 0))
            try add(node)
            try add(.jump(split))
            program[split] = .split(split + 1, program.count)
            return
        }
        var splits: [Int] = []
        for _ in least..<most {
            splits.append(program.count)
            try add(.split(program.count + 1, 0))
            try add(node)
        }
        for split in splits { program[split] = .split(split + 1, program.count) }
    }
}
