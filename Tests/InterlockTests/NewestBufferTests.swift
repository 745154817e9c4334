import InterlockCore
import Testing

@Suite("A buffer that keeps the newest elements", .timeLimit(.minutes(1)))
struct NewestBufferTests {
    @Test("Elements beyond the capacity drop the oldest ones, which are counted")
    func fullBufferDropsOldestElements() async {
        let buffer = NewestBuffer<Int>(capacity: 3)
        let results = (1...5).map { buffer.push($0) }
        buffer.finish()
        #expect(results == [true, true, true, false, false])
        #expect(buffer.dropped == 2)
        #expect(await Self.remaining(in: buffer) == [3, 4, 5])
    }

    @Test("With several readers, each element goes to one of them")
    func severalReaders() async {
        let buffer = NewestBuffer<Int>(capacity: 2)
        async let first = buffer.next()
        async let second = buffer.next()
        buffer.push(1)
        buffer.push(2)
        #expect(await Set([first, second]) == [1, 2])
    }

    @Test("After the buffer is finished its elements can be read, and none is added")
    func finished() async {
        let buffer = NewestBuffer<Int>(capacity: 3)
        buffer.push(1)
        buffer.finish()
        buffer.push(2)
        #expect(await Self.remaining(in: buffer) == [1])
    }

    @Test("After a cancellation nothing can be read")
    func cancelled() async {
        let buffer = NewestBuffer<Int>(capacity: 3)
        buffer.push(1)
        buffer.cancel()
        #expect(await Self.remaining(in: buffer).isEmpty)
    }

    @Test("A cancelled task stops waiting")
    func cancelledTask() async {
        let buffer = NewestBuffer<Int>(capacity: 3)
        let reader = Task { await buffer.next() }
        reader.cancel()
        #expect(await reader.value == nil)
    }

    @Test("An element that is useful only to an idle reader is kept only if the buffer is empty")
    func idle() async {
        let buffer = NewestBuffer<Int>(capacity: 1)
        buffer.pushIfEmpty(1)
        buffer.pushIfEmpty(2)
        buffer.push(3)
        buffer.pushIfEmpty(4)
        buffer.finish()
        #expect(await Self.remaining(in: buffer) == [3])
    }

    private static func remaining(in buffer: NewestBuffer<Int>) async -> [Int] {
        var elements: [Int] = []
        while let element = await buffer.next() { elements.append(element) }
        return elements
    }
}
