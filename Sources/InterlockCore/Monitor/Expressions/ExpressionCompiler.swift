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
