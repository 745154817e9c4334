package import Glibc
internal import InterlockCore

/// The rules for the path and the group of the socket at `listen.unix`.
package enum UnixSocketSettings {
    /// The maximum length of the suffix of the socket's temporary name, in bytes: `.` and three digits.
    static let maximumSuffixBytes = 4

    /// Returns the ID of a group, given its name or number; `nil` if no group has this name.
    package static func groupID(of group: String) -> gid_t? {
        if let number = ConfigurationText.wholeNumber(group) { return number < gid_t.max ? gid_t(number) : nil }
        var entry = Glibc.group()
        var found: UnsafeMutablePointer<Glibc.group>?
        // The buffer is large enough for the names of thousands of members.
        var buffer = [CChar](repeating: 0, count: 1 << 18)
        return getgrnam_r(group, &entry, &buffer, buffer.count, &found) == 0 && found != nil ? entry.gr_gid : nil
    }
}
