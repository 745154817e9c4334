internal import FoundationEssentials
internal import InterlockCore
internal import RedisClient

/// One lock request, from the call to its answer.
final class LockWaiter {
    enum Standing {
        case waiting
        /// It has its answer, or nobody wants it any more: what is still granted to it goes to the next.
        case left
        /// The lock is its, or is being handed to it.
        case served
    }

    let id: LockQueue.WaiterID
    let request: LockRequest
    let token: String
    let completion: Completion<LockAnswer>
    let startedAt: Instant
    var standing = Standing.waiting
    /// Something that could have granted it the lock has no answer.
    var mayHold = false
    /// Its wait is over, and what is under way for it is not: that decides its answer.
    var isOverdue = false
    var timeout: Deadlines.Entry?

    init(
        id: LockQueue.WaiterID, request: LockRequest, token: String, completion: Completion<LockAnswer>, startedAt: Instant
    ) {
        self.id = id
        self.request = request
        self.token = token
        self.completion = completion
        self.startedAt = startedAt
    }
}

extension CoordinatorRuntime {
    /// The token that its owner chose, or one that nobody has ever had.
    func token(for request: LockRequest) -> String {
        request.owner ?? OwnerToken.make(label: request.label ?? host, random: entropy.drawPair())
    }
}
