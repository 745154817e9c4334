internal import Interlock
internal import NIOCore

extension RESPCommands {
    /// Runs `FLEET.LIST`.
    func listFleet(_ tag: UInt64, _ connection: RESPConnection) {
        let completion = Completion<Result<[FleetMember], InterlockError>>(tag: tag) { tag, result in
            connection.reply(tag) { writer in
                switch result {
                case .failure(let error): writer.error(error)
                case .success(let members):
                    writer.array(members.count)
                    for member in members { writer.sidecar(member) }
                }
            }
        }
        coordinator.listFleet(completion: completion)
    }

    /// Runs `LIVE.VIEW view [NAME name] [SEARCH text] [CURSOR n] [FROM n]`: replies with a view of the console as one
    /// JSON object.
    func showLiveView(
        _ source: LiveView.Source, _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection
    ) throws(InterlockError) {
        let options = try RESPOptions(request, from: 2, allowed: [.name, .search, .cursor, .from])
        let view = try LiveView(
            request.text(1), name: options.text(.name), search: options.text(.search), cursor: options.text(.cursor),
            from: options.text(.from))
        try source(view) { frame in
            connection.reply(tag) { writer in frame.withUnsafeReadableBytes { writer.bulk($0) } }
        }
    }
}

extension RESPWriter {
    /// Writes a live sidecar as a map.
    fileprivate func sidecar(_ member: FleetMember) {
        map(7)
        bulk("id")
        bulk(member.id)
        bulk("host")
        bulkOrNull(member.host)
        bulk("pid")
        integerOrNull(member.processID)
        bulk("version")
        bulkOrNull(member.version)
        bulk("started_ms")
        integerOrNull(member.startedMilliseconds)
        bulk("configuration")
        bulkOrNull(member.configurationDigest)
        bulk("differs")
        array(member.differingServices.count)
        for service in member.differingServices { bulk(service) }
    }
}
