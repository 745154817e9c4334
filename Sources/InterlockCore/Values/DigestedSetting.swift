/// A setting that digests include, written as one text or as named parts. Sidecars of different versions compare
/// digests, so names, order and spelling must remain the same even if a Swift property is renamed.
package protocol DigestedSetting {
    typealias Parts = [(name: String, value: any DigestedSetting)]

    /// The parts in the order of their lines; empty for a setting that is one text.
    var digestedParts: Parts { get }
    /// The text of a setting without parts.
    var digestedText: String { get }
}

extension DigestedSetting {
    package var digestedParts: Parts { [] }
    package var digestedText: String { "\(self)" }

    /// Returns a line with the path and the text of each setting. Omits the lines in `unset`, which contain defaults,
    /// so that a newer version with more settings agrees with an older version.
    package func digestedLines(at path: String = "", except unset: Set<String> = []) -> [String] {
        let parts = digestedParts
        guard !parts.isEmpty else { return ["\(path)=\(digestedText)"] }
        return parts.flatMap { $0.value.digestedLines(at: "\(path).\($0.name)") }.filter { !unset.contains($0) }
    }
}

extension DigestedSetting where Self: RawRepresentable<String> {
    package var digestedText: String { rawValue }
}

extension Bool: DigestedSetting {}
extension Double: DigestedSetting {}
extension Duration: DigestedSetting {}
extension Int: DigestedSetting {}
extension Int64: DigestedSetting {}
extension String: DigestedSetting {}
extension UInt8: DigestedSetting {}

extension Optional: DigestedSetting where Wrapped: DigestedSetting {
    /// The wrapped value as one part. An optional duration has no parts; its text is `Optional(5.0 seconds)`.
    package var digestedParts: Parts {
        guard let self, !(self is Duration) else { return [] }
        return [("some", self)]
    }
}

extension Array: DigestedSetting where Element: DigestedSetting {
    package var digestedParts: Parts { enumerated().map { ("\($0)", $1) } }
}

extension ClosedRange: DigestedSetting where Bound: DigestedSetting {
    package var digestedParts: Parts { [("lowerBound", lowerBound), ("upperBound", upperBound)] }
}
