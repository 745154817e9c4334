extension Services {
    /// Runs work in an order for as long as `body` takes: log in, then fetch.
    ///
    /// When `body` returns, what it has added and nobody has cancelled is done first, as in a task group. When it throws or its
    /// task is cancelled, the work is cancelled.
    ///
    /// - Parameters:
    ///   - maximumExecuting: how many operations may run at a time; 1 or more.
    ///   - maximumPending: how much work may be there that has not ended; more is refused. 1 or more.
    ///   - body: adds work and takes its values.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws.
    public func withWork<Result>(
        maximumExecuting: Int = 8, maximumPending: Int = 1000, _ body: (WorkQueue) async throws -> Result
    ) async rethrows -> Result {
        let queue = WorkQueue(self, maximumExecuting: maximumExecuting, maximumPending: maximumPending)
        _ = queue.beginRunning()
        async let serving: Void = queue.serve()
        do {
            let result = try await body(queue)
            queue.close()
            await serving
            return result
        } catch {
            queue.close()
            queue.cancelAll()
            await serving
            throw error
        }
    }
}
