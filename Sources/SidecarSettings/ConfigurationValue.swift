import InterlockCore

/// A value in the file, with its location. Its methods return the parsed value, or report a mistake and return `nil`.
struct ConfigurationValue {
    let node: YAMLNode
    /// The path of the value, such as `services.catalog.limits[0]`; empty for the whole file.
    let path: String
    let findings: ConfigurationFindings
    /// Whether the value may be a secret, which messages must not quote.
    private(set) var isConcealed = false

    init(node: YAMLNode, path: String, findings: ConfigurationFindings) {
        self.node = node
        self.path = path
        self.findings = findings
    }

    /// Returns a copy of this value that messages do not quote.
    func concealed() -> ConfigurationValue {
        var copy = self
        copy.isConcealed = true
        return copy
    }

    var location: ConfigurationProblem.Location { .file(findings.fileName, line: node.line) }

    /// Reports a mistake at this value.
    func reject(_ message: String) {
        findings.reject(at: location, path: path.isEmpty ? nil : path, message)
    }

    /// Reports that something else was expected at this value.
    /// - Parameter shorthand: the key to suggest if the value is a scalar instead of a mapping.
    func reject(expected expectation: InvalidConfigurationValue, suggesting shorthand: String? = nil) {
        let message = expectation.message(got: shownValue)
        guard let shorthand, let text = node.text, !isConcealed, !text.isEmpty, Bool(text) == nil else { return reject(message) }
        let key = path.split(separator: ".").last.map(String.init) ?? path
        reject("\(message); write \(key): { \(shorthand): \(Self.shortened("\(RedactedURL(text))")) }")
    }

    /// The description of the value in a message.
    private var shownValue: String {
        switch node.content {
        case .mapping: "a mapping"
        case .sequence: "a list"
        case .scalar where isNull: "nothing"
        case .scalar where isConcealed: "another value (not shown, because it may be a secret)"
        case .scalar(let text, let isPlain):
            isPlain && Self.looksNumeric(text) ? Self.shortened(text) : Self.quoted(text)
        }
    }

    /// Returns whether the text begins like a number, which messages show without quotes.
    private static func looksNumeric(_ text: String) -> Bool {
        let digits = text.first == "-" ? text.dropFirst() : text[...]
        return digits.first?.isNumber == true
    }

    /// Whether the value is `null`, `~` or empty.
    var isNull: Bool {
        node.plainText.map { ["", "~", "null"].contains($0) } ?? false
    }

    /// The text of the value; `nil` if it is a mapping or a list.
    var text: String? { node.text }

    /// Returns a value nested in this one.
    func child(_ node: YAMLNode, _ pathComponent: String) -> ConfigurationValue {
        ConfigurationValue(node: node, path: path + pathComponent, findings: findings)
    }
}

extension ConfigurationValue {
    /// Returns the text as a message shows it: in quotes, shortened, and with passwords masked.
    static func quoted(_ text: String) -> String { "\"\(shortened("\(RedactedURL(text))"))\"" }

    /// Returns the text, shortened to a length that fits into a message.
    static func shortened(_ text: String) -> String { Excerpt(text, length: 80).description }
}

extension ConfigurationValue {
    /// Reads a mapping. Null counts as an empty mapping. Keys that `read` did not request are rejected.
    /// - Parameter shorthand: the key to suggest if the value is a scalar instead of a mapping.
    func section(shorthand: String? = nil, _ read: (ConfigurationSection) -> Void) {
        guard let section = ConfigurationSection(self, shorthand: shorthand) else { return }
        read(section)
        section.rejectUnknownKeys()
    }

    /// Returns the items of a list. Null counts as an empty list.
    func list() -> [ConfigurationValue] {
        guard !isNull else { return [] }
        guard case .sequence(let sequence) = node.content else {
            reject(expected: InvalidConfigurationValue("a list"))
            return []
        }
        return sequence.enumerated().map { index, node in
            let item = child(node, "[\(index)]")
            return isConcealed ? item.concealed() : item
        }
    }

    /// Parses the text with `parse`. Reports a mistake if `parse` throws or the value is not a scalar.
    func parsed<Parsed>(by parse: (String) throws(InvalidConfigurationValue) -> Parsed) -> Parsed? {
        do throws(InvalidConfigurationValue) {
            let parsed = try parse(isNull ? "" : node.text ?? "")
            guard node.text != nil else { throw InvalidConfigurationValue("a string") }
            return parsed
        } catch {
            reject(expected: error)
            return nil
        }
    }

    /// Reads a text and checks it with `violatedExpectation`, which returns the expectation that the text violates;
    /// `nil` if the text is valid.
    func parsed(insteadOf violatedExpectation: (String) -> String?) -> String? {
        parsed { text throws(InvalidConfigurationValue) in
            if let expectation = violatedExpectation(text) { throw InvalidConfigurationValue(expectation) }
            return text
        }
    }

    /// Reads an unquoted whole number within `bounds`.
    func wholeNumber<Number: FixedWidthInteger>(in bounds: ClosedRange<Number>) -> Number? {
        let noun = "a whole number"
        guard let parsed = ConfigurationText.wholeNumber(node.plainText ?? "") else {
            reject(expected: InvalidConfigurationValue("\(noun) of \(bounds.lowerBound) or more"))
            return nil
        }
        let number = Number(clamping: parsed)
        if let violation = InvalidConfigurationValue.bound(noun, number, bounds, { "\($0)" }) {
            reject(expected: violation)
            return nil
        }
        return number
    }

    /// Reads `true` or `false`.
    func flag() -> Bool? {
        if let flag = node.plainText.flatMap(Bool.init) { return flag }
        let suggestion = node.plainText.flatMap(ConfigurationSuggestion.flag(for:))
        reject(expected: InvalidConfigurationValue("true or false", suggestion: suggestion))
        return nil
    }

    /// Reads a duration within `bounds`.
    func duration(in bounds: ClosedRange<Duration>) -> Duration? {
        let range = durationRange(in: bounds) { text throws(InvalidConfigurationValue) in
            let duration = try DurationText.parse(text)
            return duration...duration
        }
        return range?.lowerBound
    }

    /// Reads a range of durations, both ends of which are within `bounds`.
    func durationRange(in bounds: ClosedRange<Duration>) -> ClosedRange<Duration>? {
        durationRange(in: bounds, by: DurationText.parseRange)
    }

    private func durationRange(
        in bounds: ClosedRange<Duration>,
        by parse: (String) throws(InvalidConfigurationValue) -> ClosedRange<Duration>
    ) -> ClosedRange<Duration>? {
        let parsedRange = parsed { (text: String) throws(InvalidConfigurationValue) -> ClosedRange<Duration> in
            do throws(InvalidConfigurationValue) {
                return try parse(text)
            } catch {
                let guess = ConfigurationSuggestion.duration(for: text) { candidate in
                    guard let range = try? parse(candidate) else { return false }
                    return bounds.contains(range.lowerBound) && bounds.contains(range.upperBound)
                }
                let suggestion = error.suggestion ?? guess
                throw InvalidConfigurationValue(error.wanted, suggestion: suggestion)
            }
        }
        guard let range = parsedRange else { return nil }
        for end in [range.lowerBound, range.upperBound] {
            let violation = InvalidConfigurationValue.bound("a duration", end, bounds, DurationText.shortest)
            guard let violation else { continue }
            reject(expected: violation)
            return nil
        }
        return range
    }

    /// Reads a percentage within `range` and returns it as a fraction: 0.5 for `50%`.
    func percentage(in range: ClosedRange<Double> = 1...100) -> Double? {
        parsed { text throws(InvalidConfigurationValue) in
            let number = text.dropLast()
            let isDecimal = number.allSatisfy { $0 == "." || ("0"..."9").contains($0) }
            guard text.hasSuffix("%"), isDecimal, let percent = Double(number) else {
                throw InvalidConfigurationValue(
                    "a percentage such as 50%", suggestion: ConfigurationSuggestion.percentage(for: text, in: range))
            }
            guard range.contains(percent) else {
                throw InvalidConfigurationValue("a percentage from \(Int(range.lowerBound))% to \(Int(range.upperBound))%")
            }
            return percent / 100
        }
    }
}
