/// A sorted set, ordered by score and then by member, byte by byte.
///
/// Lookups are O(1) and O(log n). Changes are O(n), because a simulation's sets are small.
struct SortedSet: Sendable {
    struct Element: Comparable, Sendable {
        var score: Double
        var member: Bytes

        static func < (left: Element, right: Element) -> Bool {
            left.score != right.score ? left.score < right.score : left.member < right.member
        }
    }

    private(set) var elements: [Element] = []
    private var scores: [Bytes: Double] = [:]

    var count: Int { elements.count }

    func score(of member: Bytes) -> Double? { scores[member] }

    func rank(of member: Bytes) -> Int? {
        scores[member].map { insertionIndex(of: Element(score: $0, member: member)) }
    }

    /// Returns the element's index, or the index at which to insert it.
    private func insertionIndex(of element: Element) -> Int { firstIndex { $0 >= element } }

    private func firstIndex(where isReached: (Element) -> Bool) -> Int {
        var low = 0
        var high = elements.count
        while low < high {
            let middle = (low + high) / 2
            if isReached(elements[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    mutating func set(_ member: Bytes, to score: Double) {
        // The compact encoding of Redis has no -0.
        let score = score == 0 ? 0 : score
        if let old = scores[member] {
            guard old != score else { return }
            elements.remove(at: insertionIndex(of: Element(score: old, member: member)))
        }
        scores[member] = score
        let element = Element(score: score, member: member)
        elements.insert(element, at: insertionIndex(of: element))
    }

    /// Removes a member. Returns whether it existed.
    mutating func remove(_ member: Bytes) -> Bool {
        guard let score = scores.removeValue(forKey: member) else { return false }
        elements.remove(at: insertionIndex(of: Element(score: score, member: member)))
        return true
    }

    mutating func remove(_ range: Range<Int>) {
        for element in elements[range] { scores[element.member] = nil }
        elements.removeSubrange(range)
    }

    /// Returns the indices of the elements whose scores lie between two bounds.
    func positions(from low: ScoreBound, to high: ScoreBound) -> Range<Int> {
        let start = firstIndex { low.isExclusive ? $0.score > low.score : $0.score >= low.score }
        let end = firstIndex { high.isExclusive ? $0.score >= high.score : $0.score > high.score }
        return start..<max(start, end)
    }
}

/// One end of a range of scores, such as `5`, `(5` or `-inf`.
struct ScoreBound {
    var score: Double
    var isExclusive: Bool
}
