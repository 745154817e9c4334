extension [UInt8] {
    /// Appends the text as one contiguous buffer, which takes half as long as appending its UTF-8 view.
    package mutating func append(text: String) {
        var text = text
        text.withUTF8 { append(contentsOf: $0) }
    }

    package mutating func append(decimal number: Int64) { append(text: String(number)) }
}
