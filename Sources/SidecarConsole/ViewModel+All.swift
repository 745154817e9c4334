internal import InterlockCore
package import SidecarListeners

extension ViewModel {
    /// All models, by the names that the console's script uses.
    package static let all: [String: ViewModel] = [
        "here": thisSidecar, "redis": redis, "primaries": primaries, "breakers": breakers, "limited": limited, "fleet": fleet,
        "locks": locks, "lock": lock, "holders": holders, "queue": queue, "grants": grants, "lockGrants": lockGrants,
        "services": services,
        "service": service, "limits": limits, "history": history, "domains": domains, "events": events,
    ]

    /// The diagrams, by the part that holds their series.
    package static let diagrams = [
        "rates": [
            diagram("Locks", ["granted": "locks_granted", "refused": "locks_held"]), calls, permits,
            diagram("Redis commands", ["sent": "redis_commands"]),
        ],
        "minute": [calls, permits, diagram("Outcomes", ["good": "outcomes_good", "failed": "outcomes_failed"])],
    ]
    private static let calls = diagram("Calls", ["taken": "calls_taken", "limited": "calls_limited"])
    private static let permits = diagram("Permits", ["granted": "permits_granted", "refused": "permits_refused"])

    private static func diagram(_ title: String, _ lines: KeyValuePairs<String, String>) -> ViewModel {
        ViewModel(title: title, part: "", columns: lines.map { Column($0.key, .series, "series.\($0.value)") })
    }

    // MARK: Overview

    package static let thisSidecar = ViewModel(
        title: "This sidecar", part: "sidecar",
        columns: [
            Column("Locks held here", .number, "locks_held"), Column("Waiting for locks here", .number, "locks_waiting"),
            Column("Calls in progress", .number, "permits_under_way"), Column("Calls waiting", .number, "calls_waiting"),
            Column("Sidecars", .number, "fleet"), Column("Services", .number, "services"),
            Column("Breakers not closed", .number, "breakers_not_closed"),
        ])

    static let redis = ViewModel(
        title: "Redis", part: "redis",
        columns: [
            Column("Address", .text, "address"), Column("Shared with", .text, "words.shared"), Column("Connected", .flag, "up"),
            Column("Error", .text, "failure"), Column("Version", .text, "version"), Column("Topology", .text, "topology"),
            Column("Primary", .text, "words.primary"), Column("Hash slots served", .text, "words.slots"),
            Column("Failovers", .number, "primary.switches"), Column("Failovers", .number, "cluster.switches"),
            Column("Replicas", .number, "replicas"), Column("maxmemory-policy", .text, "maxmemory_policy"),
        ]
    ) { redis, _ in
        let primary = redis["primary"]
        let sentinels = "\(primary["sentinels_answering"].integer ?? 0) of \(primary["sentinels"].integer ?? 0) Sentinels respond"
        return [
            "shared": redis["scope"].text.map { RedisScope(rawValue: $0)?.notice ?? "every host that uses this address" } ?? "",
            "primary": primary["name"].text.map { "\(primary["address"].text ?? "unknown") (\($0)), \(sentinels)" } ?? "",
            "slots": redis["cluster"]["slots_covered"].integer.map { "\($0) of 16384" } ?? "",
        ]
    }

    static let primaries = ViewModel(
        title: "Cluster primaries", part: "redis", rows: "cluster.primaries", key: ["address"],
        columns: [
            Column("Primary", .text, "address"), Column("Hash slots", .number, "slots"), Column("Connected", .flag, "connected"),
        ])

    package static let breakers = ViewModel(
        title: "Breakers not closed", part: "sidecar", rows: "breakers", key: ["service"], empty: "All breakers are closed.",
        columns: [
            Column("Service", .service, "service"), Column("Breaker", .state, "state"), Column("Why", .text, "words.why"),
            untilColumn,
        ]
    ) { breaker, _ in ["why": reasons(breaker), "until": end(of: breaker)] }

    package static let limited = ViewModel(
        title: "Limits that refused calls in the last minute", part: "sidecar", rows: "limited", key: ["service"],
        empty: "No limit refused a call in the last minute.",
        columns: [
            Column("Service", .service, "service"), Column("Limited/min", .number, "calls_limited"),
            Column("Taken/min", .number, "calls_taken"),
        ])

    package static let fleet = ViewModel(
        title: "Fleet", part: "fleet", rows: "sidecars", key: ["id"], empty: "No sidecars are known.",
        columns: [
            Column("Sidecar", .text, "words.sidecar"), Column("Host", .text, "host"), Column("PID", .text, "pid"),
            Column("Version", .text, "version"), Column("Uptime", .since, "started_ms"),
            Column("Configured differently", .list, "differs"),
        ]
    ) { sidecar, fleet in
        ["sidecar": (sidecar["id"].text ?? "") + (sidecar["id"] == fleet["own_id"] ? " (this one)" : "")]
    }

    // MARK: Locks

    package static let locks = ViewModel(
        title: "Locks", part: "locks", rows: "locks", key: ["name"], empty: "No matching locks are held.",
        columns: [
            Column("Lock", .lock, "name"), Column("Holder", .text, "words.holder"), Column("Fence", .fence, "fence"),
            Column("Remaining", .left, "ttl_ms"), Column("Mode", .text, "words.mode"), Column("Waiting", .number, "waiters"),
            Column("Updated", .ago, "words.read", "at_ms"),
        ]
    ) { lock, _ in
        ["holder": holder(of: lock), "mode": mode(of: lock), "read": lock["here"].flag ? "here" : ""]
    }

    package static let lock = ViewModel(
        title: "Lock", part: "lock",
        columns: [
            Column("Held", .text, "words.held"), Column("Fence", .fence, "fence"), Column("Remaining", .left, "ttl_ms"),
            Column("Waiting", .text, "words.waiting"),
        ]
    ) { lock, _ in
        let holders = lock["holders"].integer ?? 0
        let queue = lock["queue"].list.reduce(Int64(0)) { $0 &+ ($1["waiters"].integer ?? 1) }
        let together = holders > 1 && lock["permits"].integer == nil ? ", by \(holders)" : ""
        return [
            "held": holders > 0 ? mode(of: lock) + together : "no",
            "waiting": "\(max(lock["waiters"].integer ?? 0, queue))",
        ]
    }

    package static let holders = ViewModel(
        title: "Holders", part: "lock", rows: "leases", key: ["label", "fence"], empty: "Nobody holds this lock.",
        columns: [
            Column("Holder", .text, "label"), Column("Fence", .fence, "fence"), Column("Remaining", .left, "ttl_ms"),
        ])

    package static let queue = ViewModel(
        title: "Queue", part: "lock", rows: "queue", key: ["sidecar"], empty: "Nobody is waiting.",
        columns: [
            Column("Position", .position), Column("Sidecar", .text, "sidecar"),
            Column("Waiting", .number, "waiters", empty: "unknown"),
        ])

    package static let grants = ViewModel(
        title: "Last 100 grants by this sidecar", part: "grants", rows: "grants", key: ["name", "fence", "granted_ms"],
        empty: "This sidecar has not granted any locks yet.",
        columns: [
            Column("Granted", .moment, "granted_ms"), Column("Lock", .lock, "name"), Column("Holder", .text, "label"),
            Column("Fence", .fence, "fence"), Column("Mode", .text, "words.mode"), Column("Waited", .span, "waited_ms"),
            Column("Held for", .since, "granted_ms", "ended_ms"), Column("End", .text, "end", empty: "still held"),
        ]
    ) { grant, _ in ["mode": grant["permits"].integer.map { "one of \($0) slots" } ?? grant["mode"].text ?? ""] }

    package static let lockGrants = ViewModel(
        title: "Recent grants by this sidecar", part: "grants", rows: "grants", key: grants.key,
        empty: "This sidecar's last 100 grants do not include this lock.", columns: grants.columns.filter { $0.kind != .lock },
        words: grants.words)

    // MARK: Services

    package static let services = ViewModel(
        title: "Services", part: "services", rows: "services", key: ["service"],
        empty: "No matching services are configured.",
        columns: [
            Column("Service", .service, "service"), Column("Breaker", .state, "state"), Column("Failing", .rate, "failure_rate"),
            Column("Slow", .rate, "slow_rate"), Column("In progress", .number, "under_way"),
            Column("Waiting", .number, "waiting"),
            Column("Taken/min", .number, "minute.calls_taken"), Column("Limited/min", .number, "minute.calls_limited"),
            Column("Why", .text, "words.why"), untilColumn, probeColumn,
        ]
    ) { service, _ in ["why": reasons(service), "until": end(of: service), "probe": finding(service["probe"])] }

    package static let service = ViewModel(
        title: "Service", part: "service", key: ["service"], empty: "This service is no longer configured.",
        columns: [
            Column("Breaker", .state, "state"), Column("Why", .text, "words.why"), untilColumn,
            Column("Since", .moment, "since_ms"),
            Column("For", .since, "since_ms"), Column("Failing", .text, "words.failing"), Column("Slow", .rate, "slow_rate"),
            Column("Trips", .number, "trips"),
            Column("Calls in progress here", .number, "under_way"),
            Column("Slots here", .number, "places", empty: "unlimited"),
            Column("Calls waiting here", .number, "waiting"), probeColumn,
        ]
    ) { service, _ in
        let rate = ReadableText.percentage(service["failure_rate"].number ?? 0)
        let calls = service["calls"].integer ?? 0
        return [
            "why": reasons(service), "until": end(of: service), "probe": finding(service["probe"]),
            "failing": "\(rate) of \(calls == 1 ? "1 call" : "\(calls) calls")",
        ]
    }

    package static let limits = ViewModel(
        title: "Limits", part: "limits", rows: "rows", key: ["name"], empty: "This service has no limits.",
        columns: [
            Column("Limit", .text, "name"), Column("In use", .meter, "words.used", "used"),
            Column("Peak, last minute", .peak, "used"), Column("Window", .span, "window_ms"),
            Column("Refused here", .number, "refused"), Column("Retry in", .left, "retry_after_ms"), kindColumn,
        ]
    ) { limit, _ in
        let maximum = limit["limit"].integer ?? 0
        return [
            "used": limit["used"].integer.map { "\($0) of \(maximum)" } ?? "\(maximum) per subject",
            "kind": kind(of: limit),
        ]
    }

    package static let history = ViewModel(
        title: "Breaker history", part: "service", rows: "history", key: ["at_ms", "generation", "state"],
        empty: "The breaker has not changed since this sidecar started.",
        columns: [
            Column("When", .moment, "at_ms"), Column("Breaker", .state, "state"), Column("Failing", .rate, "failure_rate"),
            Column("Slow", .rate, "slow_rate"), Column("Why", .text, "words.why"),
        ]
    ) { change, _ in ["why": reasons(change)] }

    package static let domains = ViewModel(
        title: "Envoy rate limit domains", part: "domains", rows: "domains.rules", key: ["words.domain", "rule"],
        empty: "No domains are configured (see rate_limits).",
        columns: [
            Column("Domain", .text, "words.domain"), Column("Rule", .text, "words.rule"), Column("Limit", .text, "words.limit"),
            Column("Window", .span, "window_ms"), kindColumn, Column("Allowed", .number, "ok"),
            Column("Refused", .number, "over_limit"),
            Column("Shadow refusals", .number, "shadow_refusals"),
        ]
    ) { rule, domain in
        let limit = rule["limit"].integer.map { $0 == 0 ? "blocks everything" : "\($0)" } ?? "unlimited"
        let isShadow = rule["shadow"].flag || domain["shadow"].flag
        return [
            "domain": domain["domain"].text ?? "", "limit": limit, "kind": kind(of: rule.adding("shadow", .bool(isShadow))),
            "rule": (rule["rule"].text ?? "") + (rule["name"].text.map { " (\($0))" } ?? ""),
        ]
    }

    package static let events = ViewModel(
        title: "Recent events", part: "events", rows: "events", key: ["words.number"],
        empty: "No events since this sidecar started.",
        columns: [
            Column("When", .moment, "at_ms"), Column("Event", .text, "type"), Column("Source", .text, "origin"),
            Column("Details", .text, "words.what"),
        ]
    ) { event, _ in
        let json = (try? event.json()).map { Array($0) }
        return ["what": json.flatMap { ReceivedEvent($0) }?.event?.sentence ?? ""]
    }

    /// Returns the rows of `limits`: first the limits that were read from Redis, then the limits per subject, whose
    /// usage is not read.
    /// - Parameters:
    ///   - readLimits: the limits that were read from Redis.
    ///   - configuredLimits: the configured limits, each with its number of refusals by this sidecar.
    package static func limitRows(read readLimits: JSONValue?, configured configuredLimits: JSONValue?) -> JSONValue {
        let rows = readLimits.list.map { limit in
            let used = (limit["limit"].integer ?? 0) &- (limit["remaining"].integer ?? 0)
            return limit.adding("used", .integer(max(0, used)))
                .adding("refused", configuredLimits.list.first { $0["name"] == limit["name"] }?["refused"])
                .adding("retry_after_ms", limit["limited"].flag ? limit["retry_after_ms"] : nil)
        }
        return .array(rows + configuredLimits.list.filter { $0["per_subject"].flag })
    }

    // MARK: Words

    private static let probeColumn = Column("Probe", .ago, "words.probe", "probe.at_ms")
    private static let kindColumn = Column("Kind", .text, "words.kind")
    private static let untilColumn = Column("Until", .moment, "words.until")

    private static func holder(of lock: JSONValue) -> String {
        let holders = lock["holders"].integer ?? 0
        guard holders > 0 else { return (lock["waiters"].integer ?? 0) > 0 ? "being handed over" : "nobody" }
        // If a lock can have several holders, its label denotes the group.
        let holderLabel = lock["mode"].text == "exclusive" ? nil : lock["leases"].list.first?["label"].text
        let label = holderLabel ?? lock["label"].text ?? ""
        return holders > 1 ? "\(label) and \(holders - 1) more" : label
    }

    private static func mode(of lock: JSONValue) -> String {
        lock["permits"].integer.map { "\(lock["holders"].integer ?? 0) of \($0) slots" } ?? lock["mode"].text ?? ""
    }

    /// Returns the reasons for a breaker's state, without the end of that state, which has a separate column.
    private static func reasons(_ breaker: JSONValue) -> String {
        BreakerSnapshot(
            state: .closed, text: { breaker[$0].text }, number: { $0.hasSuffix("until_ms") ? nil : breaker[$0].integer },
            rate: { breaker[$0].number }
        ).reasons(ownCause: breaker["own_cause"].text)
    }

    /// Returns the end of a breaker's state as Unix time in milliseconds; empty if the state has no set end.
    private static func end(of breaker: JSONValue) -> String {
        let end = breaker[breaker["forced"].text == nil ? "until_ms" : "forced_until_ms"].integer ?? 0
        return end > 0 ? "\(end)" : ""
    }

    /// Returns the last finding of a service's probe, or the prober if there is no finding yet.
    private static func finding(_ probe: JSONValue?) -> String {
        guard let finding = probe["finding"].text else { return probe["prober"].text.map { "no result yet (\($0))" } ?? "" }
        return finding + (probe["reason"].text.map { ": \($0)" } ?? "")
    }

    private static func kind(of limit: JSONValue) -> String {
        let properties = [
            limit["algorithm"].text, limit["per_subject"].flag ? "per subject" : nil, limit["shadow"].flag ? "shadow" : nil,
        ]
        return properties.compactMap(\.self).joined(separator: ", ")
    }
}
