import Hiredis

extension SidecarReading {
    /// Asks a sidecar. While its Redis is down, what it knows by itself is all there is.
    init(from connection: SidecarConnection) async throws {
        let report = try await connection.send(Info(section: "all"))
        func text(_ name: String) -> String { report[name] ?? "" }
        func number(_ name: String) -> Int64? { report[name].flatMap { Int64($0) } }

        guard let version = report["interlock_version"], let isUp = number("redis_up").map({ $0 == 1 }) else {
            throw Failure(
                "what answers at \(connection.address) is no sidecar: name one with --sidecar", exitCode: .unavailable)
        }
        sidecar = Sidecar(
            address: connection.address.description, id: text("id"), version: version, host: text("host"),
            process: number("process_id"), connections: number("connected_clients"))
        redis = Redis(
            address: text("redis"), isUp: isUp, failure: text("redis_failure"), version: text("redis_version"),
            evictionPolicy: text("maxmemory_policy"))
        servicesDiffering = text("services_differing").split(separator: ",").map { String($0) }
        fleet = text("members").split(separator: ",").map { String($0) }
        locks = Locks(
            held: number("locks_held") ?? 0, waiting: number("locks_waiting") ?? 0, heldInFleet: nil, areMoreInFleet: false)
        services = try await connection.send(ListBreakers())
        guard isUp else { return }
        let (names, isComplete) = try await connection.lockNames(matching: "*", limit: LockListing.standardLimit)
        locks.heldInFleet = names.count
        locks.areMoreInFleet = !isComplete
    }
}
