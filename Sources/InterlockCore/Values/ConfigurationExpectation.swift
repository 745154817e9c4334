/// A text was not what a setting wants. Says what that is; the reader adds where and what was there instead.
package struct ConfigurationExpectation: Error, CustomStringConvertible {
    package let wanted: String
    /// The most likely intended value.
    package let suggestion: String?

    package init(_ wanted: String, suggestion: String? = nil) {
        self.wanted = wanted
        self.suggestion = suggestion
    }

    /// Where it is told elsewhere what was there.
    package var description: String { "expected \(wanted)" + question }

    package func message(got: String) -> String { "expected \(wanted), got \(got)" + question }

    private var question: String { suggestion.map { "; did you mean \($0)?" } ?? "" }
}

extension ConfigurationExpectation {
    /// The expectation for a number or a duration outside of `bounds`: names only the bound that was broken.
    package static func bound<Value: Comparable>(
        _ noun: String,
        _ value: Value,
        _ bounds: ClosedRange<Value>,
        _ text: (Value) -> String
    ) -> ConfigurationExpectation? {
        if value < bounds.lowerBound { return .init("\(noun) of \(text(bounds.lowerBound)) or more") }
        if value > bounds.upperBound { return .init("\(noun) of \(text(bounds.upperBound)) or less") }
        return nil
    }
}
