---- MODULE GroupScripts ----
\* The scripts of shared locks and semaphores as functions, like those of LockScripts.tla. Group.tla runs them among
\* callers; GroupTrace.tla compares them with recorded calls. While no group holds the lock, acquire, renew and release
\* are those of LockScripts.
\* x: l: the lock, q: the tickets in their order, n: how many fences the call has minted so far
\* l: kind: "free", "one" (who holds it), "offer" (who has its turn) or "group"; left: the time left of its key; slots:
\*    the group's, 0 for readers; in: token -> the time left of its lease in the group, turn: ticket -> of the slot that
\*    is reserved for it, 0 for none; told: the last notification of the first waiter behind readers; how: it was "told"
\*    to check, or has checked ("seen"); left: the time until the next notification
\* e: dead: the tickets whose sidecars do not listen; back: whether the clock was set back
EXTENDS LockScripts
CONSTANT Recheck   \* the delay until a waiter that has checked is notified again
Untold == [who |-> Free, how |-> "none", left |-> 0]
Zero(f) == [c \in DOMAIN f |-> 0]
Ended(l) == [kind |-> "free", who |-> Free, left |-> 0, slots |-> 0, in |-> Zero(l.in), turn |-> Zero(l.turn),
             told |-> Untold]
Lasting(f) == {c \in DOMAIN f : f[c] > 0}
Taken(l) == Cardinality(Lasting(l.in)) + Cardinality(Lasting(l.turn))
Room(l) == Taken(l) < l.slots \/ "slots" \notin Guards
\* The time until the first slot is free, -1 for readers.
NextEnd(l, slots) ==
  LET ends == {l.in[c] : c \in Lasting(l.in)} \cup {l.turn[c] : c \in Lasting(l.turn)} IN
  IF slots = 0 \/ ends = {} THEN -1 ELSE CHOOSE n \in ends : \A m \in ends : n <= m
\* share-fenced.lua. only: the fence of the only grant that may change, 0 for any; a token without a lease has no fence.
Names(fence, only) == only = 0 \/ fence \in {0, only}
\* ---- Fragments. locks.lua: a free lock is offered to the first ticket whose sidecar listens.
Offer(x, e) == LET a == Alive(x.q, e.dead) IN
  IF a = <<>> THEN [x EXCEPT !.l = Ended(@), !.q = a]
  ELSE [l |-> [Ended(x.l) EXCEPT !.kind = "offer", !.who = Head(a), !.left = Claim], q |-> Tail(a), n |-> x.n + 1]
\* groups.lua: reserves the free slots for the first tickets, up to the caller's own, which leaves the queue.
RECURSIVE Reserve(_, _, _)
Reserve(x, own, e) ==
  IF x.q = <<>> \/ ~Room(x.l) THEN x
  ELSE IF Head(x.q) = own THEN [x EXCEPT !.q = Tail(@)]
  ELSE IF Head(x.q) \in e.dead THEN Reserve([x EXCEPT !.q = Tail(@)], own, e)
  ELSE Reserve([l |-> [x.l EXCEPT !.turn[Head(x.q)] = Claim], q |-> Tail(x.q), n |-> x.n + 1], own, e)
\* groups.lua: notifies the first waiter behind readers, and drops a ticket that does not check within its claim window.
RECURSIVE Notify(_, _, _)
Notify(x, own, e) == LET t == x.l.told  first == First(x.q) IN
  IF first \in {Free, own} \/ (t.who = first /\ t.left > 0) THEN x
  ELSE IF (t.who = first /\ t.how = "told") \/ first \in e.dead THEN Notify([x EXCEPT !.q = Tail(@)], own, e)
  ELSE [x EXCEPT !.l.told = [who |-> first, how |-> "told", left |-> Claim]]
Fill(x, e) == IF x.l.kind /= "group" THEN x
              ELSE IF x.l.slots > 0 THEN Reserve(x, Free, e) ELSE Notify(x, Free, e)
Place(q, t) == IF t = Free THEN -1 ELSE (CHOOSE i \in 1..Len(q) : q[i] = t) - 1
\* a: token, ttl, take, ticket, more as in AcquireScript; slots: 0 for readers.
Refuse(x, a, after, e) == LET q == IF a.ticket = Free THEN x.q ELSE Enqueue(x.q, a.ticket, e) IN
  <<[x EXCEPT !.q = q], [is |-> "held", left |-> after, at |-> Place(q, a.ticket)]>>
\* Gives the caller a lease in the group of state x, and the remaining slots to the waiters. nth: the index of the
\* caller's fence among those that the call mints.
Join(x, a, e) ==
  LET w == a.ticket /= Free  l == [x.l EXCEPT !.in[a.token] = a.ttl]
      y == Fill([l |-> IF w THEN [l EXCEPT !.turn[a.ticket] = 0] ELSE l, n |-> x.n + 1,
                 q |-> IF w THEN Requeue(x.q, a.ticket, a.more, e) ELSE x.q], e)
  IN <<y, [is |-> "granted", nth |-> x.n + 1, after |-> NextEnd(y.l, a.slots)]>>
\* ---- Scripts, from <<l, q>>
Begin(l, q) == [l |-> l, q |-> q, n |-> 0]
\* acquire.lua, when a group holds the lock: a waiter that is first records that it has checked.
GroupAcquireScript(l, q, a, e) ==
  LET r == Refuse(Begin(l, q), a, l.left, e)
      seen == r[2].at = 0 /\ l.told.who /= Free IN
  IF l.slots > 0 THEN <<Begin(l, q), [is |-> "mode", slots |-> l.slots]>>
  ELSE <<IF seen THEN [r[1] EXCEPT !.l.told = [who |-> a.ticket, how |-> "seen", left |-> Recheck]] ELSE r[1], r[2]>>
\* share.lua
ShareScript(l, q, a, e) ==
  LET w == a.ticket /= Free  mode == IF l.kind = "group" THEN l.slots ELSE -1
      x == Begin(IF w /\ l.told.who = a.ticket THEN [l EXCEPT !.told = Untold] ELSE l, q)   \* the waiter checks
      new == [Ended(l) EXCEPT !.kind = "group", !.left = a.ttl, !.slots = a.slots]
      b == Alive(q, e.dead)   free == b = <<>> \/ (w /\ First(b) = a.ticket) \/ "queue_first" \notin Guards
      mine == w /\ l.kind = "offer" /\ l.who = a.ticket
      y == IF l.slots > 0 THEN Reserve(x, a.ticket, e) ELSE Notify(x, a.ticket, e)
      joins == IF l.slots > 0 THEN Room(y.l)
               ELSE First(y.q) = Free \/ (w /\ First(y.q) = a.ticket) \/ "readers_wait" \notin Guards
      soon == IF y.q /= <<>> /\ y.l.told.left < l.left THEN y.l.told.left ELSE l.left
  IN CASE (l.kind = "free" \/ mine) /\ ~a.take -> Refuse(x, a, -1, e)
       [] l.kind = "free" /\ ~free /\ a.take -> Refuse(Offer(x, e), a, Claim, e)
       [] l.kind = "free" /\ free /\ a.take -> Join(Begin(new, b), a, e)
       [] mine /\ a.take -> Join(Begin(new, q), a, e)
       [] l.kind = "offer" /\ ~mine -> Refuse(x, a, l.left, e)
       [] l.kind = "one" /\ a.slots = 0 -> Refuse(x, a, l.left, e)
       [] \/ l.kind = "one" /\ a.slots > 0
          \/ l.kind = "group" /\ (l.slots = 0) /= (a.slots = 0) /\ "mode" \in Guards ->
            <<x, [is |-> "mode", slots |-> mode]>>
       [] OTHER -> CASE l.in[a.token] > 0 ->   \* the owner has it already: the same fence, and no earlier end
                          LET z == [x EXCEPT !.l.in[a.token] = Max(@, a.ttl),
                                             !.q = IF w THEN Requeue(@, a.ticket, a.more, e) ELSE @] IN
                          <<z, [is |-> "extended", after |-> NextEnd(z.l, l.slots)]>>
                     [] l.in[a.token] = 0 /\ ~a.take ->
                          Refuse(x, a, IF l.slots > 0 THEN NextEnd(l, l.slots) ELSE l.left, e)
                     [] l.in[a.token] = 0 /\ a.take /\ w /\ l.turn[a.ticket] > 0 -> Join(x, a, e)
                     [] OTHER -> IF joins THEN Join(y, a, e)
                                 ELSE Refuse(y, a, IF l.slots > 0 THEN NextEnd(y.l, l.slots) ELSE soon, e)
\* share-renew.lua, fenced-share-renew.lua; fence: that of the token's grant; keeps: as in RenewScript
ShareRenewScript(l, q, a, fence) ==
  IF l.in[a.token] > 0 /\ Names(fence, a.only)
  THEN <<Begin([l EXCEPT !.in[a.token] = IF a.keeps THEN Max(@, a.ttl) ELSE a.ttl], q), [is |-> "renewed"]>>
  ELSE <<Begin(l, q), [is |-> "missing"]>>
\* share-release.lua, fenced-share-release.lua
ShareReleaseScript(l, q, a, fence, e) == LET x == Begin([l EXCEPT !.in[a.token] = 0], q) IN
  IF l.in[a.token] = 0 \/ ~Names(fence, a.only) THEN <<Begin(l, q), [is |-> "missing"]>>
  ELSE <<IF Taken(x.l) = 0 THEN Offer(x, e) ELSE Fill(x, e), [is |-> "ended"]>>
\* leave.lua, when a group holds the lock: readers may have waited only for this ticket. A group without leases ends.
GroupLeaveScript(l, q, t, e) ==
  LET x == Begin([l EXCEPT !.turn[t] = 0], Without(q, t))  y == Fill(x, e) IN
  CASE l.turn[t] > 0 -> <<IF Taken(y.l) = 0 THEN [y EXCEPT !.l = Ended(@)] ELSE y, [is |-> "passed"]>>
    [] l.turn[t] = 0 /\ l.slots = 0 /\ Has(q, t) -> <<y, [is |-> "left"]>>
    [] OTHER -> <<x, [is |-> "left"]>>
\* break.lua; fences: the fences of the group's grants
GroupBreakScript(l, q, only, fences, e) == IF only /= 0 /\ only \notin fences THEN <<Begin(l, q), [is |-> "missing"]>>
                                           ELSE <<Offer(Begin(l, q), e), [is |-> "broken"]>>
\* lease-state.lua, for the grant with this fence. Changes nothing.
GroupLeaseStateScript(l, token, fence, only) == IF l.in[token] > 0 /\ fence = only THEN l.in[token] ELSE -2
====
