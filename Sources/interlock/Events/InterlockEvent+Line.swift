import Interlock
import InterlockCore

extension InterlockEvent {
    /// The event in one line, for people.
    var line: String {
        "\(ReadableText.moment(epochMilliseconds: atMilliseconds))  \(sentence)".printable
    }

    private var sentence: String {
        switch payload {
        case .breaker(let service, let breaker):
            "breaker \(service): \(breaker.state.rawValue)" + Self.reasons(of: breaker)
        case .lockBroken(let name, let by):
            "lock \(name): broken" + (by.isEmpty ? "" : " by \(by)")
        case .sidecarJoined:
            "sidecar \(origin): joined the fleet"
        case .sidecarLeft:
            "sidecar \(origin): left the fleet"
        }
    }

    private static func reasons(of breaker: BreakerSnapshot) -> String {
        var reasons: [String] = []
        if let forced = breaker.forced {
            reasons.append("forced \(forced.rawValue)")
        } else if !breaker.cause.isEmpty {
            reasons.append(breaker.cause)
        }
        if breaker.untilMilliseconds > 0 {
            reasons.append("until \(ReadableText.moment(epochMilliseconds: breaker.untilMilliseconds))")
        }
        if !breaker.by.isEmpty { reasons.append("by \(breaker.by)") }
        return reasons.isEmpty ? "" : " (\(reasons.joined(separator: ", ")))"
    }
}
