/// One series: a metric's name with one set of labels.
protocol PrometheusSeries: AnyObject, Sendable {
    /// How many lines with a value it comes to.
    var sampleCount: Int { get }

    /// There is something to show.
    var isShown: Bool { get }

    /// Writes those lines.
    func appendSamples(name: String, labels: SeriesLabels, to text: inout PrometheusText)
}

extension PrometheusSeries {
    var isShown: Bool { true }
}
