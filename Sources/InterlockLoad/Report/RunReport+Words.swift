internal import InterlockJudge

extension RunReport {
    /// How many commands Redis received: `12,345, 2.01 for each operation`; or that nobody knows.
    public var redisUse: String {
        guard let redisCommands else { return "not known" }
        let share = redisCommandsPerOperation.map { ", \(Figure.decimals($0, 2)) for each operation" } ?? ""
        return Figure.decimals(redisCommands, 0) + share
    }
}

extension FaultReport {
    /// What was broken: `sidecar 2`, `redis`.
    public var target: String {
        if let sidecar { return "sidecar \(sidecar)" }
        return switch kind {
        case .vanish: "clients"
        case .kill, .pause, .partition, .latency, .reset, .reload: "all sidecars"
        case .redisRestart, .redisPause, .redisWipe, .clock, .failover, .full, .refusing, .scripts, .quorumServer,
            .foreignLock, .foreignCounter, .foreignFleet:
            "redis"
        }
    }
}
