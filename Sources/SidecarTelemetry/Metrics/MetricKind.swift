/// What the `# TYPE` line says.
enum MetricKind: String {
    case counter
    case gauge
    case histogram
}
