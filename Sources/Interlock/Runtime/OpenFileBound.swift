internal import Glibc

/// The bound on how many files and connections this process may have open at once.
package enum OpenFileBound {
    /// The soft bound; `nil`: it cannot be found out.
    package static var current: Int? {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
        return Int(clamping: limit.rlim_cur)
    }

    /// Raises the soft bound as far as the hard one allows.
    /// - Returns: the bound; `nil`: it cannot be found out.
    package static func raised() -> Int? {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return nil }
        if limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max
            _ = setrlimit(resource, &limit)
        }
        return current
    }

    /// The most descriptors that listeners leave to health checks, files and libraries; a quarter if the limit is
    /// small.
    private static let mostReserved = 32

    /// Whether a descriptor is one of the reserved last ones. The system hands out the lowest free number. Running out
    /// is dangerous, because libdispatch ends a process in which it cannot open a file of `/proc`.
    package static func isReserved(_ descriptor: CInt) -> Bool {
        guard let bound = current else { return false }
        return Int(descriptor) >= bound - min(mostReserved, bound / 4)
    }
}
