import Dispatch
import HeapModule
import NIOConcurrencyHelpers
import NIOCore

/// The event loop of one simulated process, on the world's timeline. It runs jobs in order, immediately or at their
/// deadline. While the process is stopped, no jobs run.
///
/// The loop's clock may run slightly fast or slow.
final class SimulatedEventLoop: NIOSerialEventLoopExecutor, @unchecked Sendable {
    // Unchecked: a world and everything in it runs on one thread.

    private final class Job {
        var body: (() -> Void)?

        init(body: @escaping () -> Void) {
            self.body = body
        }
    }

    private struct ScheduledJob: Comparable {
        /// The deadline by this loop's clock.
        var deadline: Nanoseconds
        var order: UInt64
        var job: Job

        static func < (left: Self, right: Self) -> Bool { (left.deadline, left.order) < (right.deadline, right.order) }
        static func == (left: Self, right: Self) -> Bool { left.order == right.order }
    }

    private enum State {
        case running
        /// Stopped, as after SIGSTOP. Jobs wait.
        case stopped
        case dead
    }

    private let timeline: WorldTimeline
    /// The clock's drift, in parts per billion; positive if it runs fast.
    private let driftPerBillion: Int64
    private var state = State.running
    private var jobs = Heap<ScheduledJob>()
    private var lastOrder: UInt64 = 0
    /// The time of the next scheduled call of `run`, by this loop's clock; `.max` if there is none.
    private var nextRun = Nanoseconds.max
    /// The number of nested calls that run in the process now.
    private var depth = 0
    private lazy var succeededFuture: EventLoopFuture<Void> = {
        let promise = makePromise(of: Void.self)
        promise.succeed()
        return promise.futureResult
    }()

    init(timeline: WorldTimeline, driftPerBillion: Int64 = 0) {
        self.timeline = timeline
        self.driftPerBillion = driftPerBillion
    }

    /// The time by this loop's clock.
    var localNow: Nanoseconds {
        let elapsed = timeline.now - WorldTimeline.beginning
        // A single product of nanoseconds and drift would overflow after some years.
        let (seconds, remainder) = elapsed.quotientAndRemainder(dividingBy: 1_000_000_000)
        return timeline.now + seconds * driftPerBillion + remainder * driftPerBillion / 1_000_000_000
    }

    /// Returns the world's time when this loop's clock shows `local`, or slightly later, so that timers never fire
    /// early.
    private func worldTime(_ local: Nanoseconds) -> Nanoseconds {
        let ahead = local - localNow
        guard ahead > 0 else { return timeline.now }
        guard driftPerBillion != 0 else { return timeline.now + ahead }
        return timeline.now + Int64(Double(ahead) / (1 + Double(driftPerBillion) / 1e9)) + 1
    }

    // MARK: The process

    /// Runs `body` in this process immediately.
    func enter<Result>(_ body: () -> Result) -> Result {
        precondition(state == .running, "only a running process does anything")
        depth += 1
        defer {
            depth -= 1
            scheduleNextRun()
        }
        return body()
    }

    /// Stops the process, as SIGSTOP does.
    func stop() {
        guard state == .running else { return }
        state = .stopped
        nextRun = .max
    }

    /// Resumes the process, as SIGCONT does, and runs everything that is due.
    func resume() {
        guard state == .stopped else { return }
        state = .running
        scheduleNextRun()
    }

    /// Kills the process, as SIGKILL does. No job runs afterwards.
    func kill() {
        state = .dead
        RetainedObjects.retain(self)
    }

    private func scheduleNextRun() {
        guard state == .running, depth == 0, let next = jobs.min else { return }
        guard next.deadline < nextRun else { return }
        let deadline = next.deadline
        nextRun = deadline
        timeline.schedule(at: worldTime(deadline)) { [weak self] in
            // An earlier run may have superseded this one. Running now would then schedule the next run twice.
            guard let self, nextRun == deadline else { return }
            run()
        }
    }

    private func run() {
        guard state == .running else { return }
        nextRun = .max
        depth += 1
        while state == .running, let next = jobs.min, next.deadline <= localNow {
            jobs.removeMin()
            next.job.body?()
        }
        depth -= 1
        scheduleNextRun()
    }

    private func add(_ job: Job, at deadline: Nanoseconds) {
        lastOrder += 1
        jobs.insert(ScheduledJob(deadline: deadline, order: lastOrder, job: job))
        scheduleNextRun()
    }

    // MARK: EventLoop

    var now: NIODeadline { .uptimeNanoseconds(UInt64(localNow)) }

    var inEventLoop: Bool { depth > 0 }

    func execute(_ task: @escaping @Sendable () -> Void) {
        add(Job(body: task), at: localNow)
    }

    func submit<T>(_ task: @escaping @Sendable () throws -> T) -> EventLoopFuture<T> {
        scheduleTask(deadline: now, task).futureResult
    }

    @discardableResult
    func scheduleTask<T>(deadline: NIODeadline, _ task: @escaping @Sendable () throws -> T) -> Scheduled<T> {
        let promise = makePromise(of: T.self)
        let job = Job {
            do {
                promise.assumeIsolatedUnsafeUnchecked().succeed(try task())
            } catch {
                promise.fail(error)
            }
        }
        add(job, at: Int64(clamping: deadline.uptimeNanoseconds))
        nonisolated(unsafe) let scheduled = job
        return Scheduled(promise: promise) { scheduled.body = nil }
    }

    @discardableResult
    func scheduleTask<T>(in amount: TimeAmount, _ task: @escaping @Sendable () throws -> T) -> Scheduled<T> {
        scheduleTask(deadline: now + amount, task)
    }

    func makeSucceededVoidFuture() -> EventLoopFuture<Void> { succeededFuture }

    func preconditionInEventLoop(file: StaticString, line: UInt) {
        precondition(inEventLoop, "not in this simulated process", file: file, line: line)
    }

    func shutdownGracefully(queue: DispatchQueue, _ callback: @escaping @Sendable ((any Error)?) -> Void) {
        preconditionFailure("a simulated process ends with its world")
    }
}

/// Retains the objects of killed processes. In debug builds, NIO ends the program when a promise is released without a
/// result, and a killed process leaves many such promises.
enum RetainedObjects {
    #if DEBUG
    // Unsafe: guarded by the lock.
    private static let lock = NIOLock()
    private nonisolated(unsafe) static var objects: [AnyObject] = []

    static func retain(_ object: AnyObject) {
        lock.withLock { objects.append(object) }
    }
    #else
    static func retain(_ object: AnyObject) {}
    #endif
}
