/// A lock of a run, as all that take part know it.
struct SimulatedLock {
    let number: Int
    let keys: ModelLockKeys
}
