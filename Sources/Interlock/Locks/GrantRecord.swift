internal import InterlockCore

/// One grant of a lock through this sidecar.
package struct GrantRecord: Hashable, Sendable {
    package var name: String
    package var label: String
    package var mode: LockMode
    package var fence: Int64
    /// The time of the grant, as Unix time by this host's clock.
    package var grantedMilliseconds: Int64
    /// The time from the request to the grant.
    package var waitedMilliseconds: Int64
    /// The end of the lease that was promised to its holder, as Unix time by this host's clock.
    package var promisedMilliseconds: Int64
    /// The end of the lease, as Unix time by this host's clock; `nil` if the lease is still valid.
    package var endedMilliseconds: Int64?
    /// The kind of end; `nil` if the lease is still valid.
    package var end: GrantEnd?
}
