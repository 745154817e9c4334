/// The properties of a limit that the checkers need.
package struct LimitRule: Hashable, Sendable, Codable {
    package enum Algorithm: String, Hashable, Sendable, Codable {
        case fixed, sliding, gcra
    }

    /// Whether each window begins with a call and lasts for `windowMilliseconds`. Otherwise, the limit holds in every
    /// period of that length, wherever the period begins.
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
    package var windowMilliseconds: Int64
    /// The burst of `gcra`; unused otherwise.
    package var burst: Int64
    package var isPerSubject: Bool

    private enum CodingKeys: String, CodingKey {
        case algorithm, limit
        case windowMilliseconds = "window"
        case burst, isPerSubject
    }

    package init(
        algorithm: Algorithm, limit: Int64, windowMilliseconds: Int64, burst: Int64 = 0, isPerSubject: Bool = false
    ) {
        self.algorithm = algorithm
        self.limit = limit
        self.windowMilliseconds = windowMilliseconds
        self.burst = burst
        self.isPerSubject = isPerSubject
    }
}
