/// The error for an invalid setting. It says what was expected; the reader of the configuration adds the position and
/// the text found.
package struct InvalidConfigurationValue: Error, CustomStringConvertible {
    /// The expected value, in words.
    package let wanted: String
    /// The most likely intended value.
    package let suggestion: String?

    package init(_ wanted: String, suggestion: String? = nil) {
        self.wanted = wanted
        self.suggestion = suggestion
    }

    /// The description without the text found, for messages that show the text elsewhere.
    package var description: String { "expected \(wanted)" + question }

    /// Returns the description with the text found.
    package func message(got: String) -> String { "expected \(wanted), got \(got)" + question }

    private var question: String { suggestion.map { "; did you mean \($0)?" } ?? "" }
}

extension InvalidConfigurationValue {
    /// Returns the error for a number or a duration outside of `bounds`, which names only the violated bound; `nil` if
    /// the value is valid.
    package static func bound<Value: Comparable>(
        _ noun: String,
        _ value: Value,
        _ bounds: ClosedRange<Value>,
        _ text: (Value) -> String
    ) -> InvalidConfigurationValue? {
        if value < bounds.lowerBound { return .init("\(noun) of \(text(bounds.lowerBound)) or more") }
        if value > bounds.upperBound { return .init("\(noun) of \(text(bounds.upperBound)) or less") }
        return nil
    }
}
