internal import InterlockCore
internal import NIOConcurrencyHelpers

/// A piece of work, independent of the type of its value.
protocol WorkRecord: AnyObject, Sendable {
    var name: String { get }
    var state: WorkState { get }
    /// The error with which the work ended; `nil` if it succeeded or has not ended.
    var error: (any Error)? { get }

    /// Runs the operation. Calls `begin` when the operation begins. The result is published only by `end`.
    func perform(begin: @escaping @Sendable () -> Void) async
    /// Changes the state and notifies the observers.
    func move(to state: WorkState)
    /// Ends the work with the result of `perform`.
    /// - Parameter cause: the reason why the work was cancelled; `nil` if it was not. An error of the operation is
    ///   attributed to it.
    func end(cause: WorkError.Cause?)
    /// Ends the work before it has begun.
    func end(_ error: WorkError)
}
