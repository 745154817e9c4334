internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import Synchronization

/// Leave to make one call, whose outcome is reported once. One that is dropped unreported says nothing of the service.
final class ProxyPermit: Sendable {
    private let coordinator: Coordinator
    private let service: String
    private let id: PermitID
    private let isReported = Atomic(false)

    init(_ id: PermitID, service: String, coordinator: Coordinator) {
        self.id = id
        self.service = service
        self.coordinator = coordinator
    }

    deinit {
        report(OutcomeReport(outcome: .ignore))
    }

    /// Says what became of the call; does not wait until it is taken note of. Only the first report counts.
    func report(_ report: OutcomeReport) {
        guard !isReported.exchange(true, ordering: .relaxed) else { return }
        coordinator.eventLoop.execute { [coordinator, service, id] in
            coordinator.callsOnEventLoop().reportPermit(
                service: service, permit: id, report, completion: Completion { _, _ in true })
        }
    }
}
