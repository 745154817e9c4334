internal import InterlockJudge
internal import InterlockCore

/// The grants in each window of the first few services that have one common limit, as many as a plot can show.
struct WindowCounts: Sendable {
    static let maximumServices = 6
    static let maximumWindows = 1500

    fileprivate struct Line: Sendable {
        var name: String
        var rule: LimitRule
        var open: Window?
        var windows: [WindowCount] = []
    }

    fileprivate struct Window: Sendable {
        var began: Int64
        var granted: Int64
    }

    private let start: Instant
    private var lines: [Int: Line] = [:]

    init(start: Instant, services: LoadServices) {
        self.start = start
        for service in services.takes {
            let rules = services.rules[service]
            guard lines.count < Self.maximumServices, rules.limits.count == 1, let rule = rules.limits.first, !rule.isPerSubject
            else { continue }
            lines[service] = Line(name: rules.name, rule: rule)
        }
    }

    /// - Parameter resetAfter: the time in milliseconds until the end of the window that counted the call, if the limit
    ///   has fixed windows.
    mutating func taken(service: Int, cost: Int64, resetAfter: Int64, at now: Instant) {
        guard let rule = lines[service]?.rule else { return }
        let time = now.nanoseconds - start.nanoseconds
        let length = rule.window * 1_000_000
        let began: Int64
        if rule.hasFixedWindows {
            let end = time + resetAfter * 1_000_000
            // The ends that answers report for one window differ by their latencies, so a new window begins no earlier
            // than half a window later.
            if let open = lines[service]?.open, end - length < open.began + length / 2 {
                began = open.began
            } else {
                began = end - length
            }
        } else {
            // Other limits hold in any window, including windows aligned with the start of the run.
            began = time - time % length
        }
        lines[service]?.count(cost, inWindowFrom: began, bound: Self.maximumWindows)
    }

    /// The windows of all services, including current ones.
    var all: [WindowCount] {
        lines.sorted { $0.key < $1.key }.flatMap { _, line in line.windows + line.lastWindow }
    }
}

extension WindowCounts.Line {
    fileprivate mutating func count(_ cost: Int64, inWindowFrom began: Int64, bound: Int) {
        if let open, open.began >= began {
            self.open?.granted += cost
            return
        }
        if windows.count < bound { windows += lastWindow }
        open = WindowCounts.Window(began: began, granted: cost)
    }

    /// The maximum amount that the limit may grant in a window.
    private var maximumInWindow: Int64 {
        switch rule.algorithm {
        case .fixed, .sliding: rule.limit
        case .gcra: rule.limit + rule.burst
        }
    }

    fileprivate var lastWindow: [WindowCount] {
        guard let open else { return [] }
        return [
            WindowCount(service: name, began: Double(open.began) / 1e9, granted: open.granted, limit: maximumInWindow)
        ]
    }
}
