extension StringProtocol {
    /// The text without what would move a terminal's cursor, ring its bell or turn its writing around: names, labels and
    /// messages come from others.
    var printable: String {
        var printable = ""
        for scalar in unicodeScalars {
            printable.unicodeScalars.append(scalar.isUnprintable ? "\u{FFFD}" : scalar)
        }
        return printable
    }
}

extension Unicode.Scalar {
    /// Whether a terminal may obey it instead of showing it.
    var isUnprintable: Bool {
        switch properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: true
        case .format: properties.isBidiControl
        default: false
        }
    }
}
