/// What a sidecar answers to the commands of leases.
enum SidecarReply {
    /// The three parts of a grant; how long it is valid nobody asks here.
    case lease(token: String, fence: Int64)
    case integer(Int64)
    /// Held by another, or lost.
    case nothing
    case error(String)
}
