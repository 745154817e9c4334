/// The color of an element of a plot. `PlotStyle` defines the colors.
enum PlotTone: Hashable, Sendable {
    /// One of several distinct colors, which repeat after `count`.
    case series(Int)
    /// The color of errors and violated limits.
    case alarm
    /// The color of a reference value.
    case reference

    /// The number of distinct colors for series.
    static let count = 8

    /// The class name in the style sheet.
    var styleName: String {
        switch self {
        case .series(let index): "t\(UInt(bitPattern: index) % UInt(Self.count))"
        case .alarm: "alarm"
        case .reference: "reference"
        }
    }
}
