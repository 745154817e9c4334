/// The distribution of names in a run.
package enum NameSkew: Hashable, Sendable, CustomStringConvertible {
    /// All names are equally frequent.
    case uniform
    /// The frequency of the k-th name is proportional to 1 ÷ k to the power of `exponent`, so a few names are hot.
    case zipf(exponent: Double)

    private static let zipfPrefix = "zipf:"

    /// Parses `uniform` or `zipf:EXPONENT`.
    package init(argument: String) throws(LoadArgumentError) {
        if argument == "uniform" {
            self = .uniform
            return
        }
        guard argument.hasPrefix(Self.zipfPrefix), let exponent = Double(argument.dropFirst(Self.zipfPrefix.count)),
            exponent > 0, exponent <= NameSampler.maximumExponent
        else {
            throw LoadArgumentError(
                expected:
                    "uniform, or zipf:EXPONENT with an exponent above 0 and at most \(NameSampler.maximumExponent), such as zipf:1.1",
                found: argument)
        }
        self = .zipf(exponent: exponent)
    }

    package var description: String {
        switch self {
        case .uniform: "uniform"
        case .zipf(let exponent): "\(Self.zipfPrefix)\(exponent)"
        }
    }
}
