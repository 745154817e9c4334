/// Shortens long series so that a browser can show them. Keeps the extremes.
enum Thinning {
    /// The maximum number of points in a series.
    static let limit = 2000

    /// Divides `points` into intervals, and returns the lowest and the highest point of each, in their order. An
    /// interval of gaps becomes one gap. O(n).
    static func points(_ points: [PlotLine.Point], limit: Int = limit) -> [PlotLine.Point] {
        guard points.count > limit else { return points }
        return intervals(of: points, count: limit / 2).flatMap { interval in
            let finiteIndices = interval.indices.filter { interval[$0].y.isFinite }
            guard let lowest = finiteIndices.min(by: { interval[$0].y < interval[$1].y }),
                let highest = finiteIndices.max(by: { interval[$0].y < interval[$1].y })
            else { return Array(interval.prefix(1)) }
            guard lowest != highest else { return [interval[lowest]] }
            return [interval[min(lowest, highest)], interval[max(lowest, highest)]]
        }
    }

    /// Divides `elements` into intervals, and returns the heaviest element of each. O(n).
    static func heaviest<Element>(
        _ elements: [Element], limit: Int = limit, by isLighter: (Element, Element) -> Bool
    ) -> [Element] {
        guard elements.count > limit else { return elements }
        return intervals(of: elements, count: limit).compactMap { $0.max(by: isLighter) }
    }

    private static func intervals<Element>(of elements: [Element], count: Int) -> [ArraySlice<Element>] {
        (0..<count).map { elements[elements.count * $0 / count..<elements.count * ($0 + 1) / count] }
    }
}
