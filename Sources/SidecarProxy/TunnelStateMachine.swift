internal import InterlockCore

/// The state of a tunnel between a client and an upstream. Pure: takes events and the time, and returns actions for
/// `Tunnel` to execute.
///
/// Each side is read only while the other accepts bytes. The tunnel closes when one side closes its connection, or when
/// no byte passes within the idle timeout.
struct TunnelStateMachine {
    enum Side {
        case client, upstream

        var other: Side { self == .client ? .upstream : .client }
    }

    enum Action: Equatable {
        case none
        case read(Side)
        case setTimer
        /// Close both sides, once the bytes that were written are sent.
        case close
    }

    /// Whether a side is read.
    private enum Reading {
        case flowing
        /// A read waits until the other side accepts bytes.
        case held
    }

    private enum State {
        case open(client: Reading, upstream: Reading)
        case closed
    }

    private var state = State.open(client: .flowing, upstream: .flowing)
    private var lastByteAt: Instant
    private let idleTimeoutMilliseconds: Int64

    /// Creates the state of a tunnel that opens now.
    /// - Parameter idleTimeoutMilliseconds: the time without a byte after which the tunnel closes.
    init(idleTimeoutMilliseconds: Int64, now: Instant) {
        self.idleTimeoutMilliseconds = idleTimeoutMilliseconds
        lastByteAt = now
    }

    /// The time at which `timerFired` is due.
    var timerDeadline: Instant { lastByteAt.advanced(byMilliseconds: idleTimeoutMilliseconds) }

    /// Reads from a side, or holds the read until the other side accepts bytes.
    mutating func readRequested(_ side: Side, isOtherWritable: Bool) -> Action {
        guard case .open = state, !isOtherWritable else { return .read(side) }
        self[side] = .held
        return .none
    }

    /// Reads from the other side if its read was held.
    mutating func becameWritable(_ side: Side) -> Action {
        guard self[side.other] == .held else { return .none }
        self[side.other] = .flowing
        return .read(side.other)
    }

    /// Restarts the idle timeout, because bytes have arrived.
    mutating func bytesReceived(now: Instant) { lastByteAt = now }

    mutating func timerFired(now: Instant) -> Action {
        guard case .open = state else { return .none }
        return timerDeadline <= now ? end() : .setTimer
    }

    /// Closes the tunnel, because a side has closed or failed, or the tunnel could not be set up.
    mutating func end() -> Action {
        guard case .open = state else { return .none }
        state = .closed
        return .close
    }

    private subscript(side: Side) -> Reading? {
        get {
            guard case .open(let client, let upstream) = state else { return nil }
            return side == .client ? client : upstream
        }
        set {
            guard case .open(let client, let upstream) = state, let newValue else { return }
            state = side == .client ? .open(client: newValue, upstream: upstream) : .open(client: client, upstream: newValue)
        }
    }
}
