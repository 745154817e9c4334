internal import Glibc

/// Text that is the same only when its bytes are: to Redis names that look alike are two, while Swift holds texts for equal
/// that are canonically equivalent.
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
        // Texts that are not Swift's own are compared as what they show.
        return (areSame ?? nil) ?? left.text.utf8.elementsEqual(right.text.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
