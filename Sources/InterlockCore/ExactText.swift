/// Text that is the same only when its bytes are: to Redis names that look alike are two, while Swift holds texts for equal
/// that are canonically equivalent.
public struct ExactText: Hashable, Sendable {
    public var text: String

    public init(_ text: String) {
        self.text = text
    }

    public static func == (left: Self, right: Self) -> Bool {
        left.text.utf8.elementsEqual(right.text.utf8)
    }

    public func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
