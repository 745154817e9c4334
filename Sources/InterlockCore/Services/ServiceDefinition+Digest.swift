extension ServiceDefinition {
    /// 64 bits by which sidecars find out that they run with different definitions of a service: 16 hexadecimal digits.
    ///
    /// What has its default does not count, so that a newer version, which has more settings, agrees with an older one.
    public var digest: String {
        let defaults = Set(Self.settings(of: ServiceDefinition(name: name), at: ""))
        let settings = Self.settings(of: self, at: "").filter { !defaults.contains($0) }
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in settings.joined(separator: "\n").utf8 {
            // FNV-1a: the same in every process, which Swift's own hashes are not.
            hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3
        }
        return OwnerToken.hexadecimal(hash)
    }

    /// Every setting with its path, in the order in which they are declared.
    private static func settings(of value: Any, at path: String) -> [String] {
        let children = Mirror(reflecting: value).children
        guard !children.isEmpty, !(value is Duration) else { return ["\(path)=\(value)"] }
        return children.enumerated().flatMap { index, child in
            settings(of: child.value, at: "\(path).\(child.label ?? "\(index)")")
        }
    }
}
