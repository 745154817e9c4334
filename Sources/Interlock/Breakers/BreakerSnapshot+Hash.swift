package import InterlockCore

extension BreakerSnapshot {
    /// From the fields of the hash; what is missing has its default.
    package init(hash: [String: String]) {
        func number(_ name: String) -> Int64 { hash[name].flatMap(Int64.init) ?? 0 }
        func share(_ name: String) -> Double { hash[name].flatMap(Double.init) ?? 0 }
        self.init(
            state: hash["state"].flatMap(State.init) ?? .closed,
            cause: hash["cause"] ?? "",
            sinceMilliseconds: number("since"),
            untilMilliseconds: number("until"),
            generation: number("generation"),
            trips: number("trips"),
            failureRate: share("failure_rate"),
            slowRate: share("slow_rate"),
            calls: number("calls"),
            by: hash["by"] ?? "",
            forced: hash["forced"].flatMap(Forced.init),
            forcedUntilMilliseconds: number("forced_until"),
            reason: hash["reason"] ?? "",
            streak: number("streak"),
            consecutive: number("consecutive"))
    }

    /// The fields as they stand in the hash, to restore it.
    package var hash: [(String, String)] {
        [
            ("state", state.rawValue), ("cause", cause), ("since", "\(sinceMilliseconds)"), ("until", "\(untilMilliseconds)"),
            ("generation", "\(generation)"), ("trips", "\(trips)"), ("failure_rate", "\(failureRate)"),
            ("slow_rate", "\(slowRate)"), ("calls", "\(calls)"), ("by", by), ("forced", forced?.rawValue ?? ""),
            ("forced_until", "\(forcedUntilMilliseconds)"), ("reason", reason), ("streak", "\(streak)"),
            ("consecutive", "\(consecutive)"), ("successes", "0"),
        ]
    }
}
