/// What the `# TYPE` line says.
enum MetricKind: String {
    case counter
    case gauge
    case histogram
}

/// One series: a metric's name with one set of labels.
protocol PrometheusSeries: AnyObject, Sendable {
    /// How many lines with a value it comes to.
    var sampleCount: Int { get }

    /// Writes those lines.
    func appendSamples(name: String, labels: SeriesLabels, to text: inout String)
}

/// A series' labels as they are written: `service="catalog",decision="taken"`.
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
