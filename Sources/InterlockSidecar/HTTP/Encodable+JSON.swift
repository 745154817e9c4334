package import FoundationEssentials

extension Encodable {
    /// As JSON on one line, in the form in which all of this door's answers and events have it.
    package func json() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(self)
    }
}
