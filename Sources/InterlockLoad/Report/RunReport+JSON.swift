internal import FoundationEssentials

extension RunReport {
    /// The report as one JSON object on one line, its keys sorted. A number that JSON does not have is a string: `"inf"`,
    /// `"-inf"`, `"nan"`.
    /// - Throws: what `JSONEncoder` throws.
    public var json: String {
        get throws {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            // A run is not lost because one of its figures is odd.
            encoder.nonConformingFloatEncodingStrategy = .convertToString(
                positiveInfinity: "inf", negativeInfinity: "-inf", nan: "nan")
            return String(decoding: try encoder.encode(self), as: UTF8.self)
        }
    }
}
