import InterlockCore
import Yams

extension ConfigurationValue {
    /// Reads a mapping. Nothing said is an empty one; keys that `read` did not ask for are refused.
    func section(_ read: (ConfigurationSection) -> Void) {
        guard let section = ConfigurationSection(self) else { return }
        read(section)
        section.refuseUnknownKeys()
    }

    /// The items of a list. Nothing said is an empty one.
    func list() -> [ConfigurationValue] {
        guard !isNull else { return [] }
        guard case .sequence(let sequence) = node else {
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
            let parsed = try parse(isNull ? "" : node.scalar?.string ?? "")
            guard node.scalar != nil else { throw ConfigurationExpectation("a text") }
            return parsed
        } catch {
            refuse(expected: error)
            return nil
        }
    }

    /// Digits without quotes, within `bounds`.
    func wholeNumber<Number: FixedWidthInteger>(in bounds: ClosedRange<Number>) -> Number? {
        let noun = "a whole number"
        let spelled = node.scalar.flatMap { $0.style == .plain ? $0.string : nil } ?? ""
        guard let long = ConfigurationText.wholeNumber(spelled) else {
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
        if let scalar = node.scalar, scalar.style == .plain, let flag = Bool(scalar.string) { return flag }
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
    func percentage() -> Double? {
        parsed { text throws(ConfigurationExpectation) in
            let number = text.dropLast()
            let isDecimal = number.allSatisfy { $0 == "." || ("0"..."9").contains($0) }
            guard text.hasSuffix("%"), isDecimal, let percent = Double(number) else {
                throw ConfigurationExpectation("a percentage such as 50%")
            }
            guard (1...100).contains(percent) else { throw ConfigurationExpectation("a percentage from 1% to 100%") }
            return percent / 100
        }
    }
}
