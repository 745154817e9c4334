/// A call that can be cancelled until it is answered.
package enum PendingCall: Sendable {
    case lock(UInt64)
    case locks(UInt64)
    case limit(service: String, Int)
    case permit(UInt64)
}
