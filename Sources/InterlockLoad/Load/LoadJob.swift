internal import InterlockJudge
internal import InterlockCore

/// What a client does from being free until it is free again.
enum LoadJob: Hashable, Sendable {
    /// Acquire, hold, release.
    case lockCycle(lock: Int, mode: LeaseMode)
    /// `wait` in ms.
    case take(service: Int, cost: Int64, subject: Int?, wait: Int64)
    /// A permit, a call, a report. `wait` in ms.
    case call(service: Int, wait: Int64)
    case proxied(service: Int)

    /// What it begins with.
    var kind: OperationKind {
        switch self {
        case .lockCycle: .acquire
        case .take: .take
        case .call: .permit
        case .proxied: .proxied
        }
    }
}

/// A job and when it should begin.
struct DueJob: Sendable {
    var job: LoadJob
    var due: Instant
}
