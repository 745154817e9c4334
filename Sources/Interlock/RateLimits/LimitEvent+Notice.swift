internal import InterlockCore

extension LimitEvent {
    init(_ notice: LimitNotices.Notice, of service: GuardedService) {
        let kind: Kind =
            switch notice.kind {
            case .near: .near
            case .reached: .reached
            case .shadow: .shadow
            }
        self.init(
            kind: kind, service: service.name, limit: service.definition.limits[notice.definition].name,
            subject: notice.subject, used: notice.used, capacity: notice.capacity)
    }
}
