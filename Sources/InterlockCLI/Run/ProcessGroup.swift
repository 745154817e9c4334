import FoundationEssentials
import Glibc

/// A command and all its descendants that did not leave its process group. The group has its leader's process id, which is
/// nobody else's until the leader is reaped.
struct ProcessGroup: Sendable {
    let id: pid_t

    func send(_ signal: Int32) {
        // Fails only when nobody is left, which is as well.
        _ = kill(-id, signal)
    }

    /// Whether anybody in the group still runs; those who have ended and wait to be reaped do not. O(n) in the processes of
    /// this machine.
    var hasLivingMembers: Bool {
        // Without /proc there is nobody to be seen.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return names.contains { name in
            guard pid_t(name) != nil, let (group, state) = Self.standing(ofProcess: name) else { return false }
            return group == id && state != "Z" && state != "X"
        }
    }

    /// `nil` when there is no such process any more.
    private static func standing(ofProcess process: String) -> (group: pid_t, state: Substring)? {
        guard let file = fopen("/proc/\(process)/stat", "r") else { return nil }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 1024)
        guard fgets(&line, Int32(line.count), file) != nil else { return nil }
        let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // Behind the name, which stands in brackets and may itself hold some: state, parent, group.
        guard let end = text.lastIndex(of: ")") else { return nil }
        let fields = text[end...].dropFirst(2).split(separator: " ")
        guard fields.count > 2, let group = pid_t(fields[2]) else { return nil }
        return (group, fields[0])
    }
}
