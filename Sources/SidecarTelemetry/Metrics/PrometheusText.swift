internal import InterlockCore

/// A writer of an exposition, which formats names, labels and numbers.
struct PrometheusText {
    private let format: ExpositionFormat
    private(set) var text = ""

    init(_ format: ExpositionFormat) {
        self.format = format
    }

    /// Returns `text` with `_` for every character that a metric's name may not contain.
    static func metricName(_ text: String) -> String {
        sanitized(text) { $0 == ":" }
    }

    /// Returns `text` with `_` for every character that a label's name may not contain. Replaces `le`, which is
    /// reserved for histograms.
    static func labelName(_ text: String) -> String {
        text == "le" ? "exported_le" : sanitized(text) { _ in false }
    }

    /// Returns a label's value with backslashes, quotes and line feeds escaped.
    static func labelValue(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\"": escaped += "\\\""
            case "\n": escaped += "\\n"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    static func number(_ value: Double) -> String {
        switch value {
        case .infinity: "+Inf"
        case -.infinity: "-Inf"
        case _ where value.isNaN: "NaN"
        default: Int64(exactly: value).map { "\($0)" } ?? "\(value)"
        }
    }

    mutating func appendHeader(name: String, kind: MetricKind) {
        let (family, type) = format == .openMetrics ? Self.openMetricsFamily(name, kind) : (name, kind.rawValue)
        text += "# HELP \(family) \(MetricHelp.text(of: name))\n# TYPE \(family) \(type)\n"
    }

    /// Returns the name and the type of a family in OpenMetrics. The name has no suffix, and metrics whose information
    /// is in their labels have the type `info`.
    private static func openMetricsFamily(_ name: String, _ kind: MetricKind) -> (name: String, type: String) {
        switch kind {
        case .counter where name.hasSuffix("_total"): (String(name.dropLast("_total".count)), "counter")
        case .counter: (name, "unknown")
        case .gauge where name.hasSuffix("_info"): (String(name.dropLast("_info".count)), "info")
        case .gauge, .histogram: (name, kind.rawValue)
        }
    }

    mutating func appendEnd() {
        if format == .openMetrics { text += "# EOF\n" }
    }

    /// Returns the upper bound of a bucket, with a decimal point in OpenMetrics.
    private func bound(_ value: Double) -> String {
        // Swift would write this number with an exponent.
        let number = value < 0.0001 ? "0.00005" : Self.number(value)
        return format == .openMetrics && value.isFinite && !number.contains(".") ? number + ".0" : number
    }

    mutating func appendSample(
        name: String, suffix: String = "", labels: SeriesLabels, bucket: Double? = nil, value: String,
        exemplar: Exemplar? = nil
    ) {
        text += name
        text += suffix
        let bucketLabel = bucket.map { "le=\"\(bound($0))\"" }
        let allLabels = [labels.text, bucketLabel ?? ""].filter { !$0.isEmpty }.joined(separator: ",")
        if !allLabels.isEmpty { text += "{\(allLabels)}" }
        text += " \(value)"
        if let exemplar, format == .openMetrics {
            text += " # {trace_id=\"\(exemplar.trace.text)\"} \(Self.number(Double(exemplar.nanoseconds) / 1e9))"
        }
        text += "\n"
    }

    /// Returns `text` with `_` for every character that is not allowed.
    private static func sanitized(_ text: String, _ isAlsoAllowed: (Unicode.Scalar) -> Bool) -> String {
        var name = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "a"..."z", "A"..."Z", "_": name.unicodeScalars.append(scalar)
            case "0"..."9" where name.isEmpty: name += "_\(scalar)"
            case "0"..."9": name.unicodeScalars.append(scalar)
            default: name += isAlsoAllowed(scalar) ? String(Character(scalar)) : "_"
            }
        }
        return name.isEmpty ? "_" : name
    }
}
