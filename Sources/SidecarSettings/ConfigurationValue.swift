import InterlockCore

/// One value of the file with its place. Its readers return what was meant, or report what is wrong and return `nil`.
struct ConfigurationValue {
    let node: YAMLNode
    /// Where it stands, as `services.catalog.limits[0]`; empty for the whole file.
    let path: String
    let findings: ConfigurationFindings
    /// What stands here may be a secret: messages do not repeat it.
    private(set) var isConcealed = false

    init(node: YAMLNode, path: String, findings: ConfigurationFindings) {
        self.node = node
        self.path = path
        self.findings = findings
    }

    /// The same value; messages do not repeat what it says.
    func concealed() -> ConfigurationValue {
        var copy = self
        copy.isConcealed = true
        return copy
    }

    var place: ConfigurationProblem.Place { .file(findings.fileName, line: node.line) }

    /// Reports a mistake at this value.
    func refuse(_ message: String) {
        findings.refuse(at: place, path: path.isEmpty ? nil : path, message)
    }

    /// Reports that something else was expected here.
    /// - Parameter shorthand: of a mapping that is missing: the key whose value stands in its place.
    func refuse(expected expectation: ConfigurationExpectation, instead shorthand: String? = nil) {
        let message = expectation.message(got: shown)
        guard let shorthand, let text = word, !isConcealed, !text.isEmpty else { return refuse(message) }
        let key = path.split(separator: ".").last.map(String.init) ?? path
        refuse("\(message); write \(key): { \(shorthand): \(Self.cut("\(RedactedURL(text))")) }")
    }

    /// What stands here, for a message.
    private var shown: String {
        switch node.content {
        case .mapping: "a mapping"
        case .sequence: "a list"
        case .scalar where isNull: "nothing"
        case .scalar where isConcealed: "another text (not shown, as it may be a secret)"
        case .scalar(let text, let isPlain): isPlain && text.first?.isNumber == true ? Self.cut(text) : Self.quoted(text)
        }
    }

    /// Whether nothing was said: `null`, `~` or an empty value.
    var isNull: Bool {
        node.plainText.map { ["", "~", "null"].contains($0) } ?? false
    }

    /// What stands here when it is neither a mapping nor a list.
    var word: String? { node.text }

    /// A value inside of this one.
    func child(_ node: YAMLNode, _ step: String) -> ConfigurationValue {
        ConfigurationValue(node: node, path: path + step, findings: findings)
    }
}

extension ConfigurationValue {
    /// A value in a message: in quotes, not too long, without a password.
    static func quoted(_ text: String) -> String { "\"\(cut("\(RedactedURL(text))"))\"" }

    static func cut(_ text: String) -> String { Excerpt(text, length: 80).description }
}

extension ConfigurationValue {
    /// Reads a mapping. Nothing said is an empty one; keys that `read` did not ask for are refused.
    /// - Parameter shorthand: the key that is meant when a word stands in the mapping's place.
    func section(shorthand: String? = nil, _ read: (ConfigurationSection) -> Void) {
        guard let section = ConfigurationSection(self, shorthand: shorthand) else { return }
        read(section)
        section.refuseUnknownKeys()
    }

    /// The items of a list. Nothing said is an empty one.
    func list() -> [ConfigurationValue] {
        guard !isNull else { return [] }
        guard case .sequence(let sequence) = node.content else {
            refuse(expected: ConfigurationExpectation("a list"))
            return []
        }
        return sequence.enumerated().map { index, node in
            let item = child(node, "[\(index)]")
            return isConcealed ? item.concealed() : item
        }
    }

    /// A text that `parse` accepts.
    func parsed<Parsed>(by parse: (String) throws(ConfigurationExpectation) -> Parsed) -> Parsed? {
        do throws(ConfigurationExpectation) {
            let parsed = try parse(isNull ? "" : node.text ?? "")
            guard node.text != nil else { throw ConfigurationExpectation("a text") }
            return parsed
        } catch {
            refuse(expected: error)
            return nil
        }
    }

    /// A text, unless something else was expected instead of it.
    func parsed(insteadOf expected: (String) -> String?) -> String? {
        parsed { text throws(ConfigurationExpectation) in
            if let expected = expected(text) { throw ConfigurationExpectation(expected) }
            return text
        }
    }

    /// Digits without quotes, within `bounds`.
    func wholeNumber<Number: FixedWidthInteger>(in bounds: ClosedRange<Number>) -> Number? {
        let noun = "a whole number"
        guard let long = ConfigurationText.wholeNumber(node.plainText ?? "") else {
            refuse(expected: ConfigurationExpectation("\(noun) of \(bounds.lowerBound) or more"))
            return nil
        }
        let number = Number(clamping: long)
        if let broken = ConfigurationExpectation.bound(noun, number, bounds, { "\($0)" }) {
            refuse(expected: broken)
            return nil
        }
        return number
    }

    /// `true` or `false`.
    func flag() -> Bool? {
        if let flag = node.plainText.flatMap(Bool.init) { return flag }
        refuse(expected: ConfigurationExpectation("true or false"))
        return nil
    }

    /// A duration within `bounds`.
    func duration(in bounds: ClosedRange<Duration>) -> Duration? {
        let range = durationRange(in: bounds) { text throws(ConfigurationExpectation) in
            let single = try DurationText.parse(text)
            return single...single
        }
        return range?.lowerBound
    }

    /// A range of durations, both within `bounds`.
    func durationRange(in bounds: ClosedRange<Duration>) -> ClosedRange<Duration>? {
        durationRange(in: bounds, by: DurationText.parseRange)
    }

    private func durationRange(
        in bounds: ClosedRange<Duration>,
        by parse: (String) throws(ConfigurationExpectation) -> ClosedRange<Duration>
    ) -> ClosedRange<Duration>? {
        guard let range = parsed(by: parse) else { return nil }
        for end in [range.lowerBound, range.upperBound] {
            guard let broken = ConfigurationExpectation.bound("a duration", end, bounds, DurationText.shortest) else { continue }
            refuse(expected: broken)
            return nil
        }
        return range
    }

    /// `50%`, as the share 0.5; from 1% to 100%.
    /// A share of one.
    func percentage(in range: ClosedRange<Double> = 1...100) -> Double? {
        parsed { text throws(ConfigurationExpectation) in
            let number = text.dropLast()
            let isDecimal = number.allSatisfy { $0 == "." || ("0"..."9").contains($0) }
            guard text.hasSuffix("%"), isDecimal, let percent = Double(number) else {
                throw ConfigurationExpectation("a percentage such as 50%")
            }
            guard range.contains(percent) else {
                throw ConfigurationExpectation("a percentage from \(Int(range.lowerBound))% to \(Int(range.upperBound))%")
            }
            return percent / 100
        }
    }
}
