/// The properties of a limit that the checkers need.
package struct LimitRule: Hashable, Sendable, Codable {
    package enum Algorithm: String, Hashable, Sendable, Codable {
        case fixed, sliding, gcra
    }

    /// Whether a window begins with a call and ends after its length. Otherwise the limit holds in every window,
    /// wherever it begins.
    package var hasFixedWindows: Bool {
        switch algorithm {
        case .fixed: true
        case .sliding, .gcra: false
        }
    }

    package var algorithm: Algorithm
    /// The number of calls allowed in a window.
    package var limit: Int64
    /// The length of a window in milliseconds.
    package var window: Int64
    /// The burst of `gcra`; unused otherwise.
    package var burst: Int64
    package var isPerSubject: Bool

    package init(algorithm: Algorithm, limit: Int64, window: Int64, burst: Int64 = 0, isPerSubject: Bool = false) {
        self.algorithm = algorithm
        self.limit = limit
        self.window = window
        self.burst = burst
        self.isPerSubject = isPerSubject
    }
}
