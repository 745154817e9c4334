internal import InterlockCore
package import Logging
internal import NIOConcurrencyHelpers
internal import ServiceLifecycle
package import SidecarSettings
internal import Subprocess

/// The embedded Redis: a private `redis-server` on a Unix socket in the sidecar's data directory.
///
/// `setpriv --pdeathsig` starts the server, so the kernel kills it when the sidecar dies for any reason.
package struct EmbeddedRedis: Service {
    private let directory: DataDirectory
    private let logger: Logger

    /// Prepares the data directory.
    /// - Throws: `SidecarError` if the directory cannot be used.
    package init(dataDirectory: String, logger: Logger) throws(SidecarError) {
        directory = try DataDirectory(path: dataDirectory)
        self.logger = logger
    }

    /// The path of the socket, for `redis-cli -s PATH`.
    package var socketPath: String { directory.socketPath }

    /// Runs the server until graceful shutdown, then stops it and waits until it has ended.
    /// - Throws: `SidecarError` if the server cannot be started, or exits before the shutdown.
    package func run() async throws {
        var options = PlatformOptions()
        // In a separate process group, Redis does not receive Ctrl-C. The sidecar needs Redis until it has shut down.
        options.processGroupID = 0
        options.teardownSequence = [.gracefulShutDown(allowedDurationToNextStep: .seconds(5))]
        let arguments = Arguments(arguments)
        let isShuttingDown = NIOLockedValueBox(false)
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
            guard !isShuttingDown.withLockedValue({ $0 }), let status else { return }
            throw SidecarError(
                "the private redis-server exited (\(status)); is redis-server installed? See \(directory.logPath), "
                    + "or set a Redis with --redis")
        } onGracefulShutdown: {
            isShuttingDown.withLockedValue { $0 = true }
        }
    }

    private var arguments: [String] {
        [
            "--pdeathsig", "KILL", "--", "redis-server", "--port", "0", "--unixsocket", directory.socketPath,
            "--unixsocketperm", "600", "--dir", directory.path, "--logfile", directory.logPath, "--appendonly", "yes",
            "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction", "--daemonize", "no",
        ]
    }
}
