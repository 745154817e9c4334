internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import SidecarListeners

/// Renders the parts of views from the sidecar's state and from Redis. Confined to the coordinator's event loop.
struct LiveParts {
    let coordinator: LoopBoundCoordinator
    let probe: ProbeReadings.Lookup
    let rates: RateHistory
    let events: EventHistory
    let budget: ReadBudget
    private let serviceCache = ServiceJSONCache()

    init(
        coordinator: LoopBoundCoordinator, probe: @escaping ProbeReadings.Lookup, rates: RateHistory,
        events: EventHistory,
        budget: ReadBudget
    ) {
        self.coordinator = coordinator
        self.probe = probe
        self.rates = rates
        self.events = events
        self.budget = budget
    }

    /// The time until content that was read from Redis is read again.
    private enum LifetimeMilliseconds {
        static let lock: Int64 = 500
        static let limits: Int64 = 500
        static let page: Int64 = 4000
        static let fleet: Int64 = 5000
        /// The minimum time per sidecar of the fleet, because listing the fleet costs one command per sidecar.
        static let sidecar: Int64 = 300
    }

    /// The maximum number of services on a page.
    static let servicesPerPage = 100
    /// The maximum number of breakers that are listed as not closed.
    private static let maximumBreakers = 20
    /// The maximum number of services that are listed because their limits refused calls.
    private static let maximumLimitedServices = 10

    /// Renders a topic from the sidecar's state and the topic's last read from Redis.
    func refresh(_ topic: LiveTopic) {
        guard !topic.part.isReadFromRedis || topic.reading.isShowable else { return }
        switch topic.part {
        case .sidecar:
            topic.show(sidecar())
        case .redis:
            topic.show(RedisStatusReply.fields(coordinator.status))
        case .fleet:
            topic.show(
                stamp: topic.reading.readCount,
                topic.reading.fields(empty: FleetReply.fields([])).merging(["own_id": .string(coordinator.status.id)]) {
                    $1
                })
        case .rates:
            topic.show(
                stamp: rates.sampleCount,
                [
                    "interval_ms": .integer(1000), "series": .object(rates.fields),
                    "until_ms": .integer(coordinator.wallTimeMilliseconds()),
                ])
        case .events:
            topic.show(stamp: Int(events.lastNumber)) { events.write(into: &$0) }
        case .locks(let search, let cursor):
            topic.show(
                stamp: topic.reading.readCount &+ coordinator.grantChanges,
                LockPages.fields(topic.reading, coordinator.grants(of: nil), search: search, isFirst: cursor == "0"))
        case .lock(let name):
            topic.show(stamp: topic.reading.readCount, topic.reading.fields(empty: Self.unheldLock(name)))
        case .grants(let name):
            // The sample count refreshes the part every second, because expired leases do not count as changes.
            topic.show(
                stamp: coordinator.grantChanges &+ rates.sampleCount,
                GrantListReply.fields(coordinator.grants(of: name)))
        case .domains:
            topic.show(DomainListReply.fields(coordinator.allDomains()))
        case .services(let search, let from):
            topic.show { write(servicesMatching: search, from: from, into: &$0) }
        case .service(let name):
            topic.show(service(name.text))
        case .limits(let name):
            var fields = topic.reading.fields(empty: ["limits": .array([])])
            fields["rows"] = ViewModel.limitRows(read: fields["limits"], configured: limits(ofService: name.text))
            topic.show(fields)
        case .lastMinute(let name):
            topic.show(
                stamp: rates.sampleCount,
                ["interval_ms": .integer(1000), "series": .object(rates.fields(ofService: name.text))])
        }
    }

    /// Reads a topic's content from Redis if a read is due.
    func read(_ topic: LiveTopic, now: Instant) {
        let wallMilliseconds = { [coordinator] in coordinator.wallTimeMilliseconds() }
        switch topic.part {
        case .fleet:
            topic.readIfDue(now: now, wallMilliseconds: wallMilliseconds, budget: budget) { done in
                coordinator.listFleet(
                    completion: Completion { _, result in
                        let sidecarCount = Int64((try? result.get().count) ?? 0)
                        done(
                            result.map(FleetReply.fields),
                            max(LifetimeMilliseconds.fleet, sidecarCount * LifetimeMilliseconds.sidecar),
                            // Counted as one command, because the lifetime spreads the cost of a large fleet.
                            1)
                        return true
                    })
            }
        case .locks(let search, let cursor):
            let maximumCommands = LockPages.maximumCommands(coordinator)
            topic.readIfDue(
                now: now, wallMilliseconds: wallMilliseconds, budget: budget, maximum: maximumCommands
            ) { done in
                LockPages(coordinator: coordinator, search: search, cursor: cursor).read {
                    done($0, LifetimeMilliseconds.page, $1)
                }
            }
        case .lock(let name):
            topic.readIfDue(now: now, wallMilliseconds: wallMilliseconds, budget: budget) { done in
                coordinator.inspectLock(
                    name,
                    completion: Completion { _, result in
                        done(
                            result.map { $0.map(LockReply.fields) ?? Self.unheldLock(name) }, LifetimeMilliseconds.lock,
                            1)
                        return true
                    })
            }
        case .limits(let name):
            topic.readIfDue(now: now, wallMilliseconds: wallMilliseconds, budget: budget) { done in
                coordinator.listLimits(
                    service: name.text, subject: nil,
                    completion: Completion { _, result in
                        done(
                            result.map { ["limits": .array($0.map { .object($0.fields) })] },
                            LifetimeMilliseconds.limits, 1)
                        return true
                    })
            }
        case .sidecar, .redis, .rates, .events, .domains, .grants, .services, .service, .lastMinute:
            break
        }
    }

    /// Returns the members of a lock without holders or waiters.
    private static func unheldLock(_ name: ResourceName) -> [String: JSONValue] {
        LockReply.fields(LockInformation(unheld: name))
    }

    // MARK: The state of this sidecar

    private func sidecar() -> [String: JSONValue] {
        let status = coordinator.status
        let notClosed = coordinator.allBreakers().filter { $0.state != .closed || $0.fleet.forced != nil }
        return [
            "breakers": .array(notClosed.prefix(Self.maximumBreakers).map { .object(ServiceReply.fields($0, probe: nil)) }),
            "breakers_not_closed": .integer(Int64(notClosed.count)),
            "calls_waiting": .integer(Int64(status.waitingPermitCount)),
            "fleet": .integer(Int64(status.fleet.count)),
            "host": .string(status.host),
            "id": .string(status.id),
            "limited": .array(rates.limitedServices(maximum: Self.maximumLimitedServices).map { .object($0) }),
            "locks_held": .integer(Int64(status.heldLockCount)),
            "locks_waiting": .integer(Int64(status.lockWaiterCount)),
            "permits_under_way": .integer(Int64(status.inFlightPermitCount)),
            "redis": .object([
                "address": .string(status.redis), "scope": .string(status.redisScope.rawValue), "up": .bool(status.isRedisUp),
                "failure": status.redisFailure.map { .string($0) } ?? .null,
            ]),
            "services": .integer(Int64(status.serviceCount)),
            "services_differing": .array(status.servicesDiffering.map { .string($0) }),
            "version": .string(status.version),
        ]
    }

    private func write(servicesMatching search: ExactText, from: Int, into buffer: inout ByteBuffer) {
        serviceCache.update(at: coordinator.now(), coordinator.allBreakers)
        let foundIndices = serviceCache.statuses.indices.filter { search.isPart(of: serviceCache.statuses[$0].service) }
        buffer.writeString("{\"from\":\(from),\"services\":[")
        for (offset, index) in foundIndices.dropFirst(from).prefix(Self.servicesPerPage).enumerated() {
            if offset > 0 { buffer.writeInteger(UInt8(ascii: ",")) }
            buffer.writeImmutableBuffer(serviceCache.json(index) { ViewModel.services.completed(.object(fields($0))) })
        }
        buffer.writeString("],\"total\":\(foundIndices.count)}")
    }

    private func service(_ name: String) -> [String: JSONValue] {
        // The service may have been removed from the configuration since the view was opened.
        guard case .success(let status) = coordinator.breaker(service: name) else { return ["service": .null] }
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
            (coordinator.limitRefusals(ofService: name) ?? []).map { limit, refused in
                .object([
                    "name": .string(limit.name), "limit": .integer(limit.limit), "window_ms": .integer(limit.windowMilliseconds),
                    "per_subject": .bool(limit.isPerSubject), "shadow": .bool(limit.isShadow), "refused": .integer(refused),
                ])
            })
    }

    private func fields(_ status: BreakerStatus) -> [String: JSONValue] {
        var fields = ServiceReply.fields(status, probe: probe(status.service))
        let activity = coordinator.activity(ofService: status.service)
        fields["under_way"] = .integer(Int64(activity?.inFlightCount ?? 0))
        fields["waiting"] = .integer(Int64(activity?.waitingCount ?? 0))
        fields["places"] = activity?.slots.map { .integer(Int64($0)) } ?? .null
        fields["minute"] = .object(rates.lastMinute(ofService: status.service))
        return fields
    }
}

/// The JSON of the services. Each service is encoded once for all pages that are rendered within a few milliseconds.
/// Confined to the coordinator's event loop.
private final class ServiceJSONCache {
    /// The time for which the JSON is reused.
    private static let lifetimeMilliseconds: Int64 = 20

    private(set) var statuses: [BreakerStatus] = []
    private var encodedServices: [ByteBuffer?] = []
    private var expiry = Instant(nanoseconds: .min)

    /// Reads the services again if the JSON is too old.
    func update(at now: Instant, _ read: () -> [BreakerStatus]) {
        guard now >= expiry else { return }
        expiry = now.advanced(byMilliseconds: Self.lifetimeMilliseconds)
        statuses = read()
        encodedServices = Array(repeating: nil, count: statuses.count)
    }

    /// Returns the JSON of the service at an index.
    func json(_ index: Int, _ fields: (BreakerStatus) -> JSONValue) -> ByteBuffer {
        if let json = encodedServices[index] { return json }
        var json = ByteBuffer()
        fields(statuses[index]).write(into: &json)
        encodedServices[index] = json
        return json
    }
}

extension ExactText {
    /// Returns whether `other` contains this text, compared byte by byte. Every text contains the empty one. O(n·m).
    func isPart(of other: String) -> Bool {
        let bytes = text.utf8
        guard !bytes.isEmpty else { return true }
        var remaining = other.utf8[...]
        while remaining.count >= bytes.count {
            if remaining.starts(with: bytes) { return true }
            remaining.removeFirst()
        }
        return false
    }
}
