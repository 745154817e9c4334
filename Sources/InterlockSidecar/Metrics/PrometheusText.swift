/// Names, labels and numbers as the exposition format has them.
enum PrometheusText {
    /// `text` with everything replaced by `_` that a metric's name may not contain.
    static func metricName(_ text: String) -> String {
        sanitised(text) { $0 == ":" }
    }

    /// The same for a label. `le` belongs to the histograms.
    static func labelName(_ text: String) -> String {
        text == "le" ? "exported_le" : sanitised(text) { _ in false }
    }

    /// A label's value with backslash, quote and line end escaped.
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

    static func appendHeader(name: String, kind: MetricKind, to text: inout String) {
        text += "# HELP \(name) \(MetricHelp.text(of: name))\n# TYPE \(name) \(kind.rawValue)\n"
    }

    static func appendSample(
        name: String, suffix: String = "", labels: SeriesLabels, bucket: String? = nil, value: String, to text: inout String
    ) {
        text += name
        text += suffix
        let label = bucket.map { "le=\"\($0)\"" }
        let all = [labels.text, label ?? ""].filter { !$0.isEmpty }.joined(separator: ",")
        if !all.isEmpty { text += "{\(all)}" }
        text += " \(value)\n"
    }

    private static func sanitised(_ text: String, _ isAlsoAllowed: (Unicode.Scalar) -> Bool) -> String {
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
