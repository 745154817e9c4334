import Glibc
import InterlockProcesses
import Testing

@testable import SidecarSettings
@testable import InterlockSidecar

@Suite("Data folders")
struct DataFolderTests {
    private static func withFolder(_ body: (String) throws -> Void) throws {
        let temporary = try TemporaryFolder()
        defer { temporary.remove() }
        try body(temporary.path + "/data")
    }

    /// Returns the error for a folder that is rejected; `nil` if it is accepted.
    private static func refusal(_ path: String) -> String? {
        do throws(SidecarError) {
            _ = try DataDirectory(path: path)
            return nil
        } catch {
            return "\(error)"
        }
    }

    @Test("A missing folder is created for this user alone, with its parents")
    func made() throws {
        try Self.withFolder { path in
            #expect(Self.refusal(path + "/deep") == nil)
            #expect(FileMode.of(path) == 0o700)
            #expect(FileMode.of(path + "/deep") == 0o700)
        }
    }

    @Test("A folder that others can enter is refused and left unchanged", arguments: [0o777, 0o755, 0o750, 0o701] as [mode_t])
    func openToOthers(mode: mode_t) throws {
        try Self.withFolder { path in
            try #require(mkdir(path, 0o700) == 0 && chmod(path, mode) == 0)
            #expect(Self.refusal(path)?.contains("chmod 700 \(path)") == true)
            #expect(FileMode.of(path) == mode)
            #expect(FileMode.of(path + "/interlock.lock") == nil)
        }
    }

    @Test("A planted link inside the folder is not followed", arguments: ["redis.log", "redis.sock", "interlock.lock"])
    func planted(file: String) throws {
        try Self.withFolder { path in
            let precious = path + "/precious"
            try #require(mkdir(path, 0o700) == 0 && symlink(precious, "\(path)/\(file)") == 0)
            #expect(Self.refusal(path) != nil)
            #expect(FileMode.of(precious) == nil)
        }
    }

    @Test("A file, or another user's folder, is refused")
    func unfit() throws {
        try Self.withFolder { path in
            let file = open(path, O_CREAT | O_WRONLY, 0o600)
            try #require(file >= 0)
            close(file)
            #expect(Self.refusal(path)?.contains(path) == true)
        }
        try Self.withFolder { path in
            try #require(mkdir(path, 0o700) == 0)
            // Only root can change the owner of a folder; for other users, /usr belongs to root.
            let isRoot = geteuid() == 0
            if isRoot { try #require(chown(path, 65534, 65534) == 0) }
            #expect(Self.refusal(isRoot ? path : "/usr")?.contains("another user") == true)
        }
    }
}
