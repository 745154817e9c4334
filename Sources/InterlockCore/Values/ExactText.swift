internal import Glibc

/// Text that is equal only if its bytes are equal. Swift treats canonically equivalent strings as equal, but to Redis
/// they are different names.
package struct ExactText: Hashable, Sendable {
    package var text: String

    package init(_ text: String) {
        self.text = text
    }

    package static func == (left: Self, right: Self) -> Bool {
        let areSame = left.text.utf8.withContiguousStorageIfAvailable { left in
            right.text.utf8.withContiguousStorageIfAvailable { right in
                guard let a = left.baseAddress, let b = right.baseAddress else { return left.count == right.count }
                return left.count == right.count && memcmp(a, b, left.count) == 0
            }
        }
        // Strings without contiguous storage are compared byte by byte.
        return (areSame ?? nil) ?? left.text.utf8.elementsEqual(right.text.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
