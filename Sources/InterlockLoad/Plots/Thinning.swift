/// Leaves out so much of a long series that a browser can show it, and never what stands out.
enum Thinning {
    /// The most points that a series of a plot has.
    static let limit = 2000

    /// Of each stretch of `points` the lowest and the highest, in their order; a stretch of gaps is one gap. O(n).
    static func points(_ points: [PlotLine.Point], limit: Int = limit) -> [PlotLine.Point] {
        guard points.count > limit else { return points }
        return stretches(of: points, count: limit / 2).flatMap { stretch in
            let shown = stretch.indices.filter { stretch[$0].y.isFinite }
            guard let lowest = shown.min(by: { stretch[$0].y < stretch[$1].y }),
                let highest = shown.max(by: { stretch[$0].y < stretch[$1].y })
            else { return Array(stretch.prefix(1)) }
            return lowest == highest ? [stretch[lowest]] : [stretch[min(lowest, highest)], stretch[max(lowest, highest)]]
        }
    }

    /// Of each stretch of `elements` the one that weighs most. O(n).
    static func heaviest<Element>(
        _ elements: [Element], limit: Int = limit, by isLighter: (Element, Element) -> Bool
    ) -> [Element] {
        guard elements.count > limit else { return elements }
        return stretches(of: elements, count: limit).compactMap { $0.max(by: isLighter) }
    }

    private static func stretches<Element>(of elements: [Element], count: Int) -> [ArraySlice<Element>] {
        (0..<count).map { elements[elements.count * $0 / count..<elements.count * ($0 + 1) / count] }
    }
}
