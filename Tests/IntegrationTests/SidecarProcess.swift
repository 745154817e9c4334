import FoundationEssentials
import Glibc
import RedisClient
import Subprocess

@testable import InterlockProcesses

/// A test's own sidecar, started as users start one: `interlock serve`, on free ports, with its data in a new
/// directory.
struct SidecarProcess: Sendable {
    let process: InterlockProcess
    /// The test's directory, which is deleted at the end.
    let folder: String
    let respPort: Int
    let httpPort: Int
    /// The socket of the sidecar's private Redis; `nil` if it uses another one.
    let redisSocket: String?

    /// The address of the RESP API, as `--sidecar` takes it.
    var address: String { "127.0.0.1:\(respPort)" }
    /// The address of the RESP API's Unix socket.
    var unixAddress: String { "unix:\(folder)/interlock.sock" }
    var dataFolder: String { "\(folder)/data" }

    /// Starts a sidecar, waits until it is ready, runs `body`, and kills the sidecar. If `body` throws, prints the
    /// sidecar's output.
    /// - Parameters:
    ///   - configuration: the configuration in YAML, without `redis`.
    ///   - arguments: further arguments of `interlock serve`.
    ///   - openFiles: the limit on open files; `nil` for the tests' own.
    ///   - redisTimeout: the `redis.timeout`. Long by default, because these tests share a small machine with many
    ///     servers.
    static func withSidecar<Result>(
        configuration: String = "", arguments: [String] = [], openFiles: Int? = nil, redisTimeout: String = "10s",
        _ body: (SidecarProcess) async throws -> Result
    ) async throws -> Result {
        let temporary = try TemporaryFolder()
        defer { temporary.remove() }
        let file = "\(temporary.path)/interlock.yaml"
        try Data("redis: { timeout: \(redisTimeout) }\n\(configuration)".utf8).write(to: URL(filePath: file))
        let process = try await InterlockProcess.start(
            serveArguments(file: file, folder: temporary.path) + ["--unix", "\(temporary.path)/interlock.sock"] + arguments,
            openFiles: openFiles)
        do {
            let result = try await body(try await ready(process, folder: temporary.path))
            await end(process)
            return result
        } catch {
            print("The test failed with \(error). Output of the sidecar:\n\(process.output)\n\(process.errors)")
            await end(process)
            throw error
        }
    }

    /// Returns the arguments that start a sidecar on free ports with its data in `folder`.
    static func serveArguments(file: String, folder: String) -> [String] {
        [
            "serve", "--config", file, "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir", "\(folder)/data",
        ]
    }

    /// Runs another command of `interlock` against this sidecar.
    func interlock(_ arguments: String..., apiKey: String? = nil) async throws -> CommandOutcome {
        try await InterlockProcess.outcome(arguments, environment: environment(apiKey: apiKey))
    }

    /// Returns the environment in which commands find this sidecar.
    func environment(apiKey: String? = nil) -> Environment {
        InterlockProcess.environment.updating(["INTERLOCK_SIDECAR": address, "INTERLOCK_API_KEY": apiKey])
    }

    /// Returns the HTTP API's response body.
    func get(_ path: String, key: String? = nil) async throws -> String {
        let keyArguments = key.map { ["--header", "X-API-Key: \($0)"] } ?? []
        let result = try await run(
            .name("curl"),
            arguments: Arguments(["--silent", "--max-time", "10", "http://127.0.0.1:\(httpPort)\(path)"] + keyArguments),
            output: .string(limit: 1 << 20), error: .discarded)
        return result.standardOutput
    }

    /// Sends commands to the RESP API and ignores the replies.
    func send(_ commands: [String]..., key: String? = nil) async throws {
        var address = RedisConfiguration(address: .host("127.0.0.1", port: respPort))
        address.password = key
        let client = RedisClient(configuration: address)
        try await client.connect()
        for command in commands { _ = try? await client.send(AnyCommand(command)) }
        await client.close()
    }

    /// Returns the process ID of the sidecar's private Redis.
    func redisProcess() async throws -> pid_t {
        guard let redisSocket else { throw RedisServerError(reason: "this sidecar has no private Redis", log: "") }
        var address = RedisConfiguration(address: .unixSocket(path: redisSocket))
        address.connectTimeout = .seconds(10)
        address.commandTimeout = .seconds(10)
        let client = RedisClient(configuration: address)
        do {
            try await client.connect()
            let report = try await client.send(Info(section: "server"), timeout: .seconds(10))
            await client.close()
            guard let pid = report["process_id"].flatMap({ pid_t($0) }) else {
                throw RedisServerError(reason: "Redis does not report its process ID", log: "\(report)")
            }
            return pid
        } catch {
            await client.close()
            throw error
        }
    }

    private static func ready(_ process: InterlockProcess, folder: String) async throws -> SidecarProcess {
        try await eventually(within: .seconds(30), "the sidecar is ready") {
            guard !process.hasEnded else {
                throw RedisServerError(reason: "the sidecar ended right after its start", log: process.errors)
            }
            // The banner is written in one piece, so these two words mean that it is complete.
            return process.output.contains("is ready.") && process.output.contains("HTTP")
        }
        let banner = process.output
        guard let port = word(after: "-p", inLine: "RESP", of: banner).flatMap({ Int($0) }) else {
            throw RedisServerError(reason: "the banner has no address of the RESP API", log: banner)
        }
        guard let url = word(after: "-s", inLine: "HTTP", of: banner),
            let httpPort = url.split(separator: ":").last.flatMap({ Int($0.prefix { $0 != "/" }) })
        else { throw RedisServerError(reason: "the banner has no address of the HTTP API", log: banner) }
        return SidecarProcess(
            process: process, folder: folder, respPort: port, httpPort: httpPort,
            redisSocket: word(after: "-s", inLine: "Redis", of: banner))
    }

    private static func word(after flag: String, inLine title: String, of banner: String) -> String? {
        for line in banner.split(separator: "\n") {
            let words = line.split(separator: " ")
            guard words.first?.elementsEqual(title) == true, let index = words.firstIndex(where: { $0 == flag }),
                words.indices.contains(index + 1)
            else { continue }
            return String(words[index + 1])
        }
        return nil
    }

    private static func end(_ process: InterlockProcess) async {
        process.send(signal: SIGKILL)
        // A process that survives SIGKILL must not fail a test that is over.
        _ = try? await process.end(within: .seconds(10))
    }
}
