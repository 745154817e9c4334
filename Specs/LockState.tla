---- MODULE LockState ----
\* The state of an exclusive lock among its clients; LockScripts.tla has the scripts, Lock.tla the actions. Time is
\* relative: leases and validities count down the ticks that are left. Redis's clock is abstracted to its order with
\* fences: a reading exceeds every granted fence, unless the clock was set back.
EXTENDS LockScripts
CONSTANTS
  Clients,        \* callers. Each grant has a new token, or with the event "owner" always the client's own
  Sidecars,       \* a partition of Clients: a sidecar is the set of its clients, and that set is also its ticket
  Servers,        \* the primary and its replicas
  Events,         \* a set of strings: what may happen besides acquire, release and expiry
  Ttls, Margin,   \* lease lengths in ticks; a holder relies on a lease for Margin ticks less, from before its request
  MaxTurn,        \* how many waiters a sidecar serves in a turn while other sidecars wait
  WaitReplicas, MaxFence, MaxFaults   \* locks.wait_replicas; bounds
VARIABLES
  db,     \* server -> holder (client, ticket or Free), ticks left, last fence (0: none), whether that fence is recent
          \* (less than a tick behind the clock; a tick is at least 100 ms), and the queue of tickets
  net,    \* pri: newest primary; live: servers that accept writes; cold: pri took over in this tick; back: the clock
          \* was set back and has not caught up; dead: killed sidecars; faults: number of faults
  lease,  \* client -> the grant it relies on while left > 0: fence f, position g in the order of grants
  call,   \* client -> its call; left: the validity if it succeeds; at: the server that ran it, or Free; acks: replicas
  sent,   \* the releases <<client, fence>> on their way
  side,   \* sidecar -> its waiting clients q, and the number n of waiters served in its turn
  ghost   \* hi: highest granted fence; n: number of grants; rose: whether fences rose; passed: ticket -> grants to
          \* other sidecars while it was queued. seen, newest: the highest fence and the newest grant that the resource
          \* has accepted; stale: whether it accepted an older grant after a newer one
vars == <<db, net, lease, call, sent, side, ghost>>
NoLease == [f |-> 0, g |-> 0, left |-> 0]
NoCall == [op |-> "none", ttl |-> 0, left |-> 0, f |-> 0, g |-> 0, at |-> Free, acks |-> {}]
Empty == [holder |-> Free, left |-> 0, fence |-> 0, recent |-> FALSE, queue |-> <<>>]
Init == /\ db = [s \in Servers |-> Empty] /\ lease = [c \in Clients |-> NoLease] /\ call = [c \in Clients |-> NoCall]
        /\ \E p \in Servers : net = [pri |-> p, live |-> {p}, cold |-> FALSE, back |-> "was_back" \in Events,
                                        dead |-> {}, faults |-> 0]
        /\ sent = {} /\ side = [t \in Sidecars |-> [q |-> <<>>, n |-> 0]] /\ ghost = [hi |-> 0, n |-> 0, rose |-> TRUE,
             seen |-> 0, newest |-> 0, stale |-> FALSE, passed |-> [t \in Sidecars |-> 0]]
Home == [c \in Clients |-> CHOOSE t \in Sidecars : c \in t]
Waits(c) == Has(side[Home[c]].q, c)
Fault(e) == e \in Events /\ net.faults < MaxFaults
\* ---- The scripts' surroundings. The counter goes on only while the last fence is recent, and not for a tick after a
\* failover (the commands then carry no time). The model always uses the lower of the two next fences.
NewFence(s) == LET cold == net.cold /\ s = net.pri /\ "clock_after_failover" \in Guards IN
  IF "fences" \notin Events THEN 0
  ELSE NextFence(db[s].fence, (db[s].recent /\ ~cold) \/ "fence_from_clock" \notin Guards,
                 IF net.back THEN 1 ELSE ghost.hi + 1)
\* With "hang", a killed sidecar still seems to listen: its connection stays.
Env(s) == [count |-> NewFence(s), mint |-> NewFence(s), dead |-> IF "hang" \in Events THEN {} ELSE net.dead,
           back |-> net.back]
NextGrant == IF "fences" \in Events THEN ghost.n + 1 ELSE 0
\* Server s grants the lock to client c, in the new state d. n: its number in its sidecar's turn, 0 if it did not wait.
Grant(s, c, d, ttl, left, n) == LET f == d.fence  t == Home[c]  w == Without(side[t].q, c)  g == NextGrant IN
  /\ db' = [db EXCEPT ![s] = d]
  /\ call' = [call EXCEPT ![c] =
       [op |-> "acquire", ttl |-> ttl, left |-> left, f |-> f, g |-> g, at |-> s, acks |-> {}]]
  /\ side' = [side EXCEPT ![t] = [q |-> w, n |-> IF w = <<>> THEN 0 ELSE n]]
  /\ ghost' = [ghost EXCEPT
       !.hi = Max(@, f), !.n = g, !.rose = @ /\ f > ghost.hi,
       !.passed = [u \in Sidecars |-> IF u /= t /\ Has(db[s].queue, u) THEN @[u] + 1 ELSE 0]]
Counted(s, t) == [ghost EXCEPT !.passed[t] = IF Has(db[s].queue, t) THEN @ ELSE 0]
====
