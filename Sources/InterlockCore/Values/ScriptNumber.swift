/// Numbers as Redis' scripts have them: in floating point.
package enum ScriptNumber {
    /// Up to here every whole number is one there. Nothing of ours is larger; what somebody has written by hand may be.
    package static let mostExact: Int64 = 1 << 53

    /// Declares it as `most_exact`, for scripts that need it.
    package static let declaration = Array("local most_exact = \(mostExact)\n".utf8)
}
