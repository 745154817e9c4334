---- MODULE LockTrace ----
\* Compares recorded calls of the scripts of exclusive locks with LockScripts.tla. traces/locks.py writes the calls into
\* Steps.tla; TLC prints the numbers of those that no operator allows. Times are in ms. Fences are replaced by numbers
\* with the same order and the same small differences.
\* A step: op; d, to: the states before and after; a: the arguments; r: the reply, unless it is unknown; now: Redis's
\* clock; said: the caller's reading of it, or 0; since: said minus the slack of fence-counter.lua
\* A state has the fields of LockScripts except recent, and keeps: the time for which the fence's key outlives the
\* moment that the fence names; lasts: the time for which the queue's key lasts, or 0.
EXTENDS LockScripts, Steps
CONSTANT Lifetime   \* locks.fence_lifetime
Seen(x) == [holder |-> x.holder, left |-> x.left, fence |-> x.fence, queue |-> x.queue]
\* Whether the fence is recent depends on the caller's clock: Env.
State(s) == [holder |-> s.d.holder, left |-> s.d.left, fence |-> s.d.fence, queue |-> s.d.queue,
             recent |-> FALSE]
Env(s, dead) == LET last == s.d.fence  mint == NextFence(last, FALSE, s.now) IN
  [mint |-> mint, dead |-> dead, back |-> FALSE,
   count |-> IF s.said = 0 THEN mint
             ELSE NextFence(last, IsRecent(last, s.since), IF last = 0 THEN s.now ELSE s.said)]
\* The tickets that were dropped after a message without receivers; by MONITOR, after a message.
Dead(s) == s.a.dead
Replied(s, r) == "r" \notin DOMAIN s \/ s.r = r
\* The fence's key expires at least a lifetime after the moment that the fence names, so that the clock has passed that
\* moment by then: "forget" in Lock.tla relies on it. Counting does not extend the key.
FenceKept(s, ttl) == LET least == Max(Lifetime, ttl) IN
  CASE s.to.fence = s.d.fence -> s.to.keeps = s.d.keeps \/ (ttl > Lifetime /\ s.to.keeps > s.d.keeps)
    [] OTHER -> \/ s.to.keeps \in {least, least + 1}
                \/ /\ s.to.fence = s.d.fence + 1 /\ s.to.keeps \in {s.d.keeps - 1, s.d.keeps}
                   /\ s.said /= 0 /\ IsRecent(s.d.fence, s.since)
\* The queue lasts while its ticket waits. for: how long the ticket waits, 0 if the call queues none. A ticket that a
\* release queues may get the lock at once.
QueueKept(s, ticket, for) ==
  IF s.to.queue = <<>> THEN s.to.lasts = 0
  ELSE IF for = 0 \/ (~Has(s.to.queue, ticket) /\ ticket /= s.to.holder) THEN s.to.lasts = s.d.lasts
  ELSE s.to.lasts = Max(s.d.lasts, for) \/ (s.to.lasts = for /\ s.to.queue = <<ticket>>)
Changes(s, r, ttl, ticket, for) ==
  Seen(r[1]) = Seen(s.to) /\ Replied(s, r[2]) /\ FenceKept(s, ttl) /\ QueueKept(s, ticket, for)
Acquired(s) == LET a == s.a  r == AcquireScript(State(s), a, Env(s, Dead(s) \ {a.ticket})) IN
  Changes(s, r, IF r[2].is = "held" THEN Claim ELSE a.ttl, a.ticket, IF r[2].is = "held" THEN a.waits ELSE a.others)
Released(s) == LET a == s.a  r == ReleaseScript(State(s), a, Env(s, Dead(s))) IN
  \/ Changes(s, r, IF r[2].is = "passed" THEN a.ttl ELSE Claim, a.ticket,
             CASE r[2].is = "freed" -> a.waits [] r[2].is = "passed" /\ ~a.on -> a.others [] OTHER -> 0)
  \/ \* full: the server lacked memory for the fence, so the script frees the lock and lets the sidecar try again
     /\ a.full /\ r[2].is = "passed" /\ Replied(s, [is |-> "freed", first |-> TRUE])
     /\ s.to = [s.d EXCEPT !.holder = Free, !.left = 0]
Freed(s, r) == Changes(s, r, Claim, Free, 0)
All(s) == {s.all[i] : i \in 1..Len(s.all)}   \* the locks of one call
Reads(x, r) == x.to = x.d /\ Replied(x, r)
Legal(s) ==
  CASE "unexpected" \in DOMAIN s -> FALSE   \* an error or a reply that no script gives
    [] "r" \in DOMAIN s /\ s.r.is = "error" -> s.to = s.d   \* Redis rejected the script's first write
    [] s.op = "acquire" -> Acquired(s)
    [] s.op = "renew" -> Changes(s, RenewScript(State(s), s.a), 0, Free, 0)
    [] s.op = "release" -> Released(s)
    [] s.op = "leave" -> Freed(s, LeaveScript(State(s), s.a.ticket, Env(s, Dead(s))))
    [] s.op = "break" -> Freed(s, BreakScript(State(s), s.a.only, Env(s, Dead(s))))
    [] s.op = "lease-state" -> \A x \in All(s) :
         Reads(x, [is |-> "state", left |-> LeaseStateScript(State(x), x.a.token, x.a.only)])
    [] s.op = "inspect" -> \A x \in All(s) :
         Reads(x, [is |-> "found", found |-> InspectScript(State(x), x.a.offered, x.a.most)])
ASSUME PrintT(<<"illegal", {i \in 1..Len(Steps) : ~Legal(Steps[i])}>>)
====
