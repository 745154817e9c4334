/// Shortens a long series so that a browser can show it, without dropping extremes.
enum Thinning {
    /// The maximum number of points in a series.
    static let limit = 2000

    /// Returns the lowest and the highest point of each stretch of `points`, in their order. A stretch of gaps becomes
    /// one gap. O(n).
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

    /// Returns the heaviest element of each stretch of `elements`. O(n).
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
