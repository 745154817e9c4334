/// Numbers as Redis' scripts have them: in floating point.
package enum ScriptNumber {
    /// Up to here every whole number is one there. Nothing of ours is larger; what somebody has written by hand may be.
    package static let mostExact: Int64 = 1 << 53
}
