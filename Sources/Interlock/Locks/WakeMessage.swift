internal import FoundationEssentials

/// Tells a sidecar that a lock it waits for may be free. Pub/sub ignores database numbers, so the message carries its own.
struct WakeMessage: Codable {
    var v = 1
    var db: Int
    var lock: String

    init(database: Int, lock: String) {
        db = database
        self.lock = lock
    }

    init?(_ payload: [UInt8]) {
        guard let message = try? JSONDecoder().decode(Self.self, from: Data(payload)), message.v == 1 else { return nil }
        self = message
    }

    var encoded: String {
        #"{"v":\#(v),"db":\#(db),"lock":\#(JSONText.quoted(lock))}"#
    }
}
