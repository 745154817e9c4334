/// An edit of the scripts that clients load. Plants a bug without a rebuild.
package final class ScriptEdit {
    private let old, new: [UInt8]
    /// Whether any script had the old text.
    package private(set) var isApplied = false

    package init(old: String, new: String) {
        (self.old, self.new) = (Array(old.utf8), Array(new.utf8))
    }

    /// Returns the source with the first occurrence of the old text replaced.
    func applied(to source: Bytes) -> Bytes {
        guard let range = source.storage.firstRange(of: old) else { return source }
        isApplied = true
        return Bytes(Array(source.storage[..<range.lowerBound] + new + source.storage[range.upperBound...]))
    }
}
