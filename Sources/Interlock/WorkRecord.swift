internal import InterlockCore
internal import NIOConcurrencyHelpers

/// A piece of work as its queue sees it, whatever its value is.
protocol WorkRecord: AnyObject, Sendable {
    var name: String { get }
    var state: WorkState { get }
    /// What it ended with; `nil`: it succeeded, or has not ended.
    var error: (any Error)? { get }

    /// Runs the operation, which keeps its result to itself until `end`. Calls `begin` when the operation begins.
    func perform(begin: @escaping @Sendable () -> Void) async
    func move(to state: WorkState)
    /// Ends it with what `perform` had.
    /// - Parameter cause: it was told to end; an error is taken as the consequence.
    func end(cause: WorkError.Cause?)
    /// Ends it before it began.
    func end(_ error: WorkError)
}
