internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import SidecarListeners

/// Renders the parts of views from the sidecar's state and from Redis. Confined to the coordinator's event loop.
struct LiveParts {
    let calls: CoordinatorCalls
    let probe: ProbeReadings.Lookup
    let rates: RateHistory
    let events: EventHistory
    let budget: ReadBudget
    private let services = ServiceJSONCache()

    init(
        calls: CoordinatorCalls, probe: @escaping ProbeReadings.Lookup, rates: RateHistory, events: EventHistory,
        budget: ReadBudget
    ) {
        self.calls = calls
        self.probe = probe
        self.rates = rates
        self.events = events
        self.budget = budget
    }

    /// How long content read from Redis stays fresh, in milliseconds.
    private enum Lifetime {
        static let lock: Int64 = 500
        static let limits: Int64 = 500
        static let page: Int64 = 4000
        static let fleet: Int64 = 5000
        /// The additional time per sidecar of the fleet, because listing the fleet costs one command per sidecar.
        static let sidecar: Int64 = 300
    }

    /// The maximum number of services on a page.
    static let servicesPerPage = 100
    /// The maximum number of breakers that are listed as not closed.
    private static let maximumBreakers = 20
    /// The maximum number of services that are listed for their refused calls.
    private static let maximumLimitedServices = 10

    /// Renders a topic from the sidecar's state and the topic's last read from Redis.
    func refresh(_ topic: LiveTopic) {
        guard !topic.part.isReadFromRedis || topic.reading.isShowable else { return }
        switch topic.part {
        case .sidecar:
            topic.show(sidecar())
        case .redis:
            topic.show(RedisStatusReply.fields(calls.status))
        case .fleet:
            topic.show(
                stamp: topic.reading.count,
                topic.reading.fields(empty: FleetReply.fields([])).merging(["own_id": .string(calls.status.id)]) { $1 })
        case .rates:
            topic.show(
                stamp: rates.samples,
                ["interval_ms": .integer(1000), "series": .object(rates.fields), "until_ms": .integer(calls.wallTime())])
        case .events:
            topic.show(stamp: Int(events.last)) { events.write(into: &$0) }
        case .locks(let search, let cursor):
            topic.show(
                stamp: topic.reading.count &+ calls.grantChanges,
                LockPages.fields(topic.reading, calls.grants(of: nil), search: search, isFirst: cursor == "0"))
        case .lock(let name):
            topic.show(stamp: topic.reading.count, topic.reading.fields(empty: Self.unheldLock(name)))
        case .grants(let name):
            // The sample count refreshes the part every second, because expired leases do not count as changes.
            topic.show(
                stamp: calls.grantChanges &+ rates.samples, GrantListReply.fields(calls.grants(of: name)))
        case .domains:
            topic.show(DomainListReply.fields(calls.allDomains()))
        case .services(let search, let from):
            topic.show { write(servicesMatching: search, from: from, into: &$0) }
        case .service(let name):
            topic.show(service(name.text))
        case .limits(let name):
            var fields = topic.reading.fields(empty: ["limits": .array([])])
            fields["rows"] = ViewModel.limitRows(read: fields["limits"], known: limits(ofService: name.text))
            topic.show(fields)
        case .minute(let name):
            topic.show(
                stamp: rates.samples,
                ["interval_ms": .integer(1000), "series": .object(rates.fields(ofService: name.text))])
        }
    }

    /// Reads a topic's content from Redis again if that is due.
    func read(_ topic: LiveTopic, now: Instant) {
        let wall = { [calls] in calls.wallTime() }
        switch topic.part {
        case .fleet:
            topic.readIfDue(now: now, wall: wall, budget: budget) { done in
                calls.listFleet(
                    completion: Completion { _, result in
                        let size = Int64((try? result.get().count) ?? 0)
                        done(
                            result.map(FleetReply.fields), max(Lifetime.fleet, size * Lifetime.sidecar),
                            // Charged as one command: the lifetime spreads the cost of a large fleet.
                            1)
                        return true
                    })
            }
        case .locks(let search, let cursor):
            topic.readIfDue(now: now, wall: wall, budget: budget, maximum: LockPages.maximumCommands(calls)) { done in
                LockPages(calls: calls, search: search, cursor: cursor).read { done($0, Lifetime.page, $1) }
            }
        case .lock(let name):
            topic.readIfDue(now: now, wall: wall, budget: budget) { done in
                calls.inspectLock(
                    name,
                    completion: Completion { _, result in
                        done(result.map { $0.map(LockReply.fields) ?? Self.unheldLock(name) }, Lifetime.lock, 1)
                        return true
                    })
            }
        case .limits(let name):
            topic.readIfDue(now: now, wall: wall, budget: budget) { done in
                calls.listLimits(
                    service: name.text, subject: nil,
                    completion: Completion { _, result in
                        done(result.map { ["limits": .array($0.map { .object($0.fields) })] }, Lifetime.limits, 1)
                        return true
                    })
            }
        case .sidecar, .redis, .rates, .events, .domains, .grants, .services, .service, .minute:
            break
        }
    }

    /// Returns the members of a lock without holders or waiters.
    private static func unheldLock(_ name: ResourceName) -> [String: JSONValue] {
        LockReply.fields(LockInformation(unheld: name))
    }

    // MARK: The state of this sidecar

    private func sidecar() -> [String: JSONValue] {
        let status = calls.status
        let notClosed = calls.allBreakers().filter { $0.state != .closed || $0.fleet.forced != nil }
        return [
            "breakers": .array(notClosed.prefix(Self.maximumBreakers).map { .object(ServiceReply.fields($0, probe: nil)) }),
            "breakers_not_closed": .integer(Int64(notClosed.count)),
            "calls_waiting": .integer(Int64(status.permitsWaiting)),
            "fleet": .integer(Int64(status.fleet.count)),
            "host": .string(status.host),
            "id": .string(status.id),
            "limited": .array(rates.limitedServices(maximum: Self.maximumLimitedServices).map { .object($0) }),
            "locks_held": .integer(Int64(status.locksHeld)),
            "locks_waiting": .integer(Int64(status.locksWaiting)),
            "permits_under_way": .integer(Int64(status.permitsInFlight)),
            "redis": .object([
                "address": .string(status.redis), "scope": .string(status.redisScope.rawValue), "up": .bool(status.isRedisUp),
                "failure": status.redisFailure.map { .string($0) } ?? .null,
            ]),
            "services": .integer(Int64(status.services)),
            "services_differing": .array(status.servicesDiffering.map { .string($0) }),
            "version": .string(status.version),
        ]
    }

    private func write(servicesMatching search: ExactText, from: Int, into buffer: inout ByteBuffer) {
        services.update(at: calls.now(), calls.allBreakers)
        let found = services.statuses.indices.filter { search.isPart(of: services.statuses[$0].service) }
        buffer.writeString("{\"from\":\(from),\"services\":[")
        for (offset, index) in found.dropFirst(from).prefix(Self.servicesPerPage).enumerated() {
            if offset > 0 { buffer.writeInteger(UInt8(ascii: ",")) }
            buffer.writeImmutableBuffer(services.text(index) { ViewModel.services.completed(.object(fields($0))) })
        }
        buffer.writeString("],\"total\":\(found.count)}")
    }

    private func service(_ name: String) -> [String: JSONValue] {
        // The service may have been removed from the configuration since the view was opened.
        guard case .success(let status) = calls.breaker(service: name) else { return ["service": .null] }
        var fields = fields(status)
        fields["limits"] = limits(ofService: name)
        fields["history"] = .array(
            events.changes(ofService: name).map { change in
                var fields = ServiceReply.fields(change.breaker)
                fields["at_ms"] = .integer(change.atMilliseconds)
                fields["origin"] = .string(change.origin)
                return .object(fields)
            })
        return fields
    }

    private func limits(ofService name: String) -> JSONValue {
        .array(
            (calls.limitRefusals(ofService: name) ?? []).map { limit, refused in
                .object([
                    "name": .string(limit.name), "limit": .integer(limit.limit), "window_ms": .integer(limit.windowMilliseconds),
                    "per_subject": .bool(limit.isPerSubject), "shadow": .bool(limit.isShadow), "refused": .integer(refused),
                ])
            })
    }

    private func fields(_ status: BreakerStatus) -> [String: JSONValue] {
        var fields = ServiceReply.fields(status, probe: probe(status.service))
        let activity = calls.activity(ofService: status.service)
        fields["under_way"] = .integer(Int64(activity?.inFlight ?? 0))
        fields["waiting"] = .integer(Int64(activity?.waiting ?? 0))
        fields["places"] = activity?.slots.map { .integer(Int64($0)) } ?? .null
        fields["minute"] = .object(rates.minute(ofService: status.service))
        return fields
    }
}

/// The services as JSON, each encoded once for all pages that are rendered within a few milliseconds. Confined to the
/// coordinator's event loop.
private final class ServiceJSONCache {
    /// How long the JSON is reused, in milliseconds.
    private static let lifetime: Int64 = 20

    private(set) var statuses: [BreakerStatus] = []
    private var texts: [ByteBuffer?] = []
    private var expiry = Instant(nanoseconds: .min)

    func update(at now: Instant, _ read: () -> [BreakerStatus]) {
        guard now >= expiry else { return }
        expiry = now.advanced(byMilliseconds: Self.lifetime)
        statuses = read()
        texts = Array(repeating: nil, count: statuses.count)
    }

    func text(_ index: Int, _ fields: (BreakerStatus) -> JSONValue) -> ByteBuffer {
        if let text = texts[index] { return text }
        var text = ByteBuffer()
        fields(statuses[index]).write(into: &text)
        texts[index] = text
        return text
    }
}

extension ExactText {
    /// Returns whether `other` contains this text, compared byte by byte. Every text contains the empty one. O(n·m).
    func isPart(of other: String) -> Bool {
        let bytes = text.utf8
        guard !bytes.isEmpty else { return true }
        var rest = other.utf8[...]
        while rest.count >= bytes.count {
            if rest.starts(with: bytes) { return true }
            rest.removeFirst()
        }
        return false
    }
}
