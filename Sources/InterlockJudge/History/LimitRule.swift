/// One limit as it is judged.
package struct LimitRule: Hashable, Sendable, Codable {
    package enum Algorithm: String, Hashable, Sendable, Codable {
        case fixed, sliding, gcra
    }

    /// Whether a window begins with a call and ends one length later. Otherwise the limit holds in every window, wherever it
    /// begins.
    package var hasOwnWindows: Bool {
        switch algorithm {
        case .fixed: true
        case .sliding, .gcra: false
        }
    }

    package var algorithm: Algorithm
    /// Calls in a window.
    package var limit: Int64
    /// In milliseconds.
    package var window: Int64
    /// For `gcra` only.
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
