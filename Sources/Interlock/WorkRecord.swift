internal import InterlockCore
internal import NIOConcurrencyHelpers

/// A piece of work as its queue sees it, independent of the type of its value.
protocol WorkRecord: AnyObject, Sendable {
    var name: String { get }
    var state: WorkState { get }
    /// The error with which it ended; `nil` if it succeeded or has not ended.
    var error: (any Error)? { get }

    /// Runs the operation, whose result stays hidden until `end`. Calls `begin` when the operation begins.
    func perform(begin: @escaping @Sendable () -> Void) async
    func move(to state: WorkState)
    /// Ends the work with the result of `perform`.
    /// - Parameter cause: the reason for which it was made to end, if any; an error then counts as a consequence of
    ///   that.
    func end(cause: WorkError.Cause?)
    /// Ends the work before it has begun.
    func end(_ error: WorkError)
}
