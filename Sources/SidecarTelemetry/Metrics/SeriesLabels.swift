/// The labels of a series as written: `service="catalog",decision="taken"`.
struct SeriesLabels: Hashable, Comparable {
    let text: String

    init(_ dimensions: [(String, String)]) {
        var text = ""
        for (name, value) in dimensions {
            if !text.isEmpty { text += "," }
            text += "\(PrometheusText.labelName(name))=\"\(PrometheusText.labelValue(value))\""
        }
        self.text = text
    }

    static func < (left: SeriesLabels, right: SeriesLabels) -> Bool { left.text < right.text }
}
