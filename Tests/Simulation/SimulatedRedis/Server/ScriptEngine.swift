internal import CLibMD
internal import CLua

/// A server's Lua state, with Redis's libraries and the loaded scripts.
///
/// Swift functions that Lua calls never raise Lua errors; see `lua_call_and_raise`.
final class ScriptEngine {
    struct Script {
        /// The SHA-1 digest of the source, in hexadecimal.
        let digest: Bytes
        let source: Bytes
        /// The reference to the function in Lua's registry.
        fileprivate let reference: Int32
    }

    /// A running script.
    private struct RunningScript {
        let call: Invocation
        /// Whether the script has written. After its first write, no condition of the server stops it.
        var hasWritten = false
        var published: [ScriptCall.Publication] = []
        var refused: [Bytes] = []
    }

    private unowned let server: SimulatedServer
    private let lua: LuaStack
    private let globals: Int32
    private let errorHandler: Int32
    private var scripts: [Bytes: Script] = [:]
    private var running: RunningScript?
    /// The state of `math.random`, which persists from script to script, as in Redis.
    var random = ScriptRandom()

    init(server: SimulatedServer) {
        self.server = server
        guard let state = luaL_newstate() else { fatalError("no memory for Lua") }
        lua = LuaStack(state: state)
        (globals, errorHandler) = ScriptLibraries.open(in: lua)
        ScriptLibraries.register(engine: Unmanaged.passUnretained(self).toOpaque(), in: lua, globals: globals)
    }

    deinit {
        lua_close(lua.state)
    }

    subscript(digest: Bytes) -> Script? {
        scripts[digest] ?? scripts[digest.lowercased]
    }

    /// Returns a script. Compiles it unless it is already loaded.
    func load(_ source: Bytes) throws(CommandError) -> Script {
        let digest = Self.digest(of: source)
        if let script = scripts[digest] { return script }
        let edited = server.scriptEdit?.applied(to: source) ?? source
        let status = edited.storage.withUnsafeBufferPointer { buffer in
            buffer.withMemoryRebound(to: CChar.self) {
                luaL_loadbuffer(lua.state, $0.baseAddress, $0.count, "@user_script")
            }
        }
        guard status == 0 else {
            defer { lua.drop() }
            throw CommandError("ERR Error compiling script (new function): \(lua.bytes(-1)?.text ?? "")")
        }
        let script = Script(digest: digest, source: source, reference: luaL_ref(lua.state, LUA_REGISTRYINDEX))
        scripts[digest] = script
        return script
    }

    static func digest(of source: Bytes) -> Bytes {
        // Redis identifies scripts by SHA-1. Nothing here relies on its strength.
        let source = Array(source.storage)
        var digits = [CChar](repeating: 0, count: 2 * Int(SHA1_DIGEST_LENGTH) + 1)
        SHA1Data(source, source.count, &digits)
        return Bytes(digits.dropLast().map(UInt8.init))
    }

    func run(
        _ script: Script, keys: ArraySlice<Bytes>, arguments: ArraySlice<Bytes>, for call: Invocation
    ) -> Reply {
        running = RunningScript(call: call)
        defer { running = nil }
        guard let report = server.onScriptCall else { return execute(script, keys: keys, arguments: arguments) }
        let before = keys.map(server.existingEntry)
        let reply = execute(script, keys: keys, arguments: arguments)
        report(
            ScriptCall(
                digest: script.digest, source: script.source, keys: Array(keys), arguments: Array(arguments), reply: reply,
                microseconds: server.microseconds, before: before, after: keys.map(server.existingEntry),
                published: running?.published ?? [], refused: running?.refused ?? []))
        return reply
    }

    private func execute(_ script: Script, keys: ArraySlice<Bytes>, arguments: ArraySlice<Bytes>) -> Reply {
        defer { lua_settop(lua.state, 0) }
        lua_rawgeti(lua.state, LUA_REGISTRYINDEX, globals)
        lua.pushArray(keys)
        lua.setField("KEYS")
        lua.pushArray(arguments)
        lua.setField("ARGV")
        lua_settop(lua.state, 0)
        lua_rawgeti(lua.state, LUA_REGISTRYINDEX, errorHandler)
        lua_rawgeti(lua.state, LUA_REGISTRYINDEX, script.reference)
        guard lua_pcall(lua.state, 0, 1, 1) != 0 else { return lua.popReply() }
        return failure(of: script)
    }

    /// Returns the reply for the error that the handler left on top of the stack.
    private func failure(of script: Script) -> Reply {
        guard lua.type(-1) == LUA_TTABLE else {
            let reason = lua.bytes(-1)?.text ?? "execution failure"
            return .error(Bytes("ERR Error running script \(script.digest.text), \(reason.prefix(100))"))
        }
        var message = lua.field("err", of: -1)?.text ?? ""
        let source = lua.field("source", of: -1)
        lua.pushField("line", of: -1)
        if let source, let line = lua.bytes(-1) {
            message += " script: \(script.digest.text), on \(source.text):\(line.text)."
        }
        return .error(Bytes(message))
    }

    /// Runs `redis.call`: pushes the reply, or an error as a table. Returns whether it is an error.
    func call(_ arguments: [Bytes], replyTo stack: LuaStack) -> Bool {
        guard let script = running?.call else {
            stack.pushError("ERR redis.call/pcall can only be called inside a script invocation")
            return true
        }
        do throws(CommandError) {
            let command = try server.scriptCommand(arguments, hasWritten: running?.hasWritten ?? false)
            if command.flags.contains(.write) { running?.hasWritten = true }
            if let cluster = server.cluster,
                let refusal = server.refusal(of: command, arguments, from: script.connection, by: cluster)
            {
                throw refusal.scriptError
            }
            let call = Invocation(command: command, arguments: arguments, connection: script.connection)
            let reply = try server.run(call, for: script)
            if command.name == "publish", case .integer(let receivers) = reply {
                running?.published.append(.init(channel: arguments[1], message: arguments[2], receivers: receivers))
            }
            stack.push(reply)
            return false
        } catch {
            running?.refused.append(error.text)
            stack.push(.error(error.text))
            return true
        }
    }
}

extension SimulatedServer {
    /// Returns the command that a script calls, if it is allowed.
    fileprivate func scriptCommand(_ arguments: [Bytes], hasWritten: Bool) throws(CommandError) -> Command {
        guard let command = commands.command(arguments) else {
            throw CommandError("ERR Unknown Redis command called from script")
        }
        guard command.allowsArgumentCount(arguments.count) else {
            throw CommandError("ERR Wrong number of args calling Redis command from script")
        }
        let flags = command.flags
        if flags.contains(.noScript) { throw CommandError("ERR This Redis command is not allowed from script") }
        // A script that has written may finish.
        guard !hasWritten else { return command }
        if isReadOnly, flags.contains(.write) { throw .readOnly }
        switch condition {
        case .misconfigured where flags.contains(.write): throw .misconfigured
        case .outOfMemory where flags.contains(.needsMemory): throw .outOfMemory
        default: return command
        }
    }
}

/// The generator of Redis's `math.random`: `lrand48` with the default seed.
struct ScriptRandom {
    private var state: UInt64 = 0x1234_abcd_330e

    mutating func seed(_ seed: Int32) {
        state = UInt64(UInt32(bitPattern: seed)) << 16 | 0x330e
    }

    /// Returns a number from 0 up to but not including 1.
    mutating func next() -> Double {
        state = (state &* 0x5_deec_e66d &+ 0xb) & (1 << 48 - 1)
        return Double((state >> 17) % Self.range) / Double(Self.range)
    }

    private static let range: UInt64 = 1 << 31 - 1
}
