internal import FoundationEssentials
internal import InterlockCore
internal import RedisClient

/// One lock request, from the call to its answer.
final class LockWaiter {
    enum State {
        case waiting
        /// The waiter was answered or cancelled. A grant that arrives later is released.
        case left
        /// The waiter has the lock, or is about to get it.
        case served
    }

    let id: LockQueue.WaiterID
    let request: LockRequest
    let token: String
    let completion: Completion<LockResult>
    let startedAt: Instant
    var state = State.waiting
    /// Whether an unanswered command may have granted the lock to this waiter.
    var mayHold = false
    /// Whether the wait has ended while a command is in progress. The reply then decides the outcome.
    var isOverdue = false
    var timeout: Deadlines.Entry?

    init(
        id: LockQueue.WaiterID, request: LockRequest, token: String, completion: Completion<LockResult>, startedAt: Instant
    ) {
        self.id = id
        self.request = request
        self.token = token
        self.completion = completion
        self.startedAt = startedAt
    }
}

extension CoordinatorRuntime {
    /// Returns the token that the owner chose, or a new unique one.
    func token(for request: LockRequest) -> String {
        request.owner ?? OwnerToken.make(label: request.label ?? host, random: entropy.drawPair())
    }
}
