/// One series: a metric's name with one set of labels.
protocol PrometheusSeries: AnyObject, Sendable {
    /// The number of lines with a value.
    var sampleCount: Int { get }

    /// Whether the series has a value to show.
    var isShown: Bool { get }

    /// Writes the lines with a value.
    func appendSamples(name: String, labels: SeriesLabels, to text: inout PrometheusText)
}

extension PrometheusSeries {
    var isShown: Bool { true }
}
