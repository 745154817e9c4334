internal import Glibc

/// The formats in which metrics are exposed.
package enum ExpositionFormat: Sendable {
    /// <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>
    case prometheus
    /// <https://prometheus.io/docs/specs/om/open_metrics_spec/>
    case openMetrics

    /// Chooses the format that an `Accept` field prefers.
    package init(accept: String?) {
        let ranges = (accept ?? "").lowercased().split(separator: ",").map { range in
            let words = range.split(separator: ";").map { $0.filter { $0 != " " && $0 != "\t" } }
            let quality = words.dropFirst().first { $0.hasPrefix("q=") }.flatMap { Double($0.dropFirst(2)) }
            return (type: words.first ?? "", quality: quality ?? 1)
        }
        func quality(_ type: String) -> Double { ranges.first { $0.type == type }?.quality ?? 0 }
        let openMetricsQuality = quality("application/openmetrics-text")
        self = openMetricsQuality > 0 && openMetricsQuality >= quality("text/plain") ? .openMetrics : .prometheus
    }

    package var mediaType: String {
        switch self {
        case .prometheus: "text/plain; version=0.0.4; charset=utf-8"
        case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
        }
    }
}
