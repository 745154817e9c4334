/// A text was not what a setting wants. Says what that is; the reader adds where and what was there instead.
public struct ConfigurationExpectation: Error {
    let wanted: String

    init(_ wanted: String) {
        self.wanted = wanted
    }

    func message(got: String) -> String { "expected \(wanted), got \(got)" }
}

extension ConfigurationExpectation {
    /// What a number or a duration outside of `bounds` should have been: names only the bound that was broken.
    static func bound<Value: Comparable>(
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

extension RawRepresentable where RawValue == String, Self: CaseIterable {
    /// One of a few words.
    init(parsing text: String) throws(ConfigurationExpectation) {
        guard let value = Self(rawValue: text) else {
            throw ConfigurationExpectation(ConfigurationText.alternatives(Self.allCases.map(\.rawValue)))
        }
        self = value
    }
}
