/// What a client of the RESP door has told of itself, and what it may do.
struct RESPSession {
    let id: Int64
    /// `nil`: it has not shown a key yet.
    var caller: AccessControl.Caller?
    /// `CLIENT SETNAME`.
    var name = ""
    /// After a `MULTI`, which is refused: nothing is run before its `EXEC`.
    var isInRefusedTransaction = false
    /// The connection is as secret as it is to be.
    var isSecured: Bool
    /// `CLIENT LOSSES ON`: it is told of every lease that it loses, and not only of linked ones.
    var isToldOfLosses = false
    /// It follows the events.
    var follower: UInt64?
}
