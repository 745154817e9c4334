/// Limits of the floating-point numbers in Redis's scripts.
package enum ScriptNumber {
    /// The number up to which scripts represent every whole number exactly. Interlock stores no greater number, but
    /// other software may.
    package static let maximumExact: Int64 = 1 << 53
}
