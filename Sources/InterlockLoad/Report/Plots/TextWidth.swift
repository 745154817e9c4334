/// How wide a text becomes: no more than an estimate, for nobody here knows the reader's fonts.
enum TextWidth {
    /// In pixels, at a font size in pixels. Generous: texts that overlap are worse than gaps.
    static func pixels(of text: String, size: Double) -> Double {
        text.unicodeScalars.reduce(0) { $0 + ($1.value < 0x2E80 ? 0.58 : 1) * size }
    }
}
