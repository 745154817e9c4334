/// The type of a metric in its `# TYPE` line.
enum MetricKind: String {
    case counter
    case gauge
    case histogram
}
