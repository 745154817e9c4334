internal import InterlockCore
package import Logging
internal import NIOConcurrencyHelpers
internal import ServiceLifecycle
package import SidecarSettings
internal import Subprocess

/// The embedded Redis: a private `redis-server` on a Unix socket in the sidecar's data directory.
///
/// The kernel kills it when the sidecar dies for any reason, because it is started through `setpriv --pdeathsig`.
package struct PrivateRedis: Service {
    private let folder: DataDirectory
    private let logger: Logger

    /// Prepares the data directory.
    /// - Throws: `SidecarError` if the folder cannot be used.
    package init(dataDirectory: String, logger: Logger) throws(SidecarError) {
        folder = try DataDirectory(path: dataDirectory)
        self.logger = logger
    }

    /// The path of the socket, for `redis-cli -s PATH`.
    package var socketPath: String { folder.socketPath }

    /// Runs the server until graceful shutdown, then stops it and waits for its end.
    /// - Throws: `SidecarError` if the server cannot be started, or ends by itself.
    package func run() async throws {
        var options = PlatformOptions()
        // A separate process group keeps Ctrl-C in a terminal from Redis, which the sidecar still needs to shut down.
        options.processGroupID = 0
        options.teardownSequence = [.gracefulShutDown(allowedDurationToNextStep: .seconds(5))]
        let arguments = Arguments(arguments)
        let isToldToEnd = NIOLockedValueBox(false)
        try await withGracefulShutdownHandler {
            let status: TerminationStatus?
            do {
                status = try await cancelWhenGracefulShutdown { [options] in
                    try await Subprocess.run(
                        .name("setpriv"), arguments: arguments, platformOptions: options, output: .discarded, error: .discarded
                    ).terminationStatus
                }
            } catch is CancellationError {
                status = nil
            } catch {
                let reason = "\(error)".withoutFinalPeriod
                throw SidecarError("cannot start the private redis-server: \(reason); set a Redis with --redis")
            }
            guard !isToldToEnd.withLockedValue({ $0 }), let status else { return }
            throw SidecarError(
                "the private redis-server exited (\(status)); is redis-server installed? See \(folder.logPath), "
                    + "or set a Redis with --redis")
        } onGracefulShutdown: {
            isToldToEnd.withLockedValue { $0 = true }
        }
    }

    private var arguments: [String] {
        [
            "--pdeathsig", "KILL", "--", "redis-server", "--port", "0", "--unixsocket", folder.socketPath,
            "--unixsocketperm", "600", "--dir", folder.path, "--logfile", folder.logPath, "--appendonly", "yes",
            "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction", "--daemonize", "no",
        ]
    }
}
