/// One entry of a rate limit descriptor, as Envoy sends it: `(remote_address, 10.0.0.1)`. Keys and values are compared
/// byte by byte.
package struct DescriptorEntry: Hashable, Sendable {
    /// The maximum number of entries in a descriptor or a quota bucket.
    package static let maximumCount = 64

    package var key: String
    package var value: String

    package init(key: String, value: String) {
        self.key = key
        self.value = value
    }

    package static func == (left: Self, right: Self) -> Bool {
        ExactText(left.key) == ExactText(right.key) && ExactText(left.value) == ExactText(right.value)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(ExactText(key))
        hasher.combine(ExactText(value))
    }
}
