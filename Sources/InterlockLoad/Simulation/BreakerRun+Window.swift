internal import Glibc
internal import InterlockCore

/// The outcomes of the window, in slices.
extension BreakerRun {
    private static let slices: Int64 = 10
    /// What a window of calls holds goes by calls; without any it is dropped a day later.
    private static let idleWindow: Int64 = 86_400_000

    /// Calls, failures and slow calls.
    private typealias Slice = [Double]

    /// Counts sums that were reported. Returns what the window holds now.
    @discardableResult
    mutating func add(_ sums: OutcomeSums) -> OutcomeSums {
        var slices: [Int64: Slice] = [:]
        for (number, slice) in redis.fields(window) {
            slices[Int64(number) ?? 0] = slice.split(separator: ":").map { Double($0) ?? 0 }
        }
        let mine = [Double(sums.calls), Double(sums.failures), Double(sums.slow)]
        let (current, kept, lifetime) =
            switch call.settings.window {
            case .time(let length): add(mine, byTime: length.wholeMilliseconds, to: &slices)
            case .calls(let count): add(mine, byCalls: count, to: &slices)
            }
        var total: Slice = [0, 0, 0]
        for number in slices.keys.sorted() {
            let slice = slices[number] ?? total
            // One of the future was counted under another length.
            if number <= current - kept || number > current {
                redis.deleteField(window, "\(number)")
            } else {
                for index in total.indices { total[index] += slice[index] }
                redis.setFields(window, ["\(number)": slice.map { "\(Int64($0))" }.joined(separator: ":")])
            }
        }
        redis.pexpire(window, lifetime)
        let run = sums.trailingFailures + (sums.failures == sums.calls ? number("consecutive") : 0)
        redis.setFields(
            key,
            [
                "failure_rate": Self.rounded(total[1] / total[0]), "slow_rate": Self.rounded(total[2] / total[0]),
                "calls": "\(Int64(total[0]))", "consecutive": "\(run)",
            ])
        return OutcomeSums(
            calls: Int64(total[0]), failures: Int64(total[1]), slow: Int64(total[2]), trailingFailures: run)
    }

    /// Adds to the slice of the present time. Returns the number of the newest slice, how many count, and how long they are kept.
    private func add(_ sums: Slice, byTime length: Int64, to slices: inout [Int64: Slice]) -> (Int64, Int64, Int64) {
        let width = max(1, length / Self.slices)
        let current = now / width
        let mine = slices[current] ?? [0, 0, 0]
        slices[current] = zip(mine, sums).map(+)
        return (current, Self.slices, length + width)
    }

    /// Fills slices, evenly mixed. The last one is being filled; behind it stand as many as a window is.
    private func add(_ sums: Slice, byCalls count: Int, to slices: inout [Int64: Slice]) -> (Int64, Int64, Int64) {
        let width = Double((Int64(count) + Self.slices - 1) / Self.slices)
        var current = max(0, slices.keys.max() ?? 0)
        var left = sums
        let most = width * Double(Self.slices + 1)
        if left[0] > most {
            let share = most / left[0]
            left = [most, (left[1] * share + 0.5).rounded(.down), (left[2] * share + 0.5).rounded(.down)]
        }
        while left[0] > 0 {
            var slice = slices[current] ?? [0, 0, 0]
            if slice[0] >= width {
                current += 1
                slice = [0, 0, 0]
            }
            let room = width - slice[0]
            let share = min(1, room / left[0])
            let parts = [min(left[0], room)] + left[1...].map { ($0 * share + 0.5).rounded(.down) }
            slices[current] = zip(slice, parts).map(+)
            left = zip(left, parts).map(-)
        }
        return (current, Self.slices + 1, Self.idleWindow)
    }

    /// As `%.3f` prints it.
    private static func rounded(_ share: Double) -> String {
        var buffer = [CChar](repeating: 0, count: 32)
        let length = withVaList([share]) { vsnprintf(&buffer, buffer.count, "%.3f", $0) }
        return String(decoding: buffer[..<Int(length)].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
