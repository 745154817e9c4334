internal import InterlockCore

/// Where locks are kept: in the fleet's one Redis, or on a majority of several. Confined to the coordinator's event loop.
protocol LockProvider: AnyObject {
    /// How many callers wait.
    var waiting: Int { get }

    /// How many leases were granted here and are still valid. O(n).
    func held(now: Instant) -> Int

    /// Takes a lock, or waits for it. Returns an ID by which the wait can be given up.
    func acquire(_ request: LockRequest, completion: Completion<LockAnswer>) -> UInt64

    /// Gives up a wait: the completion is not called any more, and what is granted meanwhile is given back.
    func cancel(_ id: UInt64)

    func renew(name: ResourceName, token: String, ttl: Int64, completion: Completion<RenewAnswer>)
    func release(name: ResourceName, token: String, completion: Completion<ReleaseAnswer>)
    func breakLock(name: ResourceName, by: String, completion: Completion<ReleaseAnswer>)
    func inspect(name: ResourceName, completion: Completion<Result<LockInformation?, InterlockError>>)

    /// One step through the names of locks that are held: bounded in time by `count`, 1…1000.
    func list(cursor: String, glob: String, count: Int, completion: Completion<Result<LockPage, InterlockError>>)
}

extension LockCoordinator: LockProvider {}
extension QuorumLocks: LockProvider {}

extension InterlockError {
    /// What only one Redis can do.
    static func notOnQuorum(_ what: String) -> InterlockError {
        InterlockError(
            .invalid, "\(what) is not possible with redis.urls: locks on a majority of servers are exclusive, and renewed by hand"
        )
    }
}
