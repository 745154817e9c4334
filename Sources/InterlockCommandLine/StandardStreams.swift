import Glibc

/// The standard streams: descriptors 0, 1 and 2.
package enum StandardStreams {
    /// Opens `/dev/null` for each stream that is closed. Otherwise the next opened file, such as an epoll instance,
    /// would become a standard stream of this process and of every command that it starts.
    ///
    /// The program must call this method before it opens any other file.
    package static func openMissing() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
            // `open` returns the lowest free descriptor, which is this one. Without /dev/null the stream stays closed.
            _ = open("/dev/null", O_RDWR)
        }
    }
}
