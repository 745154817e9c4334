import Glibc

/// Descriptors 0, 1 and 2.
package enum StandardStreams {
    /// Opens `/dev/null` for each that is closed. Otherwise the next file that is opened, such as an epoll instance, would become a
    /// standard stream of this process and of every command that it starts.
    ///
    /// Call it before anything else is opened.
    package static func openMissing() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
            // The lowest descriptor that is free is this one. Without /dev/null the stream stays closed.
            _ = open("/dev/null", O_RDWR)
        }
    }
}
