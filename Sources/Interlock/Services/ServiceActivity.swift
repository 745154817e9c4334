/// The calls to a service that are in progress through this sidecar.
package struct ServiceActivity: Hashable, Sendable {
    /// The number of calls that have a permit and no reported outcome.
    package var inFlightCount: Int
    /// The number of calls that wait for a limit, for a slot or for the end of a pause.
    package var waitingCount: Int
    /// The maximum number of concurrent calls; `nil` for no limit.
    package var slots: Int?
}
