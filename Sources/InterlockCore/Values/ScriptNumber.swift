/// The numbers of Redis' scripts, which are floating-point.
package enum ScriptNumber {
    /// The number up to which scripts represent every whole number exactly. Interlock stores none above, but other
    /// software may.
    package static let mostExact: Int64 = 1 << 53
}
