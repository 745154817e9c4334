/// How something in a plot is coloured. The colours stand in `PlotStyle`.
enum PlotTone: Hashable, Sendable {
    /// One of several that are told apart; colours repeat after `count`.
    case series(Int)
    /// What must not be.
    case alarm
    /// What others are compared with.
    case reference

    static let count = 8

    /// The name that the style sheet knows it by.
    var styleName: String {
        switch self {
        case .series(let index): "t\(UInt(bitPattern: index) % UInt(Self.count))"
        case .alarm: "alarm"
        case .reference: "reference"
        }
    }
}
