internal import InterlockCore
internal import NIOConcurrencyHelpers

/// A piece of work as its queue sees it, independent of the type of its value.
protocol WorkRecord: AnyObject, Sendable {
    var name: String { get }
    var state: WorkState { get }
    /// The error with which it ended; `nil` if it succeeded or has not ended.
    var error: (any Error)? { get }

    /// Runs the operation. The result becomes visible in `end`. Calls `begin` when the operation begins.
    func perform(begin: @escaping @Sendable () -> Void) async
    func move(to state: WorkState)
    /// Ends the work with the result of `perform`.
    /// - Parameter cause: the reason why it was cancelled, if it was; an error of the operation is then attributed to
    ///   it.
    func end(cause: WorkError.Cause?)
    /// Ends the work before it has begun.
    func end(_ error: WorkError)
}
