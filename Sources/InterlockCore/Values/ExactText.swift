internal import Glibc

/// A text that is equal to another only if all bytes are equal. Swift treats canonically equivalent strings as equal,
/// but in Redis they are different names.
package struct ExactText: Hashable, Sendable {
    package var text: String

    package init(_ text: String) {
        self.text = text
    }

    package static func == (left: Self, right: Self) -> Bool {
        let areEqual = left.text.utf8.withContiguousStorageIfAvailable { left in
            right.text.utf8.withContiguousStorageIfAvailable { right in
                guard let leftBytes = left.baseAddress, let rightBytes = right.baseAddress else {
                    return left.count == right.count
                }
                return left.count == right.count && memcmp(leftBytes, rightBytes, left.count) == 0
            }
        }
        // Compare strings without contiguous storage byte by byte.
        return (areEqual ?? nil) ?? left.text.utf8.elementsEqual(right.text.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
