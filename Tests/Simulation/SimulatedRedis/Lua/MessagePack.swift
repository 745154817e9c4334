internal import CLua

/// Converts Lua values to MessagePack for `cmsgpack.pack`, in the encodings that Redis's library chooses.
struct MessagePacker {
    let stack: LuaStack
    private(set) var bytes: [UInt8] = []

    private static let maximumDepth = 16

    init(stack: LuaStack) {
        self.stack = stack
    }

    /// Pops and packs the top value. Functions and tables that are nested too deeply become nil.
    mutating func pack(level: Int) {
        defer { stack.drop() }
        switch stack.type(-1) {
        case LUA_TSTRING: append(stack.bytes(-1) ?? "")
        case LUA_TBOOLEAN: bytes.append(lua_toboolean(stack.state, -1) != 0 ? 0xc3 : 0xc2)
        case LUA_TNUMBER: append(lua_tonumber(stack.state, -1))
        case LUA_TTABLE where level < Self.maximumDepth && stack.reserve(4): packTable(level: level)
        default: bytes.append(0xc0)
        }
    }

    private mutating func packTable(level: Int) {
        let (count, isArray) = shape()
        if isArray {
            appendHeader(of: count, short: 0x90, long: 0xdc)
            for index in 0..<count {
                lua_rawgeti(stack.state, -1, Int32(index + 1))
                pack(level: level + 1)
            }
        } else {
            appendHeader(of: count, short: 0x80, long: 0xde)
            lua_pushnil(stack.state)
            while lua_next(stack.state, -2) != 0 {
                lua_pushvalue(stack.state, -2)
                pack(level: level + 1)
                pack(level: level + 1)
            }
        }
    }

    /// Returns the number of pairs in the top table, and whether their keys are 1, 2, 3 and so on.
    private func shape() -> (count: Int, isArray: Bool) {
        var count = 0
        var largestKey = 0.0
        var hasIndexKeys = true
        lua_pushnil(stack.state)
        while lua_next(stack.state, -2) != 0 {
            stack.drop()
            count += 1
            guard hasIndexKeys else { continue }
            let key = stack.type(-1) == LUA_TNUMBER ? lua_tonumber(stack.state, -1) : 0
            hasIndexKeys = key > 0 && Int32(exactly: key) != nil
            largestKey = max(largestKey, key)
        }
        return (count, hasIndexKeys && largestKey == Double(count))
    }

    private mutating func append(_ number: Double) {
        if let whole = Int64(exactly: number) {
            append(whole)
        } else if Double(Float(number)) == number {
            bytes.append(0xca)
            appendBigEndian(Float(number).bitPattern)
        } else {
            bytes.append(0xcb)
            appendBigEndian(number.bitPattern)
        }
    }

    private mutating func append(_ number: Int64) {
        switch number {
        case 0...127: bytes.append(UInt8(number))
        case 128...0xff: bytes += [0xcc, UInt8(number)]
        case 0x100...0xffff: appendNumber(0xcd, UInt16(number))
        case 0x1_0000...0xffff_ffff: appendNumber(0xce, UInt32(number))
        case 0x1_0000_0000...: appendNumber(0xcf, UInt64(number))
        case -32..<0: bytes.append(UInt8(bitPattern: Int8(number)))
        case -128 ..< -32: bytes += [0xd0, UInt8(bitPattern: Int8(number))]
        case -32768 ..< -128: appendNumber(0xd1, UInt16(bitPattern: Int16(number)))
        case -2_147_483_648 ..< -32768: appendNumber(0xd2, UInt32(bitPattern: Int32(number)))
        default: appendNumber(0xd3, UInt64(bitPattern: number))
        }
    }

    private mutating func append(_ string: Bytes) {
        switch string.count {
        case 0..<32: bytes.append(0xa0 | UInt8(string.count))
        case 32...0xff: bytes += [0xd9, UInt8(string.count)]
        case 0x100...0xffff: appendNumber(0xda, UInt16(string.count))
        default: appendNumber(0xdb, UInt32(string.count))
        }
        bytes += string.storage
    }

    /// Appends the header of an array or map.
    /// - Parameters:
    ///   - short: the type for up to 15 elements, to which the count is added.
    ///   - long: the type for up to 65,535 elements; the next type is for more.
    private mutating func appendHeader(of count: Int, short: UInt8, long: UInt8) {
        switch count {
        case 0...15: bytes.append(short | UInt8(count))
        case 16...0xffff: appendNumber(long, UInt16(count))
        default: appendNumber(long + 1, UInt32(count))
        }
    }

    private mutating func appendNumber(_ type: UInt8, _ number: some FixedWidthInteger) {
        bytes.append(type)
        appendBigEndian(number)
    }

    private mutating func appendBigEndian(_ number: some FixedWidthInteger) {
        withUnsafeBytes(of: number.bigEndian) { bytes += $0 }
    }
}

/// Converts MessagePack to Lua values for `cmsgpack.unpack`.
struct MessageUnpacker {
    enum Violation: Error {
        case tooShort
        case unknownType
        case tooMany

        var text: String {
            switch self {
            case .tooShort: "Missing bytes in input."
            case .unknownType: "Bad data format in input."
            case .tooMany:
                "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)"
            }
        }
    }

    private let stack: LuaStack
    private var remaining: ArraySlice<UInt8>

    init(_ bytes: Bytes, stack: LuaStack) {
        remaining = bytes.storage[...]
        self.stack = stack
    }

    var isAtEnd: Bool { remaining.isEmpty }

    /// Pushes the next value.
    mutating func unpack() throws(Violation) {
        guard stack.reserve(3) else { throw .tooMany }
        let type = try number(UInt8.self)
        switch type {
        case 0x00...0x7f: stack.push(Double(type))
        case 0xe0...0xff: stack.push(Double(Int8(bitPattern: type)))
        case 0xa0...0xbf: try unpackString(Int(type & 0x1f))
        case 0x90...0x9f: try unpackArray(Int(type & 0x0f))
        case 0x80...0x8f: try unpackMap(Int(type & 0x0f))
        case 0xc0: lua_pushnil(stack.state)
        case 0xc2, 0xc3: stack.push(type == 0xc3)
        case 0xca: stack.push(Double(Float(bitPattern: try number(UInt32.self))))
        case 0xcb: stack.push(Double(bitPattern: try number(UInt64.self)))
        case 0xcc: stack.push(Double(try number(UInt8.self)))
        case 0xcd: stack.push(Double(try number(UInt16.self)))
        case 0xce: stack.push(Double(try number(UInt32.self)))
        // The library of Redis reads numbers above Int64.max as negative.
        case 0xcf, 0xd3: stack.push(Double(Int64(bitPattern: try number(UInt64.self))))
        case 0xd0: stack.push(Double(Int8(bitPattern: try number(UInt8.self))))
        case 0xd1: stack.push(Double(Int16(bitPattern: try number(UInt16.self))))
        case 0xd2: stack.push(Double(Int32(bitPattern: try number(UInt32.self))))
        case 0xd9: try unpackString(Int(try number(UInt8.self)))
        case 0xda: try unpackString(Int(try number(UInt16.self)))
        case 0xdb: try unpackString(Int(try number(UInt32.self)))
        case 0xdc: try unpackArray(Int(try number(UInt16.self)))
        case 0xdd: try unpackArray(Int(try number(UInt32.self)))
        case 0xde: try unpackMap(Int(try number(UInt16.self)))
        case 0xdf: try unpackMap(Int(try number(UInt32.self)))
        default: throw .unknownType
        }
    }

    private mutating func number<Number: FixedWidthInteger>(_: Number.Type) throws(Violation) -> Number {
        var number: Number = 0
        for byte in try take(Number.bitWidth / 8) { number = number << 8 | Number(byte) }
        return number
    }

    private mutating func take(_ count: Int) throws(Violation) -> ArraySlice<UInt8> {
        guard remaining.count >= count else { throw .tooShort }
        defer { remaining = remaining.dropFirst(count) }
        return remaining.prefix(count)
    }

    private mutating func unpackString(_ length: Int) throws(Violation) {
        stack.push(Bytes(Array(try take(length))))
    }

    private mutating func unpackArray(_ count: Int) throws(Violation) {
        lua_createtable(stack.state, 0, 0)
        for index in 0..<count {
            try unpack()
            lua_rawseti(stack.state, -2, Int32(index + 1))
        }
    }

    private mutating func unpackMap(_ count: Int) throws(Violation) {
        lua_createtable(stack.state, 0, 0)
        for _ in 0..<count {
            try unpack()
            try unpack()
            // Keys cannot be nil or NaN: Lua would raise an error.
            let key = lua_tonumber(stack.state, -2)
            guard stack.type(-2) != LUA_TNIL, !key.isNaN else { throw .unknownType }
            lua_rawset(stack.state, -3)
        }
    }
}
