internal import InterlockCore
internal import RedisClient

/// The Lua scripts that Redis runs, and the fragments that they share.
///
/// The first line of a file may name the constants and fragments that it needs: `-- needs: fence_lifetime, fences`. The
/// library prepends them in this order, so the file can use their local names.
enum ScriptLibrary {
    /// The content of each file, by its name without the extension.
    static let files: [String: [UInt8]] = [
        // Breakers
        "breaker": PackageResources.breaker_lua, "breaker-change": PackageResources.breaker_change_lua,
        "breaker-close": PackageResources.breaker_close_lua, "breaker-down": PackageResources.breaker_down_lua,
        "breaker-ends": PackageResources.breaker_ends_lua, "breaker-force": PackageResources.breaker_force_lua,
        "breaker-half-open": PackageResources.breaker_half_open_lua, "breaker-open": PackageResources.breaker_open_lua,
        "breaker-outcome": PackageResources.breaker_outcome_lua, "breaker-report": PackageResources.breaker_report_lua,
        "breaker-sync": PackageResources.breaker_sync_lua, "breaker-trial": PackageResources.breaker_trial_lua,
        "breaker-trip": PackageResources.breaker_trip_lua, "breaker-up": PackageResources.breaker_up_lua,
        "breaker-vote": PackageResources.breaker_vote_lua, "breaker-votes": PackageResources.breaker_votes_lua,
        "breaker-window": PackageResources.breaker_window_lua,
        // Descriptors
        "quota": PackageResources.quota_lua,
        // Events and the fleet
        "fleet": PackageResources.fleet_lua, "publish": PackageResources.publish_lua,
        // Locks
        "acquire": PackageResources.acquire_lua, "acquire-free": PackageResources.acquire_free_lua,
        "break": PackageResources.break_lua, "counts": PackageResources.counts_lua,
        "fence-counter": PackageResources.fence_counter_lua, "fenced": PackageResources.fenced_lua,
        "fenced-release": PackageResources.fenced_release_lua, "fenced-renew": PackageResources.fenced_renew_lua,
        "fenced-share-release": PackageResources.fenced_share_release_lua,
        "fenced-share-renew": PackageResources.fenced_share_renew_lua, "fences": PackageResources.fences_lua,
        "groups": PackageResources.groups_lua, "inspect": PackageResources.inspect_lua,
        "lease-state": PackageResources.lease_state_lua, "leave": PackageResources.leave_lua,
        "locks": PackageResources.locks_lua, "release": PackageResources.release_lua,
        "release-quick": PackageResources.release_quick_lua, "renew": PackageResources.renew_lua,
        "share": PackageResources.share_lua, "share-fenced": PackageResources.share_fenced_lua,
        "share-release": PackageResources.share_release_lua, "share-renew": PackageResources.share_renew_lua,
        // Quorums
        "quorum": PackageResources.quorum_lua, "quorum-acquire": PackageResources.quorum_acquire_lua,
        "quorum-break": PackageResources.quorum_break_lua, "quorum-fence": PackageResources.quorum_fence_lua,
        "quorum-inspect": PackageResources.quorum_inspect_lua, "quorum-release": PackageResources.quorum_release_lua,
        "quorum-renew": PackageResources.quorum_renew_lua,
        // Limits
        "batch": PackageResources.batch_lua, "counters": PackageResources.counters_lua,
        "peek": PackageResources.peek_lua, "refund": PackageResources.refund_lua, "reply": PackageResources.reply_lua,
        "take": PackageResources.take_lua, "throttle": PackageResources.throttle_lua,
    ]

    /// The constants that every script may need, by name.
    static let constants = ["max_exact": "\(ScriptNumber.maximumExact)"]

    /// Returns the file, preceded by each constant and fragment that it needs.
    static func source(of name: String, constants: [String: String]) -> [UInt8] {
        var included: Set<String> = []
        var source: [UInt8] = []
        func append(_ name: String) {
            guard included.insert(name).inserted else { return }
            if let value = constants[name] {
                source += Array("local \(name) = \(value)\n".utf8)
            } else {
                needs(of: name).forEach(append)
                source += content(of: name)
            }
        }
        append(name)
        return source
    }

    /// Returns the constants and fragments that the first line of a file names.
    static func needs(of name: String) -> [String] {
        let line = String(decoding: content(of: name).prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        guard line.hasPrefix("-- needs: ") else { return [] }
        return line.dropFirst("-- needs: ".count).split(separator: ", ").map(String.init)
    }

    private static func content(of name: String) -> [UInt8] {
        guard let content = files[name] else {
            preconditionFailure("the script library has no file \(name).lua; add it to `files`")
        }
        return content
    }
}

extension RedisScript {
    /// Loads a script of the library, including the constants and fragments that it needs.
    init(library name: String, constants: [String: String] = [:]) {
        let constants = constants.merging(ScriptLibrary.constants) { $1 }
        self.init(name: name + ".lua", source: ScriptLibrary.source(of: name, constants: constants))
    }
}
