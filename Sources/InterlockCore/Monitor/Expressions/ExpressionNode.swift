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

/// A set of Unicode scalars, as ranges in order.
struct ScalarSet: Hashable, Sendable {
    private(set) var ranges: [ClosedRange<UInt32>]

    private static let last: UInt32 = 0x10FFFF

    init(_ ranges: [ClosedRange<UInt32>]) {
        self.ranges = []
        for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let open = self.ranges.last, range.lowerBound <= open.upperBound {
                self.ranges[self.ranges.count - 1] = open.lowerBound...max(open.upperBound, range.upperBound)
            } else {
                self.ranges.append(range)
            }
        }
    }

    init(_ scalar: Unicode.Scalar) {
        ranges = [scalar.value...scalar.value]
    }

    static let digit = ScalarSet([0x30...0x39])
    static let word = ScalarSet([0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A])
    /// Blank, tab, line feed, vertical tab, form feed, carriage return.
    static let space = ScalarSet([0x09...0x0D, 0x20...0x20])
    /// All but the line feed.
    static let anyOfLine = ScalarSet([0x0A...0x0A]).inverted

    /// O(log n) in ranges: a step of a search must not cost more the longer a class is.
    func contains(_ scalar: Unicode.Scalar) -> Bool {
        var candidates = ranges[...]
        while !candidates.isEmpty {
            let middle = candidates.startIndex + candidates.count / 2
            let range = candidates[middle]
            if range.contains(scalar.value) { return true }
            candidates = scalar.value < range.lowerBound ? candidates[..<middle] : candidates[(middle + 1)...]
        }
        return false
    }

    /// Everything else.
    var inverted: ScalarSet {
        var gaps: [ClosedRange<UInt32>] = []
        var next: UInt32 = 0
        for range in ranges {
            if range.lowerBound > next { gaps.append(next...(range.lowerBound - 1)) }
            next = range.upperBound + 1
        }
        if next <= Self.last { gaps.append(next...Self.last) }
        return ScalarSet(gaps)
    }

    /// With the other case of each ASCII letter.
    var caseFolded: ScalarSet {
        let distance: UInt32 = 0x20
        var folded = ranges
        for range in ranges {
            if range.overlaps(0x41...0x5A) {
                let letters = range.clamped(to: 0x41...0x5A)
                folded.append((letters.lowerBound + distance)...(letters.upperBound + distance))
            }
            if range.overlaps(0x61...0x7A) {
                let letters = range.clamped(to: 0x61...0x7A)
                folded.append((letters.lowerBound - distance)...(letters.upperBound - distance))
            }
        }
        return ScalarSet(folded)
    }
}
