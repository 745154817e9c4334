/// Values under small integer keys that are used again. Insertion and removal are O(1) and do not allocate once warm.
struct Slab<Value> {
    private var values: [Value?] = []
    private var free: [Int] = []

    var count: Int { values.count - free.count }

    mutating func insert(_ value: Value) -> Int {
        if let key = free.popLast() {
            values[key] = value
            return key
        }
        values.append(value)
        return values.count - 1
    }

    mutating func remove(_ key: Int) -> Value? {
        guard values.indices.contains(key), let value = values[key] else { return nil }
        values[key] = nil
        free.append(key)
        return value
    }

    subscript(key: Int) -> Value? {
        values.indices.contains(key) ? values[key] : nil
    }
}
