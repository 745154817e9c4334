import NIOCore

extension TimeAmount {
    /// The command line's unit.
    init(seconds: Double) {
        self = .nanoseconds(Int64(seconds * 1_000_000_000))
    }

    var inSeconds: Double { Double(nanoseconds) / 1_000_000_000 }
    var inMilliseconds: Double { Double(nanoseconds) / 1_000_000 }
}
