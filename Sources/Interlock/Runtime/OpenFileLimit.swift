internal import Glibc

/// The limit on the open files and connections of this process.
package enum OpenFileLimit {
    /// The soft limit; `nil` if it cannot be read.
    package static var current: Int? {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
        return Int(clamping: limit.rlim_cur)
    }

    /// Raises the soft limit to the hard limit.
    /// - Returns: the new limit; `nil` if it cannot be read.
    package static func raiseToHardLimit() -> Int? {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return nil }
        if limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max
            _ = setrlimit(resource, &limit)
        }
        return current
    }

    /// The maximum number of descriptors that listeners reserve for health checks, files and libraries. At most a
    /// quarter of the limit is reserved.
    private static let maximumReserved = 32

    /// Returns whether a descriptor is in the reserved range below the limit. The system assigns the lowest free
    /// number, so a number this high means that few are left. Running out is dangerous, because libdispatch ends the
    /// process if it cannot open a file in `/proc`.
    package static func isReserved(_ descriptor: CInt) -> Bool {
        guard let limit = current else { return false }
        return Int(descriptor) >= limit - min(maximumReserved, limit / 4)
    }
}
