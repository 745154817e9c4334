internal import FoundationEssentials
internal import InterlockCore

/// What an event says of a breaker: those of its fields that a run judges by.
struct BreakerNotice: Decodable {
    var type: String
    var service: String
    private var stands: String
    private var untilMilliseconds: Int64?
    var generation: Int64
    private var atMilliseconds: Int64?
    private var forced: String?
    private var forcedUntilMilliseconds: Int64?

    private enum CodingKeys: String, CodingKey {
        case type, service, generation, forced
        case stands = "state"
        case untilMilliseconds = "until_ms"
        case atMilliseconds = "at_ms"
        case forcedUntilMilliseconds = "forced_until_ms"
    }

    /// `nil`: it is an event of another type, or none at all.
    init?(json: [UInt8]) {
        guard let notice = try? JSONDecoder().decode(BreakerNotice.self, from: Data(json)), notice.type == "breaker" else {
            return nil
        }
        self = notice
    }

    /// As sidecars act by it: what an operator forces stands above what the breaker says.
    var state: BreakerSnapshot.State? {
        switch forced.flatMap(BreakerSnapshot.Forced.init) {
        case .open: .open
        case .closed, .disabled: .closed
        case nil: BreakerSnapshot.State(rawValue: stands)
        }
    }

    /// When what it says ends by itself, in milliseconds of the Unix epoch; `nil`: it does not.
    var until: Int64? {
        let until = (forced ?? "").isEmpty ? untilMilliseconds : forcedUntilMilliseconds
        return until == 0 ? nil : until
    }

    /// For how many milliseconds of Redis' clock it stands from the moment of the event; `nil`: it does not end by itself.
    var lasts: Int64? {
        guard let until, let atMilliseconds else { return nil }
        return max(0, until &- atMilliseconds)
    }
}
