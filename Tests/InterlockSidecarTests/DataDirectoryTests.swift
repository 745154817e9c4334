import Glibc
import InterlockProcesses
import Testing

@testable import SidecarSettings
@testable import InterlockSidecar

@Suite("Data directory")
struct DataDirectoryTests {
    private static func withDirectory(_ body: (String) throws -> Void) throws {
        let temporary = try TemporaryFolder()
        defer { temporary.remove() }
        try body(temporary.path + "/data")
    }

    /// Returns the error for a directory that is rejected; `nil` if it is accepted.
    private static func refusal(_ path: String) -> String? {
        do throws(SidecarError) {
            _ = try DataDirectory(path: path)
            return nil
        } catch {
            return "\(error)"
        }
    }

    @Test("A missing directory is created with its parents, and only this user can access it")
    func missingDirectoryIsCreatedWithParents() throws {
        try Self.withDirectory { path in
            #expect(Self.refusal(path + "/deep") == nil)
            #expect(FileMode.of(path) == 0o700)
            #expect(FileMode.of(path + "/deep") == 0o700)
        }
    }

    @Test(
        "A directory that other users can enter is rejected and left unchanged",
        arguments: [0o777, 0o755, 0o750, 0o701] as [mode_t])
    func accessibleToOthers(mode: mode_t) throws {
        try Self.withDirectory { path in
            try #require(mkdir(path, 0o700) == 0 && chmod(path, mode) == 0)
            #expect(Self.refusal(path)?.contains("chmod 700 \(path)") == true)
            #expect(FileMode.of(path) == mode)
            #expect(FileMode.of(path + "/interlock.lock") == nil)
        }
    }

    @Test(
        "A planted symbolic link inside the directory is not followed", arguments: ["redis.log", "redis.sock", "interlock.lock"])
    func plantedSymbolicLinkInsideDirectoryIsNotFollowed(file: String) throws {
        try Self.withDirectory { path in
            let linkTarget = path + "/target"
            try #require(mkdir(path, 0o700) == 0 && symlink(linkTarget, "\(path)/\(file)") == 0)
            #expect(Self.refusal(path) != nil)
            #expect(FileMode.of(linkTarget) == nil)
        }
    }

    @Test("A file and another user's directory are rejected")
    func foreignDirectoryIsRejected() throws {
        try Self.withDirectory { path in
            let file = open(path, O_CREAT | O_WRONLY, 0o600)
            try #require(file >= 0)
            close(file)
            #expect(Self.refusal(path)?.contains(path) == true)
        }
        try Self.withDirectory { path in
            try #require(mkdir(path, 0o700) == 0)
            // Only root can change a directory's owner, so other users test with /usr, which belongs to root.
            let isRoot = geteuid() == 0
            if isRoot { try #require(chown(path, 65534, 65534) == 0) }
            #expect(Self.refusal(isRoot ? path : "/usr")?.contains("another user") == true)
        }
    }
}
