internal import Interlock

/// The keys of one lock, put together once.
struct ModelLockKeys: Hashable {
    let name: String
    let lock: String
    let fence: String
    let queue: String
    let holders: String
    let grants: String
    let wakePrefix: String

    init(name: String, space: KeySpace) {
        self.name = name
        lock = space.lock(name)
        fence = space.fence(name)
        queue = space.queue(name)
        holders = space.holders(name)
        grants = space.grants(name)
        wakePrefix = space.wakePrefix
    }
}
