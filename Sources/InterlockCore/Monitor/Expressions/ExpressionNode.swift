/// A parsed regular expression.
indirect enum ExpressionNode {
    case empty
    case scalar(ScalarSet)
    case assertion(ExpressionAssertion)
    case sequence([ExpressionNode])
    case alternatives([ExpressionNode])
    /// `most`: `nil` without end.
    case repeated(ExpressionNode, least: Int, most: Int?)
}

/// One state of a compiled expression. Those that are passed lead to the state behind them.
enum ExpressionInstruction: Hashable, Sendable {
    /// Passed with a character of the set of this number.
    case take(Int)
    /// Passed without one, where the assertion holds.
    case check(ExpressionAssertion)
    case jump(Int)
    case split(Int, Int)
    case end
}

/// What holds between two characters.
enum ExpressionAssertion: Hashable, Sendable {
    case beginning
    case end
    case wordBoundary
    case noWordBoundary

    /// - Parameters: the characters on both sides; `nil`: the text begins or ends there.
    func holds(between previous: Unicode.Scalar?, and next: Unicode.Scalar?) -> Bool {
        switch self {
        case .beginning: previous == nil
        case .end: next == nil
        case .wordBoundary: Self.isWord(previous) != Self.isWord(next)
        case .noWordBoundary: Self.isWord(previous) == Self.isWord(next)
        }
    }

    private static func isWord(_ scalar: Unicode.Scalar?) -> Bool {
        scalar.map(ScalarSet.word.contains) ?? false
    }
}
