import Interlock
import InterlockCore

extension InterlockEvent<EventPayload> {
    /// The event in one line, for people.
    var line: String {
        "\(ReadableText.moment(epochMilliseconds: atMilliseconds))  \(sentence)".printable
    }

    private var sentence: String {
        switch payload {
        case .breaker(let event):
            "breaker \(event.service): \(event.breaker.state.rawValue)" + Self.reasons(of: event.breaker)
        case .lock(let event):
            switch event.kind {
            case .broken: "lock \(event.lock): broken" + (event.by.isEmpty ? "" : " by \(event.by)")
            }
        case .limit(let event):
            "limit \(event.limit) of \(event.service)" + (event.subject.map { " for \($0)" } ?? "")
                + ": \(Self.finding(event)), \(event.used) of \(event.capacity) used (seen by \(origin))"
        case .fleet(let event):
            switch event.kind {
            case .joined: "sidecar \(event.sidecar): joined the fleet"
            case .left: "sidecar \(event.sidecar): left the fleet"
            }
        }
    }

    private static func finding(_ event: LimitEvent) -> String {
        switch event.kind {
        case .near: "nearly reached"
        case .reached: "reached"
        case .shadow: "would have refused a call"
        }
    }

    private static func reasons(of breaker: BreakerSnapshot) -> String {
        var reasons: [String] = []
        if let forced = breaker.forced {
            reasons.append("forced \(forced.rawValue)")
        } else if !breaker.cause.isEmpty {
            reasons.append(breaker.cause)
        }
        if !breaker.reason.isEmpty { reasons.append(breaker.reason) }
        let end = breaker.forced == nil ? breaker.untilMilliseconds : breaker.forcedUntilMilliseconds
        if end > 0 { reasons.append("until \(ReadableText.moment(epochMilliseconds: end))") }
        if !breaker.by.isEmpty { reasons.append("by \(breaker.by)") }
        return reasons.isEmpty ? "" : " (\(reasons.joined(separator: ", ")))"
    }
}
