import Glibc

/// A real `redis-server` on a Unix socket in its own directory. Its wall clock is frozen at a settable time, unless
/// `clockRuns` is `true`.
final class RealRedis {
    private let folder: String
    private var process: pid_t = 0
    /// Whether the process has ended. Its ID may then belong to another process.
    private var hasEnded = false

    struct Failure: Error {
        var reason: String
    }

    /// Starts a server.
    /// - Parameter clockRuns: whether the clock advances, as servers that communicate with each other require.
    init(arguments: [String] = [], clockRuns: Bool = false) throws {
        var template = Array("/tmp/simulated-redis-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure(reason: "no temporary directory") }
        folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        try setTime(microseconds: 1_700_000_000_000_000)
        let clock = [
            "LD_PRELOAD=/usr/$LIB/faketime/libfaketimeMT.so.1:libc.so.6", "FAKETIME_TIMESTAMP_FILE=\(folder)/clock",
            "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
        ]
        let command =
            ["env"] + (clockRuns ? [] : clock) + [
                "TZ=UTC", "setpriv", "--pdeathsig", "KILL",
                "redis-server", "--dir", folder, "--unixsocket", "\(folder)/redis.sock", "--port", "0", "--save", "",
                "--appendonly", "no", "--databases", "1", "--enable-debug-command", "yes", "--logfile", "\(folder)/log",
            ] + arguments
        var pointers = command.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        guard posix_spawnp(&process, "env", nil, nil, &pointers, environ) == 0 else {
            throw Failure(reason: "env cannot be started")
        }
    }

    deinit {
        if !hasEnded {
            kill(process, SIGKILL)
            waitpid(process, nil, 0)
        }
        for file in ["clock", "clock.new", "redis.sock", "log", "nodes.conf", "dump.rdb"] { unlink("\(folder)/\(file)") }
        rmdir(folder)
    }

    /// The end of the server's log.
    var log: String {
        guard let file = fopen("\(folder)/log", "r") else { return "" }
        defer { fclose(file) }
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        let count = fread(&buffer, 1, buffer.count, file)
        return String(decoding: buffer.prefix(count).suffix(4000), as: UTF8.self)
    }

    /// Sets the server's clock to a Unix time, from its next command on.
    func setTime(microseconds: Int64) throws {
        var seconds = time_t(microseconds / 1_000_000)
        var date = tm()
        gmtime_r(&seconds, &date)
        func padded(_ number: some BinaryInteger, _ length: Int) -> String {
            String(repeating: "0", count: max(0, length - "\(number)".count)) + "\(number)"
        }
        let day = "\(padded(date.tm_year + 1900, 4))-\(padded(date.tm_mon + 1, 2))-\(padded(date.tm_mday, 2))"
        let hour = "\(padded(date.tm_hour, 2)):\(padded(date.tm_min, 2)):\(padded(date.tm_sec, 2))"
        // libfaketime reads the fraction as a floating-point number and truncates it, so this adds half a
        // microsecond.
        let timestamp = "\(day) \(hour).\(padded(microseconds % 1_000_000, 6))5"
        guard let file = fopen("\(folder)/clock.new", "w") else { throw Failure(reason: "no clock file") }
        fputs(timestamp, file)
        fclose(file)
        rename("\(folder)/clock.new", "\(folder)/clock")
    }

    /// Opens a connection. Waits up to 10 s for the server to start. Throws earlier if the server exits, for example
    /// because other software took its port.
    func connect() throws -> Int32 {
        for _ in 0..<1000 {
            if let descriptor = openSocket() { return descriptor }
            hasEnded = hasEnded || waitpid(process, nil, WNOHANG) == process
            if hasEnded { throw Failure(reason: "redis-server exited at its start: \(log)") }
            // Poll, because nothing announces that the server is listening.
            usleep(10_000)
        }
        throw Failure(reason: "redis-server did not start within 10 s: \(log)")
    }

    /// Returns a connected socket; `nil` if the server does not accept connections yet.
    private func openSocket() -> Int32? {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: "\(folder)/redis.sock".utf8) }
        let status = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        if status == 0 { return descriptor }
        close(descriptor)
        return nil
    }
}
